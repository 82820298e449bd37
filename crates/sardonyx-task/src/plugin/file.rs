//! Files, in and out.

mod extent;
#[cfg(test)]
mod fuzz;
mod input;
mod output;
mod parts;
mod source;
mod watch;

use std::sync::Arc;

use crate::{Format, Input, Output, Terms, format::Packing};

pub(crate) use input::{KEYS as INPUT_KEYS, said};
pub(crate) use output::KEYS as OUTPUT_KEYS;

pub(crate) fn input(terms: &Terms) -> Result<Arc<dyn Input>, String> {
    Ok(Arc::new(input::FileInput::new(terms)?))
}

pub(crate) fn output(terms: &Terms) -> Result<Arc<dyn Output>, String> {
    Ok(Arc::new(output::FileOutput::new(terms, super::system_clock())?))
}

/// The format that the task names.
fn said_format(terms: &Terms) -> Result<Option<Format>, String> {
    let said = terms.text("format")?.map(Format::parse).transpose();
    said.map_err(|why| format!("format: {why}"))
}

/// The format of a file: what the task says, or its name.
fn format_of(path: &str, said: Option<Format>) -> Result<Format, String> {
    let format = said.or_else(|| Format::of_path(path)).ok_or_else(|| {
        format!("the name {path} does not say its format: write format = \"lines\", \"ndjson\", \"csv\" or \"parquet\"")
    })?;
    if format == Format::Parquet && Packing::of_path(path) != Packing::Plain {
        return Err(format!("{path}: Parquet is packed inside: take .gz or .zst off the name"));
    }
    Ok(format)
}
