//! Functions by name.

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::{
    node::{Body, Node, null},
    number, pattern, text, time,
    value::Value,
};
use crate::nearest;

/// A function: its name, the fewest and the most arguments, and what it does.
pub(super) struct Function(
    pub(super) &'static str,
    pub(super) usize,
    pub(super) usize,
    pub(super) fn(&[Value], usize) -> Result<ArrayRef, String>,
);

const FORMS: &[&str] = &["coalesce", "ifnull", "nullif", "if"];

const AGGREGATES: &[&str] =
    &["count", "sum", "min", "max", "avg", "collect", "array_agg", "list", "first", "last"];

const NOT_REPEATABLE: &[&str] =
    &["now", "current_timestamp", "current_date", "current_time", "random", "rand", "uuid"];

fn functions() -> impl Iterator<Item = &'static Function> {
    [text::FUNCTIONS, number::FUNCTIONS, time::FUNCTIONS].into_iter().flatten()
}

/// The call of `name`, or what to write instead.
pub(super) fn bind(name: &str, args: Vec<Node>) -> Result<Node, String> {
    let name = name.to_lowercase();
    if let Some(bound) = pattern::bind(&name, &args).or_else(|| time::bind(&name, &args)) {
        return bound;
    }
    let n_args = args.len();
    match (name.as_str(), n_args) {
        ("coalesce", 1..) | ("ifnull", 2) => return Ok(Node::Coalesce(args)),
        ("nullif", 2) | ("if", 2..=3) => return Ok(form(&name, args)),
        _ => {}
    }
    match functions().find(|it| it.0 == name) {
        Some(Function(_, min, max, _)) if !(*min..=*max).contains(&n_args) => {
            Err(format!("{name} takes {}, not {n_args}", span(*min, *max)))
        }
        Some(Function(name, _, _, body)) => {
            let body: Arc<Body> = Arc::new(*body);
            Ok(Node::Call { name, body, args })
        }
        None => Err(refusal(&name)),
    }
}

fn form(name: &str, args: Vec<Node>) -> Node {
    let mut args = args.into_iter();
    let mut next = || args.next().unwrap_or_else(null);
    match name {
        "nullif" => Node::NullIf(Box::new(next()), Box::new(next())),
        _ => Node::Case(vec![(next(), next())], Box::new(next())),
    }
}

fn span(min: usize, max: usize) -> String {
    match (min, max) {
        (1, 1) => "one argument".into(),
        (min, max) if min == max => format!("{min} arguments"),
        (min, usize::MAX) => format!("at least {min} arguments"),
        (min, max) => format!("{min} to {max} arguments"),
    }
}

fn refusal(name: &str) -> String {
    if AGGREGATES.contains(&name) {
        return format!(
            "{name} needs many rows: write a task with group-by and fn = \"{name}\" after this one"
        );
    }
    if let Some(refusal) = not_repeatable(name) {
        return refusal;
    }
    let known = functions().map(|it| it.0);
    let all = known.chain(FORMS.iter().chain(pattern::NAMES).chain(time::NAMES).copied());
    format!("there is no function {name}; {}", nearest::hint(name, all))
}

/// What to say of a function that would not give the same again.
pub(super) fn not_repeatable(name: &str) -> Option<String> {
    NOT_REPEATABLE.contains(&name.to_lowercase().as_str()).then(|| {
        format!(
            "{name} gives something else each time, and a batch may be computed twice: let the \
             input or a function of yours add it"
        )
    })
}
