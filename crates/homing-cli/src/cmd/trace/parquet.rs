//! References as a Parquet file: columns thread, addr, size, kind, time.

use homing_core::trace::export::Row;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "message references {
    required int32 thread (integer(32, false));
    required int64 addr (integer(64, false));
    required int32 size (integer(32, false));
    required binary kind (string);
    required int64 time (integer(64, false));
}";

/// A Parquet file in the making.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file.
    pub fn create(out: W) -> Result<ParquetFile<W>> {
        let delta = |name: &str| (ColumnPath::from(name), Encoding::DELTA_BINARY_PACKED);
        let mut properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?));
        for (column, encoding) in [delta("addr"), delta("time")] {
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, encoding);
        }
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
        Ok(ParquetFile { writer })
    }

    /// Appends rows as one row group.
    pub fn row_group(&mut self, rows: &[Row]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        let (read, write) = (ByteArray::from("r"), ByteArray::from("w"));
        column::<Int32Type, _>(&mut group, rows, |row| row.thread.0 as i32)?;
        column::<Int64Type, _>(&mut group, rows, |row| row.address as i64)?;
        column::<Int32Type, _>(&mut group, rows, |row| row.bytes as i32)?;
        column::<ByteArrayType, _>(
            &mut group,
            rows,
            |row| if row.write { write.clone() } else { read.clone() },
        )?;
        column::<Int64Type, _>(&mut group, rows, |row| row.time.0 as i64)?;
        group.close()?;
        Ok(())
    }

    /// Ends the file.
    pub fn finish(self) -> Result<()> {
        self.writer.into_inner()?.flush()?;
        Ok(())
    }
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    rows: &[Row],
    value: impl Fn(&Row) -> T::T,
) -> Result<()> {
    if let Some(mut column) = group.next_column()? {
        let values: Vec<T::T> = rows.iter().map(value).collect();
        column.typed::<T>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}
