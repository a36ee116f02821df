//! `homing optimal --placement`: where each page begins in the cheapest placement, and every action, line by line.

use crate::files::{self, Over};
use anyhow::Context;
use homing_core::history::History;
use homing_core::optimal::{PageAction, Sink};
use homing_pipeline::optimal::{Answer, Question};
use homing_pipeline::Case;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the placement beside computing it.
pub fn write(path: &Path, question: &Question, case: &Case<'_>) -> anyhow::Result<Answer> {
    let mut file = files::Output::create(path, Over::Texts)?;
    let buffer = BufWriter::new(&mut file);
    let out = if path.extension().is_some_and(|e| e == "jsonl") {
        Format::JsonLines(buffer)
    } else {
        Format::Csv(Box::new(csv::Writer::from_writer(buffer)))
    };
    let mut writer = PlacementWriter { history: &case.layout.history, out, error: None };
    let answer = question.place(case, &mut writer)?;
    writer.finish().with_context(|| format!("cannot write placement {}", path.display()))?;
    file.commit()?;
    Ok(answer)
}

/// A line of the placement file (`docs/optimal.md`).
#[derive(Serialize)]
struct PlacementLine {
    page: u32,
    address: String,
    reference: u64,
    time: u64,
    action: &'static str,
    from: u16,
    to: u16,
}

enum Format<W: Write> {
    Csv(Box<csv::Writer<W>>),
    JsonLines(W),
}

impl<W: Write> Format<W> {
    fn line(&mut self, line: &PlacementLine) -> anyhow::Result<()> {
        match self {
            Format::Csv(csv) => csv.serialize(line)?,
            Format::JsonLines(out) => {
                serde_json::to_writer(&mut *out, line)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match self {
            Format::Csv(csv) => csv.flush()?,
            Format::JsonLines(out) => out.flush()?,
        }
        Ok(())
    }
}

struct PlacementWriter<'a, W: Write> {
    history: &'a History,
    out: Format<W>,
    error: Option<anyhow::Error>,
}

impl<W: Write> PlacementWriter<'_, W> {
    fn finish(mut self) -> anyhow::Result<()> {
        self.error.map_or(Ok(()), Err)?;
        self.out.finish()
    }
}

impl<W: Write> Sink for PlacementWriter<'_, W> {
    fn action(&mut self, action: &PageAction) {
        if self.error.is_some() {
            return;
        }
        let line = PlacementLine {
            page: action.page.0,
            address: format!("{:#x}", self.history.address(action.page)),
            reference: action.reference,
            time: action.time.0,
            action: action.kind.name(),
            from: action.from.0,
            to: action.to.0,
        };
        self.error = self.out.line(&line).err();
    }
}
