//! `parse-json`: a column of JSON objects as texts to columns.
//!
//! Which columns, and of which types, the task says: what happens to be in the first segments would
//! be another answer for every batch. What a segment does not have is null; what does not fit its
//! type is an error of that segment.

use std::{fmt::Write as _, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringBuilder},
    compute::cast,
    datatypes::DataType,
};
use serde_json::Value as Json;
use sonic_rs::{JsonType, JsonValueTrait};

use super::columns;
use crate::{Function, Terms, partition, sql};

const EXAMPLE: &str = "write columns = { user = \"text\", bytes = \"bigint\" }";

/// The function of that name.
pub(super) struct ParseJson {
    column: String,
    columns: Vec<(String, DataType)>,
}

impl ParseJson {
    pub(super) fn new(terms: &Terms) -> Result<ParseJson, String> {
        let column = terms.text("column")?.unwrap_or("line").to_owned();
        let table = match terms.keys.get("columns") {
            Some(Json::Object(table)) if !table.is_empty() => table,
            _ => return Err(format!("needs columns: {EXAMPLE}")),
        };
        let mut columns = Vec::new();
        for (name, data_type) in table {
            let data_type =
                data_type.as_str().ok_or_else(|| format!("columns.{name}: {EXAMPLE}"))?;
            let data_type =
                sql::type_of_name(data_type).map_err(|why| format!("columns.{name}: {why}"))?;
            columns.push((name.clone(), data_type));
        }
        Ok(ParseJson { column, columns })
    }
}

impl Function for ParseJson {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let texts = cast(partition::column(batch, &self.column)?, &DataType::Utf8);
        let texts = texts.map_err(|why| format!("{}: {why}", self.column))?;
        let texts = texts.as_string::<i32>();
        let mut builders: Vec<StringBuilder> =
            self.columns.iter().map(|_| StringBuilder::new()).collect();
        for text in texts {
            let object = text.map(parse).transpose()?;
            for ((name, _), builder) in self.columns.iter().zip(&mut builders) {
                append(builder, object.as_ref().and_then(|object| find(object, name)))?;
            }
        }
        let mut result = columns::without(batch, &self.column)?;
        for ((name, data_type), mut builder) in self.columns.iter().zip(builders) {
            let texts: ArrayRef = Arc::new(builder.finish());
            let column = sql::cast_to(&texts, data_type).map_err(|why| format!("{name}: {why}"))?;
            result = columns::with(&result, name, column)?;
        }
        Ok(result)
    }
}

fn parse(text: &str) -> Result<sonic_rs::Value, String> {
    let object: sonic_rs::Value = sonic_rs::from_str(text)
        .map_err(|why| format!("this is no JSON: {}: {text}", first(&why)))?;
    match object.is_object() {
        true => Ok(object),
        false => Err(format!("this is no JSON object: {text}")),
    }
}

/// The library draws the place below its message, which does not go into a line.
fn first(why: &sonic_rs::Error) -> String {
    why.to_string().lines().next().unwrap_or_default().to_owned()
}

/// By its name, or below others with dots between: `request.path`.
fn find<'a>(object: &'a sonic_rs::Value, name: &str) -> Option<&'a sonic_rs::Value> {
    object.get(name).or_else(|| name.split('.').try_fold(object, |at, name| at.get(name)))
}

/// As the text that becomes the column's type.
fn append(builder: &mut StringBuilder, value: Option<&sonic_rs::Value>) -> Result<(), String> {
    let Some(value) = value else {
        builder.append_null();
        return Ok(());
    };
    match value.get_type() {
        JsonType::Null => builder.append_null(),
        JsonType::String => builder.append_value(value.as_str().unwrap_or_default()),
        JsonType::Boolean | JsonType::Number | JsonType::Object | JsonType::Array => {
            let text = sonic_rs::to_string(value).map_err(|why| why.to_string())?;
            builder.write_str(&text).map_err(|why| why.to_string())?;
            builder.append_value("");
        }
    }
    Ok(())
}
