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

/// How long this thread has computed, if the system says so: a busy machine does not count.
pub(crate) fn computed() -> std::time::Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0);
    std::time::Duration::from_nanos(nanos)
}

/// Whether tests of speed are to measure, and not only to run.
pub(crate) fn is_measured() -> bool {
    std::env::var_os("SARDONYX_MEASURE").is_some()
}
