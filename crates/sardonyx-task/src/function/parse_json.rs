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

fn parse(text: &str) -> Result<Json, String> {
    let object: Json =
        serde_json::from_str(text).map_err(|why| format!("this is no JSON: {why}: {text}"))?;
    match object.is_object() {
        true => Ok(object),
        false => Err(format!("this is no JSON object: {text}")),
    }
}

/// By its name, or below others with dots between: `request.path`.
fn find<'a>(object: &'a Json, name: &str) -> Option<&'a Json> {
    object.get(name).or_else(|| name.split('.').try_fold(object, |at, name| at.get(name)))
}

/// As the text that becomes the column's type.
fn append(builder: &mut StringBuilder, value: Option<&Json>) -> Result<(), String> {
    let Some(value) = value else {
        builder.append_null();
        return Ok(());
    };
    match value {
        Json::Null => builder.append_null(),
        Json::String(text) => builder.append_value(text),
        Json::Bool(_) | Json::Number(_) | Json::Object(_) | Json::Array(_) => {
            write!(builder, "{value}").map_err(|why| why.to_string())?;
            builder.append_value("");
        }
    }
    Ok(())
}
