//! A query's expression, ready to be evaluated on batches of one schema.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array, new_null_array},
    compute::{self, filter_record_batch, kernels::zip::zip, take},
    datatypes::DataType,
};

use super::{
    coerce,
    operate::{self, Arithmetic, Comparison, Logic},
    value::{Value, known},
};

/// What a function does: the arguments, and how many rows its result must have.
pub(super) type Body = dyn Fn(&[Value], usize) -> Result<ArrayRef, String> + Send + Sync;

/// One step of an expression.
#[derive(Clone)]
pub(super) enum Node {
    Column(usize),
    Literal(ArrayRef),
    Field(Box<Node>, String),
    Convert {
        node: Box<Node>,
        to: DataType,
        is_try: bool,
    },
    Compare(Comparison, Box<Node>, Box<Node>),
    Calculate(Arithmetic, Box<Node>, Box<Node>),
    Join(Logic, Box<Node>, Box<Node>),
    /// Any number of truths with `or` between; `in` is that.
    AnyOf(Vec<Node>),
    Not(Box<Node>),
    Negate(Box<Node>),
    IsNull(Box<Node>),
    Is(bool, Box<Node>),
    Like {
        ignores_case: bool,
        node: Box<Node>,
        pattern: Box<Node>,
    },
    NullIf(Box<Node>, Box<Node>),
    /// Conditions with what they lead to; the last is what is left.
    Case(Vec<(Node, Node)>, Box<Node>),
    Coalesce(Vec<Node>),
    Call {
        name: &'static str,
        body: Arc<Body>,
        args: Vec<Node>,
    },
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node")
    }
}

impl Node {
    /// The value on this batch.
    pub(super) fn eval(&self, batch: &RecordBatch) -> Result<Value, String> {
        match self {
            Node::Column(at) => Ok(Value::Array(batch.column(*at).clone())),
            Node::Literal(array) => Ok(Value::Scalar(array.clone())),
            Node::Field(node, name) => node.eval(batch)?.map(|array| field(array, name)),
            Node::Convert { node, to, is_try } => coerce::convert(&node.eval(batch)?, to, *is_try),
            Node::Compare(op, a, b) => operate::compare(*op, &a.eval(batch)?, &b.eval(batch)?),
            Node::Calculate(op, a, b) => operate::calculate(*op, &a.eval(batch)?, &b.eval(batch)?),
            Node::Join(op, a, b) => join(*op, a, b, batch),
            Node::AnyOf(nodes) => any_of(nodes, batch),
            Node::Not(node) => operate::not(&node.eval(batch)?),
            Node::Negate(node) => operate::negate(&node.eval(batch)?),
            Node::IsNull(node) => operate::is_null(&node.eval(batch)?),
            Node::Is(wanted, node) => operate::is(*wanted, &node.eval(batch)?),
            Node::Like { ignores_case, node, pattern } => {
                operate::like(*ignores_case, &node.eval(batch)?, &pattern.eval(batch)?)
            }
            Node::NullIf(a, b) => operate::null_if(&a.eval(batch)?, &b.eval(batch)?),
            Node::Case(branches, otherwise) => case(branches, otherwise, batch),
            Node::Coalesce(nodes) => coalesce(nodes, batch),
            Node::Call { name, body, args } => call(name, body.as_ref(), args, batch),
        }
    }

    /// The value, if it is the same whatever the batch.
    pub(super) fn constant(&self) -> Option<ArrayRef> {
        match self {
            Node::Literal(array) => Some(array.clone()),
            Node::Convert { node, to, is_try } => {
                let value = Value::Scalar(node.constant()?);
                Some(coerce::convert(&value, to, *is_try).ok()?.array().clone())
            }
            Node::Negate(node) => {
                Some(operate::negate(&Value::Scalar(node.constant()?)).ok()?.array().clone())
            }
            Node::Column(_)
            | Node::Field(_, _)
            | Node::Compare(_, _, _)
            | Node::Calculate(_, _, _)
            | Node::Join(_, _, _)
            | Node::AnyOf(_)
            | Node::Not(_)
            | Node::IsNull(_)
            | Node::Is(_, _)
            | Node::Like { .. }
            | Node::NullIf(_, _)
            | Node::Case(_, _)
            | Node::Coalesce(_)
            | Node::Call { .. } => None,
        }
    }
}

fn field(array: &ArrayRef, name: &str) -> Result<ArrayRef, String> {
    let array_of = array.as_struct_opt();
    let array_of = array_of.ok_or_else(|| {
        format!("{} has no fields, so no {name}", coerce::name(array.data_type()))
    })?;
    let Some(field) = array_of.column_by_name(name) else {
        let known = crate::nearest::nearest_first(name, array_of.column_names());
        let known = crate::nearest::list(known.into_iter());
        return Err(format!("there is no field {name:?}; the fields are {known}"));
    };
    // A struct that is null has only nulls inside, whatever lies there.
    match array_of.nulls() {
        None => Ok(field.clone()),
        Some(nulls) => {
            let is_gone = BooleanArray::new(!nulls.inner(), None);
            compute::nullif(field, &is_gone).map_err(|why| why.to_string())
        }
    }
}

fn any_of(nodes: &[Node], batch: &RecordBatch) -> Result<Value, String> {
    let mut values = nodes.iter().map(|node| node.eval(batch));
    let first = values.next().unwrap_or_else(|| null().eval(batch))?;
    values.try_fold(first, |any, value| operate::join(Logic::Or, &any, &value?))
}

/// The right side may rely on the left (`b <> 0 and a // b > 1`): if it fails on all rows, it is
/// asked only about those that the left has not decided.
fn join(op: Logic, a: &Node, b: &Node, batch: &RecordBatch) -> Result<Value, String> {
    let left = a.eval(batch)?;
    let right = b.eval(batch).or_else(|why| {
        if left.is_scalar() {
            return Err(why);
        }
        let decided = Some(op == Logic::Or);
        let truths = left.truths()?;
        let open: BooleanArray = truths.iter().map(|it| Some(it != decided)).collect();
        guarded(b, batch, &open).map(Value::Array)
    })?;
    operate::join(op, &left, &right)
}

/// The value for the rows of the mask, null for the others.
fn guarded(node: &Node, batch: &RecordBatch, mask: &BooleanArray) -> Result<ArrayRef, String> {
    let rows = filter_record_batch(batch, mask).map_err(|why| why.to_string())?;
    let values = node.eval(&rows)?.spread(rows.num_rows())?;
    let mut next = 0u32;
    let places: UInt32Array = mask
        .iter()
        .map(|it| {
            let place = (it == Some(true)).then_some(next);
            next += u32::from(place.is_some());
            place
        })
        .collect();
    take(&values, &places, None).map_err(|why| why.to_string())
}

fn case(branches: &[(Node, Node)], otherwise: &Node, batch: &RecordBatch) -> Result<Value, String> {
    let n_rows = batch.num_rows();
    let mut masks = Vec::new();
    let mut values = Vec::new();
    let mut open = BooleanArray::from(vec![true; n_rows]);
    for (condition, result) in branches {
        // A condition is only asked about the rows that those before it have left.
        let holds = match condition.eval(batch) {
            Ok(holds) => holds.spread(n_rows)?,
            Err(_) => guarded(condition, batch, &open)?,
        };
        let holds = known(&Value::Array(holds).truths()?);
        let mask = compute::and(&holds, &open).map_err(|why| why.to_string())?;
        let left = compute::and_not(&open, &holds).map_err(|why| why.to_string())?;
        values.push(branch(result, batch, &mask)?);
        masks.push(mask);
        open = left;
    }
    values.push(branch(otherwise, batch, &open)?);
    let values = coerce::alike(&values)?;
    let mut values = values.into_iter().rev();
    let Some(mut result) = values.next() else { return Err("a case without branches".into()) };
    for (mask, value) in masks.iter().rev().zip(values) {
        result = Value::Array(zip(mask, &value, &result).map_err(|why| why.to_string())?);
    }
    Ok(Value::Array(result.spread(n_rows)?))
}

/// On all rows, which is fastest; if that fails, on those that are meant, which decides.
fn branch(node: &Node, batch: &RecordBatch, mask: &BooleanArray) -> Result<Value, String> {
    node.eval(batch).or_else(|_| guarded(node, batch, mask).map(Value::Array))
}

fn coalesce(nodes: &[Node], batch: &RecordBatch) -> Result<Value, String> {
    let values = nodes.iter().map(|node| node.eval(batch)).collect::<Result<Vec<_>, _>>()?;
    let mut values = coerce::alike(&values)?.into_iter();
    let Some(mut result) = values.next() else { return Err("coalesce of nothing".into()) };
    for value in values {
        if result.array().logical_null_count() == 0 {
            break;
        }
        let parts = [&result.clone(), &value];
        let n_rows = parts.iter().map(|it| if it.is_scalar() { 1 } else { batch.num_rows() }).max();
        let known = result.spread(n_rows.unwrap_or(1))?;
        let is_known = compute::is_not_null(&known).map_err(|why| why.to_string())?;
        let merged = zip(&is_known, &Value::Array(known), &value).map_err(|why| why.to_string())?;
        result = Value::from(&parts, merged);
    }
    Ok(result)
}

fn call(name: &str, body: &Body, args: &[Node], batch: &RecordBatch) -> Result<Value, String> {
    let args = args.iter().map(|arg| arg.eval(batch)).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&Value> = args.iter().collect();
    let is_scalar = parts.iter().all(|part| part.is_scalar());
    let n_rows = if is_scalar { 1 } else { batch.num_rows() };
    let result = body(&args, n_rows).map_err(|why| format!("{name} {why}"))?;
    Ok(Value::from(&parts, result))
}

/// Null, of no type yet.
pub(super) fn null() -> Node {
    Node::Literal(new_null_array(&DataType::Null, 1))
}
