//! What a study leaves: `cells.csv`, `cells.parquet`, `manifest.json`.

use super::cell::{Cell, Value, COLUMNS};
use super::plan::Plan;
use super::Found;
use crate::error::{PipelineError, Result};
use homing_core::report::Parameter;
use homing_linux::files::{Output, Over};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Serialize;
use std::error::Error;
use std::sync::Arc;

/// Version of the study's JSON.
const SCHEMA: u32 = 1;

/// What the page reads and `--json` prints.
#[derive(Serialize)]
pub struct Document<'a> {
    schema: u32,
    generator: &'static str,
    parameters: Vec<Parameter>,
    notes: &'a [String],
    cells: &'a [Cell],
}

/// All of a study.
pub fn document<'a>(plan: &Plan, found: &'a Found) -> Document<'a> {
    Document {
        schema: SCHEMA,
        generator: crate::manifest::GENERATOR,
        parameters: plan.parameters(),
        notes: &found.notes,
        cells: &found.cells,
    }
}

/// What writing a file gives.
type Filled = std::result::Result<(), Box<dyn Error + Send + Sync>>;

/// Writes all files but the page.
pub fn write(plan: &Plan, found: &Found) -> Result<()> {
    let cells = &found.cells;
    let file = |name: &str, over: Over, fill: &dyn Fn(&mut Output) -> Filled| {
        let path = plan.out.join(name);
        let mut output = Output::create(&path, over)?;
        fill(&mut output).map_err(|source| {
            let doing = format!("writing {} failed, nothing of it was kept", path.display());
            PipelineError::While { doing, source }
        })?;
        Ok::<_, PipelineError>(output.commit()?)
    };
    file("cells.csv", Over::Texts, &|out| csv(out, cells))?;
    file("cells.parquet", Over::Texts, &|out| parquet(out, cells))?;
    let document = document(plan, found);
    file(super::MANIFEST, Over::Json, &|out| {
        let manifest = serde_json::json!({
            "schema": SCHEMA,
            "generator": document.generator,
            "parameters": document.parameters,
            "notes": document.notes,
            "cells": cells.len(),
        });
        Ok(serde_json::to_writer_pretty(out, &manifest)?)
    })
}

fn csv(out: &mut Output, cells: &[Cell]) -> Filled {
    let mut out = csv::Writer::from_writer(out);
    out.write_record(COLUMNS.iter().map(|column| column.0))?;
    for cell in cells {
        out.write_record(COLUMNS.iter().map(|(_, value)| match value(cell) {
            Value::Text(text) => text,
            Value::Count(count) => count.to_string(),
            Value::Number(number) => number.map(|number| number.to_string()).unwrap_or_default(),
        }))?;
    }
    Ok(out.flush()?)
}

/// One row group with a column each.
fn parquet(out: &mut Output, cells: &[Cell]) -> Filled {
    let Some(first) = cells.first() else { return Ok(()) };
    let field = |(name, value): &super::cell::Column| match value(first) {
        Value::Text(_) => format!("required binary {name} (string);"),
        Value::Count(_) => format!("required int64 {name};"),
        Value::Number(_) => format!("optional double {name};"),
    };
    let schema = format!("message cells {{ {} }}", COLUMNS.iter().map(field).collect::<String>());
    let compression = Compression::ZSTD(ZstdLevel::try_new(3)?);
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer =
        SerializedFileWriter::new(out, Arc::new(parse_message_type(&schema)?), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, value) in COLUMNS {
        let (mut texts, mut counts, mut numbers, mut present) = (vec![], vec![], vec![], vec![]);
        for cell in cells {
            match value(cell) {
                Value::Text(text) => texts.push(ByteArray::from(text.into_bytes())),
                Value::Count(count) => counts.push(count as i64),
                Value::Number(number) => {
                    present.push(i16::from(number.is_some()));
                    numbers.extend(number);
                }
            }
        }
        let mut column = group.next_column()?.ok_or("a column for each of the schema")?;
        if !texts.is_empty() {
            column.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
        } else if !counts.is_empty() {
            column.typed::<Int64Type>().write_batch(&counts, None, None)?;
        } else {
            column.typed::<DoubleType>().write_batch(&numbers, Some(&present), None)?;
        }
        column.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}
