//! From the parsed query to nodes: names become places of columns.

#![expect(clippy::wildcard_enum_match_arm, reason = "most of SQL is not for one task")]

use std::{collections::BTreeSet, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, UInt64Array},
    datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema},
};
use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, CeilFloorKind, DateTimeField, ExcludeSelectItem, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, SelectItem, Subscript,
    TrimWhereField, UnaryOperator, Value, WildcardAdditionalOptions,
};

use super::{
    call, coerce,
    node::{Body, Node, null},
    operate::{Arithmetic, Comparison, Logic},
    pattern, text, time,
};
use crate::nearest;

/// How deep an expression can be: evaluating it goes as deep.
pub(super) const DEPTH_MAX: usize = 200;

/// Binds expressions to one schema; without one, finds what is wrong whatever the schema.
pub(super) struct Binder<'a> {
    pub(super) schema: Option<&'a Schema>,
    pub(super) table: &'a str,
    /// The places of the columns that were named.
    pub(super) used: BTreeSet<usize>,
    /// Which columns the batches have, if not all of the schema.
    pub(super) left: Option<&'a [usize]>,
    depth: usize,
}

/// A column of the result: its name, its field if it is one that came, and how it is computed.
pub(super) struct Item {
    pub(super) name: String,
    pub(super) field: Option<FieldRef>,
    pub(super) node: Node,
}

impl<'a> Binder<'a> {
    pub(super) fn new(schema: Option<&'a Schema>, table: &'a str) -> Binder<'a> {
        Binder { schema, table, used: BTreeSet::new(), left: None, depth: 0 }
    }

    pub(super) fn items(&mut self, items: &[SelectItem]) -> Result<Vec<Item>, String> {
        let mut bound: Vec<Item> = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => bound.push(self.item(expr, unnamed(expr))?),
                SelectItem::ExprWithAlias { expr, alias } => {
                    bound.push(self.item(expr, alias.value.clone())?);
                }
                SelectItem::Wildcard(options) => bound.extend(self.all(options)?),
                SelectItem::QualifiedWildcard(table, options)
                    if table
                        .to_string()
                        .trim_end_matches(".*")
                        .eq_ignore_ascii_case(self.table) =>
                {
                    bound.extend(self.all(options)?);
                }
                other => return Err(format!("{other}: name the columns")),
            }
        }
        for (at, item) in bound.iter().enumerate() {
            if bound[..at].iter().any(|before| before.name == item.name) {
                let name = &item.name;
                return Err(format!("two columns would be called {name}: write {name} as …"));
            }
        }
        Ok(bound)
    }

    fn item(&mut self, expr: &Expr, name: String) -> Result<Item, String> {
        let node = self.expr(expr).map_err(|why| format!("{expr}: {why}"))?;
        let field = match (&node, self.schema) {
            (Node::Column(at), Some(schema)) => {
                let at = self.left.map_or(Some(*at), |left| left.get(*at).copied());
                at.and_then(|at| schema.fields().get(at).cloned())
            }
            _ => None,
        };
        Ok(Item { name, field, node })
    }

    /// `*`, perhaps `except` some or with some replaced.
    fn all<'e>(&mut self, options: &'e WildcardAdditionalOptions) -> Result<Vec<Item>, String> {
        let mut left_out: Vec<String> = Vec::new();
        if let Some(except) = &options.opt_except {
            left_out.push(except.first_element.value.clone());
            left_out.extend(except.additional_elements.iter().map(|it| it.value.clone()));
        }
        let name =
            |name: &sqlparser::ast::ObjectName| name.to_string().trim_matches('"').to_owned();
        match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(one)) => left_out.push(name(one)),
            Some(ExcludeSelectItem::Multiple(many)) => left_out.extend(many.iter().map(name)),
            None => {}
        }
        if options.opt_rename.is_some() || options.opt_ilike.is_some() {
            return Err(format!("*{options}: name the columns"));
        }
        let replaced = options.opt_replace.iter().flat_map(|it| &it.items);
        let replaced: Vec<_> =
            replaced.map(|it| (it.column_name.value.clone(), &it.expr)).collect();
        let Some(schema) = self.schema else {
            replaced.iter().try_for_each(|(_, expr)| self.expr(expr).map(drop))?;
            return Ok(Vec::new());
        };
        let places = |name: &String| self.place(name, false);
        let left_out = left_out.iter().map(places).collect::<Result<Vec<_>, _>>()?;
        let place = |(name, expr): &(String, &'e Expr)| Ok((self.place(name, false)?, *expr));
        let replaced = replaced.iter().map(place).collect::<Result<Vec<_>, String>>()?;
        let mut items = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            if left_out.contains(&at) {
                continue;
            }
            if let Some((_, expr)) = replaced.iter().find(|(place, _)| *place == at) {
                items.push(self.item(expr, field.name().clone())?);
                continue;
            }
            let (name, node) = (field.name().clone(), self.at(at));
            items.push(Item { name, field: Some(field.clone()), node });
        }
        Ok(items)
    }

    fn both(&mut self, a: &Expr, b: &Expr) -> Result<(Box<Node>, Box<Node>), String> {
        Ok((Box::new(self.expr(a)?), Box::new(self.expr(b)?)))
    }

    fn boxed(&mut self, expr: &Expr) -> Result<Box<Node>, String> {
        self.expr(expr).map(Box::new)
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Node, String> {
        if self.depth >= DEPTH_MAX {
            return Err(format!("goes deeper than {DEPTH_MAX}: divide it into tasks"));
        }
        self.depth += 1;
        let bound = self.step(expr);
        self.depth -= 1;
        bound
    }

    fn step(&mut self, expr: &Expr) -> Result<Node, String> {
        Ok(match expr {
            Expr::Identifier(name) => self.column(name)?,
            Expr::CompoundIdentifier(names) => self.path(names)?,
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain)?,
            Expr::Value(value) => Node::Literal(literal(&value.value)?),
            Expr::TypedString(typed) => {
                let text = typed.value.clone().into_string().unwrap_or_default();
                convert(text_node(&text), coerce::of_name(&typed.data_type.to_string())?)
            }
            Expr::Interval(_) => interval(expr)?,
            Expr::Nested(expr) => self.expr(expr)?,
            Expr::IsNull(expr) => Node::IsNull(self.boxed(expr)?),
            Expr::IsNotNull(expr) => not(Node::IsNull(self.boxed(expr)?)),
            Expr::IsUnknown(expr) => Node::IsNull(self.boxed(expr)?),
            Expr::IsNotUnknown(expr) => not(Node::IsNull(self.boxed(expr)?)),
            Expr::IsTrue(expr) => Node::Is(true, self.boxed(expr)?),
            Expr::IsNotTrue(expr) => not(Node::Is(true, self.boxed(expr)?)),
            Expr::IsFalse(expr) => Node::Is(false, self.boxed(expr)?),
            Expr::IsNotFalse(expr) => not(Node::Is(false, self.boxed(expr)?)),
            Expr::IsDistinctFrom(a, b) => self.compare(Comparison::Distinct, a, b)?,
            Expr::IsNotDistinctFrom(a, b) => self.compare(Comparison::NotDistinct, a, b)?,
            Expr::UnaryOp { op, expr } => self.unary(op, expr)?,
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right)?,
            Expr::Between { expr, negated, low, high } => {
                let above = self.compare(Comparison::GtEq, expr, low)?;
                let below = self.compare(Comparison::LtEq, expr, high)?;
                let between = Node::Join(Logic::And, Box::new(above), Box::new(below));
                negated_if(*negated, between)
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated)?,
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(false, *negated, expr, pattern)?
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(true, *negated, expr, pattern)?
            }
            Expr::Cast { kind, expr, data_type, .. } => {
                let to = coerce::of_name(&data_type.to_string())?;
                let is_try = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                Node::Convert { node: self.boxed(expr)?, to, is_try }
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let mut branches = Vec::new();
                for when in conditions {
                    let condition = match operand {
                        Some(operand) => self.compare(Comparison::Eq, operand, &when.condition)?,
                        None => self.expr(&when.condition)?,
                    };
                    branches.push((condition, self.expr(&when.result)?));
                }
                let otherwise = else_result.as_ref().map(|it| self.expr(it)).transpose()?;
                Node::Case(branches, Box::new(otherwise.unwrap_or_else(null)))
            }
            Expr::Function(function) => self.function(function)?,
            other => self.form(other)?,
        })
    }

    /// Functions that SQL writes in a way of their own.
    fn form(&mut self, expr: &Expr) -> Result<Node, String> {
        match expr {
            Expr::Extract { field, expr, .. } => {
                let node = self.expr(expr)?;
                time::extract(&field.to_string().to_lowercase(), node)
            }
            Expr::Ceil { expr, field } if is_plain(field) => self.call("ceil", &[expr]),
            Expr::Floor { expr, field } if is_plain(field) => self.call("floor", &[expr]),
            Expr::Position { expr, r#in } => self.call("strpos", &[r#in, expr]),
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut args = vec![self.expr(expr)?];
                args.push(match substring_from {
                    Some(from) => self.expr(from)?,
                    None => Node::Literal(Arc::new(Int64Array::from(vec![1]))),
                });
                args.extend(substring_for.as_ref().map(|it| self.expr(it)).transpose()?);
                call::bind("substr", args)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let mut args = vec![self.expr(expr)?];
                args.extend(trim_what.as_ref().map(|it| self.expr(it)).transpose()?);
                for it in trim_characters.iter().flatten() {
                    args.push(self.expr(it)?);
                }
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "trim",
                };
                call::bind(name, args)
            }
            Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => {
                Err("has no subqueries: write a task for each step".into())
            }
            Expr::Like { .. } | Expr::ILike { .. } => {
                Err("like has neither any nor escape: write regexp_matches".into())
            }
            other => Err(format!("{other} is more SQL than a task understands")),
        }
    }

    fn call(&mut self, name: &str, args: &[&Expr]) -> Result<Node, String> {
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Result<_, _>>()?;
        call::bind(name, args)
    }

    fn function(&mut self, function: &Function) -> Result<Node, String> {
        if function.over.is_some() {
            return Err("has no windows: group by a column that names the window".into());
        }
        let name = function.name.to_string();
        if matches!(function.args, FunctionArguments::None) {
            // The parser takes some words for functions that are columns here: `user` is one.
            let names = function.name.0.iter().filter_map(|part| part.as_ident().cloned());
            let column = self.path(&names.collect::<Vec<_>>());
            return column.map_err(|why| call::not_repeatable(&name).unwrap_or(why));
        }
        let list: &[FunctionArg] = match &function.args {
            FunctionArguments::None => &[],
            FunctionArguments::List(list) => &list.args,
            FunctionArguments::Subquery(_) => return Err("has no subqueries".into()),
        };
        let mut args = Vec::new();
        for arg in list {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => args.push(self.expr(expr)?),
                // Only count(*) is written so, and it is refused by its name.
                FunctionArg::Unnamed(_) => args.push(null()),
                other => return Err(format!("{name} has no argument {other}")),
            }
        }
        call::bind(&name, args)
    }

    fn compare(&mut self, op: Comparison, a: &Expr, b: &Expr) -> Result<Node, String> {
        let (a, b) = self.both(a, b)?;
        Ok(Node::Compare(op, a, b))
    }

    fn like(
        &mut self,
        ignores_case: bool,
        negated: bool,
        expr: &Expr,
        pattern: &Expr,
    ) -> Result<Node, String> {
        let (node, pattern) = self.both(expr, pattern)?;
        Ok(negated_if(negated, Node::Like { ignores_case, node, pattern }))
    }

    fn in_list(&mut self, expr: &Expr, list: &[Expr], negated: bool) -> Result<Node, String> {
        let is_it = list.iter().map(|value| self.compare(Comparison::Eq, expr, value));
        let is_it = is_it.collect::<Result<Vec<_>, _>>()?;
        match is_it.is_empty() {
            true => Err("in of nothing".into()),
            false => Ok(negated_if(negated, Node::AnyOf(is_it))),
        }
    }

    fn unary(&mut self, op: &UnaryOperator, expr: &Expr) -> Result<Node, String> {
        match op {
            UnaryOperator::Not | UnaryOperator::BangNot => Ok(not(self.expr(expr)?)),
            UnaryOperator::Plus => self.expr(expr),
            // The smallest number has no positive twin, so the sign belongs to the literal.
            UnaryOperator::Minus => match expr {
                Expr::Value(value) => match &value.value {
                    Value::Number(number, _) => number_literal(&format!("-{number}")),
                    _ => Ok(Node::Negate(self.boxed(expr)?)),
                },
                _ => Ok(Node::Negate(self.boxed(expr)?)),
            },
            other => Err(format!("there is no operator {other}")),
        }
    }

    fn binary(&mut self, a: &Expr, op: &BinaryOperator, b: &Expr) -> Result<Node, String> {
        let (a, b) = self.both(a, b)?;
        Ok(match op {
            BinaryOperator::And => Node::Join(Logic::And, a, b),
            BinaryOperator::Or => Node::Join(Logic::Or, a, b),
            BinaryOperator::Eq => Node::Compare(Comparison::Eq, a, b),
            BinaryOperator::NotEq => Node::Compare(Comparison::NotEq, a, b),
            BinaryOperator::Lt => Node::Compare(Comparison::Lt, a, b),
            BinaryOperator::LtEq => Node::Compare(Comparison::LtEq, a, b),
            BinaryOperator::Gt => Node::Compare(Comparison::Gt, a, b),
            BinaryOperator::GtEq => Node::Compare(Comparison::GtEq, a, b),
            BinaryOperator::Spaceship => Node::Compare(Comparison::NotDistinct, a, b),
            BinaryOperator::Plus => Node::Calculate(Arithmetic::Add, a, b),
            BinaryOperator::Minus => Node::Calculate(Arithmetic::Subtract, a, b),
            BinaryOperator::Multiply => Node::Calculate(Arithmetic::Multiply, a, b),
            BinaryOperator::Divide => Node::Calculate(Arithmetic::Divide, a, b),
            BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide => {
                Node::Calculate(Arithmetic::DivideWhole, a, b)
            }
            BinaryOperator::Modulo => Node::Calculate(Arithmetic::Remainder, a, b),
            BinaryOperator::StringConcat => {
                let body: Arc<Body> = Arc::new(text::join);
                Node::Call { name: "||", body, args: vec![*a, *b] }
            }
            BinaryOperator::PGRegexMatch => pattern::test(*a, &b, "")?,
            BinaryOperator::PGRegexIMatch => pattern::test(*a, &b, "i")?,
            BinaryOperator::PGRegexNotMatch => not(pattern::test(*a, &b, "")?),
            BinaryOperator::PGRegexNotIMatch => not(pattern::test(*a, &b, "i")?),
            other => return Err(format!("there is no operator {other}")),
        })
    }

    fn column(&mut self, name: &Ident) -> Result<Node, String> {
        let at = self.place(&name.value, name.quote_style.is_some())?;
        Ok(self.at(at))
    }

    fn at(&mut self, at: usize) -> Node {
        self.used.insert(at);
        let left = self.left.and_then(|left| left.binary_search(&at).ok());
        Node::Column(left.unwrap_or(at))
    }

    /// Exactly so, or, if it is not quoted, the only one that differs in case.
    fn place(&self, name: &str, is_quoted: bool) -> Result<usize, String> {
        let Some(schema) = self.schema else { return Ok(0) };
        let fields = schema.fields();
        if let Some(at) = fields.iter().position(|it| it.name() == name) {
            return Ok(at);
        }
        let is_near = |it: &&Arc<Field>| it.name().eq_ignore_ascii_case(name);
        let mut near = fields.iter().filter(is_near);
        if let (false, Some(_), None) = (is_quoted, near.next(), near.next()) {
            let at = fields.iter().position(|it| it.name().eq_ignore_ascii_case(name));
            return at.ok_or_else(|| "the column is gone".into());
        }
        let known = nearest::nearest_first(name, fields.iter().map(|it| it.name().as_str()));
        match known.is_empty() {
            true => Err(format!("there is no column {name:?}: the segments have no columns")),
            false => {
                let known = nearest::list(known.into_iter());
                // Who writes a text as most languages do has named a column.
                let text = match is_quoted && !fields.iter().any(|it| is_near(&it)) {
                    true => format!("; a text is written '{}'", name.replace('\'', "''")),
                    false => String::new(),
                };
                Err(format!("there is no column {name:?}; the columns are {known}{text}"))
            }
        }
    }

    /// `segments.user`, `request.path` or `segments.request.path`.
    fn path(&mut self, names: &[Ident]) -> Result<Node, String> {
        let (first, rest) = match names {
            [table, first, rest @ ..]
                if table.value.eq_ignore_ascii_case(self.table)
                    && self.place(&table.value, true).is_err() =>
            {
                (first, rest)
            }
            // Without a schema nobody knows which is meant.
            [_, ..] if self.schema.is_none() => return Ok(Node::Column(0)),
            [first, rest @ ..] => (first, rest),
            [] => return Err("a column without a name".into()),
        };
        let column = self.column(first)?;
        Ok(rest.iter().fold(column, |node, name| Node::Field(Box::new(node), name.value.clone())))
    }

    fn access(&mut self, root: &Expr, chain: &[AccessExpr]) -> Result<Node, String> {
        let mut node = self.expr(root)?;
        for access in chain {
            let name = match access {
                AccessExpr::Dot(Expr::Identifier(name)) => name.value.clone(),
                AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) => {
                    let name = value.value.clone().into_string();
                    name.ok_or("lists have no index here: write a task with fn = \"explode\"")?
                }
                other => return Err(format!("{other} is no field")),
            };
            node = Node::Field(Box::new(node), name);
        }
        Ok(node)
    }
}

fn is_plain(field: &CeilFloorKind) -> bool {
    matches!(field, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime))
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}

fn negated_if(negated: bool, node: Node) -> Node {
    if negated { not(node) } else { node }
}

fn convert(node: Node, to: DataType) -> Node {
    Node::Convert { node: Box::new(node), to, is_try: false }
}

fn text_node(text: &str) -> Node {
    Node::Literal(Arc::new(StringArray::from(vec![text])))
}

/// What a column is called that nobody named.
fn unnamed(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => {
            names.last().map(|it| it.value.clone()).unwrap_or_default()
        }
        Expr::Nested(expr) => unnamed(expr),
        other => other.to_string(),
    }
}

fn literal(value: &Value) -> Result<ArrayRef, String> {
    Ok(match value {
        Value::Number(number, _) => match number_literal(number)? {
            Node::Literal(array) => array,
            _ => return Err(format!("{number} is no number")),
        },
        Value::Boolean(truth) => Arc::new(BooleanArray::from(vec![*truth])),
        Value::Null => arrow::array::new_null_array(&DataType::Null, 1),
        Value::Placeholder(name) => return Err(format!("{name} stands for nothing here")),
        other => match other.clone().into_string() {
            Some(text) => Arc::new(StringArray::from(vec![text])),
            None => return Err(format!("{other} is no value")),
        },
    })
}

fn number_literal(number: &str) -> Result<Node, String> {
    if let Ok(whole) = number.parse::<i64>() {
        return Ok(Node::Literal(Arc::new(Int64Array::from(vec![whole]))));
    }
    if let Ok(whole) = number.parse::<u64>() {
        return Ok(Node::Literal(Arc::new(UInt64Array::from(vec![whole]))));
    }
    match number.parse::<f64>() {
        Ok(float) => Ok(Node::Literal(Arc::new(Float64Array::from(vec![float])))),
        Err(_) => Err(format!("{number} is no number")),
    }
}

fn interval(expr: &Expr) -> Result<Node, String> {
    let Expr::Interval(interval) = expr else { return Err("no interval".into()) };
    let Expr::Value(value) = interval.value.as_ref() else {
        return Err("an interval is written interval '1 hour'".into());
    };
    let amount = match &value.value {
        Value::Number(number, _) => number.clone(),
        other => other.clone().into_string().unwrap_or_default(),
    };
    let unit = interval.leading_field.as_ref().map(|unit| format!(" {unit}"));
    let text = format!("{amount}{}", unit.unwrap_or_default().to_lowercase());
    let node = convert(text_node(&text), DataType::Interval(IntervalUnit::MonthDayNano));
    match node.constant().is_some_and(|array| array.is_valid(0)) {
        true => Ok(node),
        false => Err(format!("{text:?} is no interval: write interval '1 hour'")),
    }
}
