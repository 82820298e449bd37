//! Parquet files: read row group by row group, written with row groups of a good size.

use std::{
    fs::File,
    io::{self, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use parquet::{
    arrow::{
        ArrowWriter, ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    },
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};

/// A row group is written when it has so many bytes in memory.
const GROUP_BYTES_MAX: usize = 64 << 20;

/// What a Parquet file is cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// The compressed size of each row group.
    pub(crate) bytes: Vec<u64>,
}

/// Reads the end of a file, which says what is in it.
pub(crate) fn groups(file: File, columns: &[String]) -> Result<Groups, String> {
    let builder = builder(file)?;
    projection(&builder, columns)?;
    let groups = builder.metadata().row_groups().iter();
    let bytes = groups.map(|group| u64::try_from(group.compressed_size()).unwrap_or_default());
    Ok(Groups { bytes: bytes.collect() })
}

/// The rows of some row groups behind the first `skip`.
pub(crate) fn read(
    file: File,
    columns: &[String],
    groups: std::ops::Range<usize>,
    skip: u64,
    rows_max: usize,
) -> Result<ParquetRecordBatchReader, String> {
    let builder = builder(file)?;
    let mask = projection(&builder, columns)?;
    let builder = builder
        .with_projection(mask)
        .with_row_groups(groups.collect())
        .with_offset(usize::try_from(skip).unwrap_or(usize::MAX))
        .with_batch_size(rows_max.max(1));
    guarded(|| builder.build().map_err(|why| why.to_string()))
}

/// The next rows, if there are any.
pub(crate) fn next(batches: &mut ParquetRecordBatchReader) -> Result<Option<RecordBatch>, String> {
    guarded(|| batches.next().transpose().map_err(|why| why.to_string()))
}

/// What the library reads. At files whose description of themselves makes no sense it panics; to us
/// such a file is a damaged one like any other, and the complaint names it.
fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let senseless = |_| Err("what this Parquet file says of itself makes no sense".into());
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(senseless)
}

/// Whether a file ends as a whole Parquet file does.
pub(crate) fn is_whole(file: File) -> bool {
    builder(file).is_ok()
}

fn builder(file: File) -> Result<ParquetRecordBatchReaderBuilder<File>, String> {
    guarded(|| {
        ParquetRecordBatchReaderBuilder::try_new(file)
            .map_err(|why| format!("this is no whole Parquet file ({why})"))
    })
}

fn projection(
    builder: &ParquetRecordBatchReaderBuilder<File>,
    columns: &[String],
) -> Result<ProjectionMask, String> {
    if columns.is_empty() {
        return Ok(ProjectionMask::all());
    }
    let fields = builder.schema().fields();
    let place = |name: &String| {
        fields.iter().position(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            format!("there is no column {name}; there are {}", names.join(", "))
        })
    };
    let places = columns.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    Ok(ProjectionMask::roots(builder.parquet_schema(), places))
}

/// Batches one behind the other as an Arrow stream: how a part of a Parquet file is kept until it is
/// known how far it is committed.
pub(crate) struct Stream {
    writer: StreamWriter<Vec<u8>>,
}

impl Stream {
    pub(crate) fn new(schema: &Schema) -> Result<Stream, String> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(|why| why.to_string())?;
        Ok(Stream { writer })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), String> {
        self.writer.write(batch).map_err(|why| why.to_string())
    }

    /// What was written since it was asked last.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.get_mut())
    }
}

/// Makes one Parquet file of Arrow streams. Without any, it has neither columns nor rows.
pub(crate) fn write<W: Write + Send, R: Read>(
    out: W,
    streams: impl IntoIterator<Item = io::Result<R>>,
) -> Result<(), String> {
    let mut out = Some(out);
    let mut writer: Option<(SchemaRef, ArrowWriter<W>)> = None;
    for stream in streams {
        let stream = stream.map_err(|why| why.to_string())?;
        let reader = StreamReader::try_new(io::BufReader::new(stream), None)
            .map_err(|why| why.to_string())?;
        let schema = reader.schema();
        if let Some(out) = out.take() {
            writer = Some((schema.clone(), new_writer(out, &schema)?));
        }
        let Some((first, writer)) = &mut writer else { continue };
        if *first != schema {
            return Err(format!("rows have different columns: {first} and {schema}"));
        }
        for batch in reader {
            let batch = batch.map_err(|why| why.to_string())?;
            writer.write(&batch).map_err(|why| why.to_string())?;
            if writer.in_progress_size() >= GROUP_BYTES_MAX {
                writer.flush().map_err(|why| why.to_string())?;
            }
        }
    }
    let writer = match (writer, out) {
        (Some((_, writer)), _) => writer,
        (None, Some(out)) => new_writer(out, &std::sync::Arc::new(Schema::empty()))?,
        (None, None) => return Ok(()),
    };
    writer.close().map(|_| ()).map_err(|why| why.to_string())
}

fn new_writer<W: Write + Send>(out: W, schema: &SchemaRef) -> Result<ArrowWriter<W>, String> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    ArrowWriter::try_new(out, schema.clone(), Some(properties)).map_err(|why| why.to_string())
}
