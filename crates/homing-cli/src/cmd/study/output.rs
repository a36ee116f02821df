//! What a study leaves: `cells.csv`, `cells.parquet`, `manifest.json`, `study.html`.

use super::cell::{Cell, Value, COLUMNS};
use super::plan::Plan;
use crate::files::{writing, Output};
use anyhow::Context;
use homing_core::report::Parameter;
use homing_linux::visible;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Serialize;
use std::io::Write;
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
pub fn document<'a>(plan: &Plan, cells: &'a [Cell], notes: &'a [String]) -> Document<'a> {
    Document {
        schema: SCHEMA,
        generator: crate::manifest::GENERATOR,
        parameters: plan.parameters(),
        notes,
        cells,
    }
}

/// Writes all files. `notes`: what a reader of the results must know.
pub fn write(plan: &Plan, cells: &[Cell], notes: &[String]) -> anyhow::Result<()> {
    let file = |name: &str, fill: &dyn Fn(&mut Output) -> anyhow::Result<()>| {
        let path = plan.out.join(name);
        let mut output = Output::create(&path)?;
        fill(&mut output).with_context(|| writing(&path))?;
        anyhow::Ok(output.commit()?)
    };
    file("cells.csv", &|out| csv(out, cells))?;
    file("cells.parquet", &|out| parquet(out, cells))?;
    let document = document(plan, cells, notes);
    file(super::MANIFEST, &|out| {
        let manifest = serde_json::json!({
            "schema": SCHEMA,
            "generator": document.generator,
            "parameters": document.parameters,
            "notes": notes,
            "cells": cells.len(),
        });
        Ok(serde_json::to_writer_pretty(out, &manifest)?)
    })?;
    file("study.html", &|out| Ok(out.write_all(crate::page::study(&document)?.as_bytes())?))
}

fn csv(out: &mut Output, cells: &[Cell]) -> anyhow::Result<()> {
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
fn parquet(out: &mut Output, cells: &[Cell]) -> anyhow::Result<()> {
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
        let mut column = group.next_column()?.context("a column for each of the schema")?;
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

/// Least loss of first touch, in per cent of the optimal cost, of which a recovered share says something. A share of
/// less makes means meaningless: some are thousands of per cent.
const LOSS: f64 = 1.0;

/// The recovered share, if first touch loses enough.
fn recovered(gap_percent: f64, share: Option<f64>) -> Option<f64> {
    let share = share?;
    let lost = gap_percent / (1.0 - share / 100.0);
    (share >= 100.0 || lost >= LOSS).then_some(share)
}

/// Geometric mean, worst gap and recovered share, where first touch loses 1 % or more, of each policy at each machine,
/// start and information level.
pub fn table(cells: &[Cell]) -> comfy_table::Table {
    let mut groups: Vec<(Vec<&str>, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let row = &cell.row;
        let key = vec![&*row.policy, &*row.machine, &*cell.start, &*row.information];
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    groups.sort_by(|a, b| a.0[1..].cmp(&b.0[1..]));
    let header = ["policy", "machine", "start", "information", "gap %", "worst %", "on trace", "recovered %"];
    let mut table = crate::tables::table(&header);
    for (key, cells) in groups {
        let count = cells.len() as f64;
        let logs: f64 = cells.iter().map(|cell| (1.0 + cell.row.gap_percent / 100.0).ln()).sum();
        let mean = 100.0 * ((logs / count).exp() - 1.0);
        let worst = cells.iter().max_by(|a, b| a.row.gap_percent.total_cmp(&b.row.gap_percent));
        let shares: Vec<f64> = cells
            .iter()
            .filter_map(|cell| recovered(cell.row.gap_percent, cell.row.recovered_percent))
            .collect();
        let share = match shares.len() {
            0 => "-".into(),
            count => format!("{:.1}", shares.iter().sum::<f64>() / count as f64),
        };
        let mut line: Vec<String> = key.into_iter().map(str::to_owned).collect();
        line.push(format!("{mean:.2}"));
        line.push(worst.map_or(String::new(), |cell| format!("{:.2}", cell.row.gap_percent)));
        line.push(worst.map_or(String::new(), |cell| visible::name(&cell.trace).into_owned()));
        line.push(share);
        table.add_row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_next_to_nothing_is_not_averaged() {
        // First touch costs 0.01 % more than the optimum, the policy 1 %.
        assert_eq!((recovered(1.0, Some(-9900.0)), recovered(0.0, None)), (None, None));
        let shares = (recovered(1.0, Some(90.0)), recovered(20.0, Some(-100.0)));
        assert_eq!(shares, (Some(90.0), Some(-100.0)));
        assert_eq!(recovered(0.0, Some(100.0)), Some(100.0));
    }
}
