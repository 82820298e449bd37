//! `sql`: an expression in the job file, evaluated on whole batches.
//!
//! A query is read once, when the task is made; its names are bound to the columns of the first
//! batch, and again if the columns change; then it is a small tree whose every step is a kernel of
//! Arrow's over a column. Types are found by evaluating the tree on a batch without rows, so there
//! is one place where types meet and not two.
//!
//! What is here is what one segment can answer for itself. Bringing segments together is grouping.

mod bind;
mod call;
mod coerce;
mod node;
mod number;
mod operate;
mod parse;
mod pattern;
mod text;
mod time;
mod value;

use std::sync::{Arc, Mutex, PoisonError};

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions},
    compute::FilterBuilder,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use sqlparser::ast::Expr;

pub(crate) use text::lower;

use crate::Function;
use bind::{Binder, Item};
use node::Node;
use value::Value;

/// The function `sql`.
pub(crate) struct Sql {
    query: parse::Query,
    bound: Option<Bound>,
}

impl Sql {
    /// Reads the query, and finds what is wrong with it whatever the columns are.
    pub(crate) fn new(query: &str) -> Result<Sql, String> {
        let query = parse::query(query).map_err(|why| format!("query {why}"))?;
        let mut binder = Binder::new(None, &query.table);
        query.filter.iter().try_for_each(|filter| binder.expr(filter).map(drop))?;
        // Without columns, two of one name cannot be told.
        for item in &query.items {
            binder.items(std::slice::from_ref(item))?;
        }
        Ok(Sql { query, bound: None })
    }
}

impl Function for Sql {
    fn apply(&mut self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let schema = batch.schema();
        let is_bound = self
            .bound
            .as_ref()
            .is_some_and(|bound| Arc::ptr_eq(&bound.schema, &schema) || bound.schema == schema);
        if !is_bound {
            self.bound = Some(Bound::new(&self.query, &schema)?);
        }
        match &self.bound {
            Some(bound) => bound.apply(batch),
            None => Err("the query is not bound".into()),
        }
    }
}

/// A query on batches of one schema.
struct Bound {
    schema: SchemaRef,
    filter: Option<(String, Node)>,
    /// The columns that are selected from: the others are dropped before rows are.
    used: Vec<usize>,
    items: Vec<Item>,
}

impl Bound {
    fn new(query: &parse::Query, schema: &SchemaRef) -> Result<Bound, String> {
        let mut binder = Binder::new(Some(schema), &query.table);
        let filter = match &query.filter {
            Some(filter) => Some((filter.to_string(), binder.expr(filter)?)),
            None => None,
        };
        binder.used.clear();
        binder.items(&query.items)?;
        let used: Vec<usize> = binder.used.into_iter().collect();
        // Bound again, to the columns that are left.
        let mut binder = Binder::new(Some(schema), &query.table);
        binder.left = Some(&used);
        let items = binder.items(&query.items)?;
        let bound = Bound { schema: schema.clone(), filter, used, items };
        bound.apply(&RecordBatch::new_empty(schema.clone()))?;
        Ok(bound)
    }

    fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, String> {
        let mut rows = batch.project(&self.used).map_err(|why| why.to_string())?;
        if let Some((text, filter)) = &self.filter {
            let holds = holds(filter, batch).map_err(|why| format!("{text}: {why}"))?;
            rows = keep(&rows, &holds)?;
        }
        let n_rows = rows.num_rows();
        let mut fields = Vec::with_capacity(self.items.len());
        let mut columns = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let value = item.node.eval(&rows).and_then(|value| value.spread(n_rows));
            let column = value.map_err(|why| format!("{}: {why}", item.name))?;
            fields.push(match &item.field {
                Some(field) => field.as_ref().clone().with_name(&item.name),
                None => Field::new(&item.name, column.data_type().clone(), true),
            });
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|why| why.to_string())
    }
}

/// Of which rows it is true; null is no.
fn holds(node: &Node, batch: &RecordBatch) -> Result<BooleanArray, String> {
    let value = node.eval(batch)?;
    let truths = value.truths()?;
    match &value {
        Value::Array(_) => Ok(value::known(&truths)),
        Value::Scalar(_) => {
            let is_true = truths.iter().next().flatten() == Some(true);
            Ok(BooleanArray::from(vec![is_true; batch.num_rows()]))
        }
    }
}

/// The rows of which it holds; the batch itself if it holds of all.
pub(crate) fn keep(batch: &RecordBatch, holds: &BooleanArray) -> Result<RecordBatch, String> {
    let n_rows = holds.true_count();
    if n_rows == batch.num_rows() {
        return Ok(batch.clone());
    }
    if n_rows == 0 {
        return Ok(batch.slice(0, 0));
    }
    let mut filter = FilterBuilder::new(holds);
    if batch.num_columns() > 1 {
        filter = filter.optimize();
    }
    let filter = filter.build();
    let columns = batch.columns().iter().map(|column| filter.filter(column));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
        .map_err(|why| why.to_string())
}

/// The type that SQL calls so.
pub(crate) fn type_of_name(name: &str) -> Result<DataType, String> {
    coerce::of_name(name)
}

/// As `cast` in a query does it.
pub(crate) fn cast_to(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    Ok(coerce::strict(&Value::Array(column.clone()), to)?.array().clone())
}

/// A question about segments in SQL, as flow conditions ask it. Peers share it.
pub(crate) struct Condition {
    text: String,
    expr: Expr,
    /// The last columns it was bound to, and as what.
    bound: Mutex<Option<(SchemaRef, Arc<Node>)>>,
}

impl Condition {
    /// Reads it, and finds what is wrong with it whatever the columns are.
    pub(crate) fn new(text: &str) -> Result<Condition, String> {
        let expr = parse::condition(text).map_err(|why| format!("{text:?} {why}"))?;
        Binder::new(None, "segments").expr(&expr)?;
        Ok(Condition { text: text.into(), expr, bound: Mutex::new(None) })
    }

    /// Of which rows it is true; null is no.
    pub(crate) fn holds(&self, batch: &RecordBatch) -> Result<BooleanArray, String> {
        let at = |why: String| format!("{}: {why}", self.text);
        let node = self.node(&batch.schema()).map_err(at)?;
        holds(&node, batch).map_err(at)
    }

    fn node(&self, schema: &SchemaRef) -> Result<Arc<Node>, String> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, node)) = bound.as_ref()
            && (Arc::ptr_eq(known, schema) || known == schema)
        {
            return Ok(node.clone());
        }
        let node = Arc::new(Binder::new(Some(schema), "segments").expr(&self.expr)?);
        *bound = Some((schema.clone(), node.clone()));
        Ok(node)
    }
}

#[cfg(test)]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
