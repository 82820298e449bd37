//! What the tests of this crate share: batches as text.

use arrow::{
    array::RecordBatch,
    util::display::{ArrayFormatter, FormatOptions},
};

/// Each row as its cells with a space between, null as `null`.
pub(crate) fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<ArrayFormatter<'_>> =
        batch.columns().iter().map(|it| ArrayFormatter::try_new(it, &options).unwrap()).collect();
    let row = |row: usize| {
        let cells: Vec<String> = columns.iter().map(|it| it.value(row).to_string()).collect();
        cells.join(" ")
    };
    (0..batch.num_rows()).map(row).collect()
}
