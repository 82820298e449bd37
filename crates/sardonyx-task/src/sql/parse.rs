//! The text of a query to its parts, and a clear answer for what a task cannot do.

#![expect(clippy::wildcard_enum_match_arm, reason = "most of SQL is not for one task")]

use sqlparser::{
    ast::{
        Expr, GroupByExpr, Query as Whole, Select, SelectItem, SetExpr, Statement, TableFactor,
        TableWithJoins,
    },
    dialect::GenericDialect,
    parser::Parser,
    tokenizer::{Token, Tokenizer},
};

/// The name of the table that a query reads.
const TABLE: &str = "segments";

/// `select … from segments where …`.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) items: Vec<SelectItem>,
    pub(super) filter: Option<Expr>,
    /// What the table is called in this query.
    pub(super) table: String,
}

/// How many words and signs a query can have, values and commas not counted. A sum of thousands would
/// be a tree so deep that taking it apart needs more stack than a thread has.
pub(super) const TOKENS_MAX: usize = 1000;

/// Reads a query.
pub(super) fn query(text: &str) -> Result<Query, String> {
    bounded(text)?;
    let statements = Parser::new(&GenericDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_statements())
        .map_err(|why| format!("cannot be read: {}", plain(&why.to_string())))?;
    let query = match <[Statement; 1]>::try_from(statements) {
        Ok([Statement::Query(query)]) => *query,
        _ => return Err("is one select: write \"select … from segments where …\"".into()),
    };
    let select = select(query)?;
    let table = table(&select.from)?;
    Ok(Query { items: select.projection, filter: select.selection, table })
}

/// Reads a condition.
pub(super) fn condition(text: &str) -> Result<Expr, String> {
    let wrong = |why: &str| format!("cannot be read: {}; write \"status >= 500\"", plain(why));
    bounded(text)?;
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    let mut parser = parser.map_err(|why| wrong(&why.to_string()))?;
    let expr = parser.parse_expr().map_err(|why| wrong(&why.to_string()))?;
    match parser.peek_token().token {
        Token::EOF => Ok(expr),
        other => Err(wrong(&format!("after the condition comes {other}"))),
    }
}

fn bounded(text: &str) -> Result<(), String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.map_err(|why| format!("cannot be read: {why}"))?;
    let counts = |token: &&Token| {
        !matches!(
            token,
            Token::Whitespace(_)
                | Token::Comma
                | Token::Number(_, _)
                | Token::SingleQuotedString(_)
        )
    };
    match tokens.iter().filter(counts).count() > TOKENS_MAX {
        true => Err(format!("has more than {TOKENS_MAX} words and signs: divide it into tasks")),
        false => Ok(()),
    }
}

fn plain(why: &str) -> &str {
    why.trim_start_matches("sql parser error: ")
}

fn select(query: Whole) -> Result<Select, String> {
    let refused = [
        (query.with.is_some(), "with: write a task for each step"),
        (query.order_by.is_some(), "order by: segments have no end to sort to"),
        (query.limit_clause.is_some() || query.fetch.is_some(), "limit: segments have no end"),
        (!query.locks.is_empty(), "for update: nothing is locked"),
        (!query.pipe_operators.is_empty(), "|>: write a task for each step"),
    ];
    refuse(&refused)?;
    let select = match *query.body {
        SetExpr::Select(select) => *select,
        SetExpr::Query(query) => return self::select(*query),
        SetExpr::SetOperation { .. } => {
            return Err("has no union: let both tasks lead to the same next task".into());
        }
        _ => return Err("is one select: write \"select … from segments where …\"".into()),
    };
    let groups = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
    };
    let refused = [
        (
            groups,
            "group by: write group-by = [\"…\"] and fn = \"aggregate\", or \"count\", on a task of its own",
        ),
        (select.having.is_some(), "having: filter in a task after the grouped one"),
        (select.distinct.is_some(), "distinct: write a task with group-by"),
        (!select.named_window.is_empty(), "windows: group by a column that names the window"),
        (select.qualify.is_some(), "qualify: write a task with group-by"),
        (select.top.is_some(), "top: segments have no end"),
        (select.into.is_some(), "into: write an output task"),
        (!select.lateral_views.is_empty(), "lateral view: write a task with fn = \"explode\""),
        (!select.sort_by.is_empty(), "sort by: segments have no end to sort to"),
        (!select.cluster_by.is_empty(), "cluster by: write group-by on the next task"),
        (!select.distribute_by.is_empty(), "distribute by: write group-by on the next task"),
        (select.prewhere.is_some(), "prewhere: write where"),
        (!select.connect_by.is_empty(), "connect by: each segment stands alone"),
        (select.value_table_mode.is_some(), "select as: name the columns"),
    ];
    refuse(&refused)?;
    match select.projection.is_empty() {
        true => Err("selects nothing: write select * from segments".into()),
        false => Ok(select),
    }
}

fn refuse(all: &[(bool, &str)]) -> Result<(), String> {
    match all.iter().find(|(is_there, _)| *is_there) {
        Some((_, what)) => Err(format!("has no {what}")),
        None => Ok(()),
    }
}

fn table(from: &[TableWithJoins]) -> Result<String, String> {
    let (relation, joins) = match from {
        [] => return Ok(TABLE.into()),
        [one] => (&one.relation, &one.joins),
        _ => return Err(join()),
    };
    if !joins.is_empty() {
        return Err(join());
    }
    match relation {
        TableFactor::Table { name, alias, args: None, .. } => {
            let name = name.to_string();
            if !name.trim_matches('"').eq_ignore_ascii_case(TABLE) {
                return Err(format!("reads from one table, {TABLE}, not from {name}"));
            }
            Ok(alias.as_ref().map_or(name, |alias| alias.name.value.clone()))
        }
        TableFactor::Derived { .. } => Err("has no subqueries: write a task for each step".into()),
        TableFactor::UNNEST { .. } => {
            Err("has no unnest: write a task with fn = \"explode\"".into())
        }
        _ => Err(format!("reads from one table, {TABLE}")),
    }
}

fn join() -> String {
    "has no joins: bring both sides together by group-by on a task of its own".into()
}
