//! A difference for people: verdicts, figures, and the areas that changed most.

use crate::tables::{plain, things};
use homing_core::report::diff::{AreaChange, AreaSide, Change, WhyDiff};
use homing_linux::visible;
use indicatif::HumanBytes;

/// What is shown.
pub struct Page<'a> {
    diff: &'a WhyDiff,
    shown: usize,
}

type Rows = Vec<Vec<String>>;

impl<'a> Page<'a> {
    /// `shown`: most areas.
    pub fn new(diff: &'a WhyDiff, shown: usize) -> Page<'a> {
        Page { diff, shown }
    }

    /// As a terminal shows it.
    pub fn plain(&self) -> String {
        let mut lines = self.head();
        for (header, rows) in self.tables() {
            let mut shown = plain(&header);
            shown.add_rows(rows);
            lines.extend([String::new(), shown.to_string()]);
        }
        lines.extend([String::new(), self.joined()]);
        lines.join("\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let cell = |text: &String| text.replace('|', "\\|");
        let row = |row: &Vec<String>| format!("| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
        let mut head = self.head().into_iter();
        let mut lines: Vec<String> = head.next().map(|first| format!("**{first}**")).into_iter().collect();
        lines.push(String::new());
        lines.extend(head.map(|line| format!("* {line}")));
        for (header, rows) in self.tables() {
            lines.extend([String::new(), row(&header), format!("|{}", "---|".repeat(header.len()))]);
            lines.extend(rows.iter().map(row));
        }
        lines.extend([String::new(), self.joined(), String::new()]);
        lines.join("\n")
    }

    fn head(&self) -> Vec<String> {
        let diff = self.diff;
        let mut lines = vec![diff.sentence.clone()];
        lines.extend(
            diff.differs.iter().map(|what| format!("Not the same in both: {}.", visible::name(what))),
        );
        lines.push(format!("Before: {}", visible::name(&diff.before.basis)));
        lines.push(format!("After: {}", visible::name(&diff.after.basis)));
        lines
    }

    fn tables(&self) -> Vec<(Vec<String>, Rows)> {
        let header = |first: &str, more: &[&str]| -> Vec<String> {
            [&[first, "before", "after", "change"], more].concat().into_iter().map(String::from).collect()
        };
        let mut tables = vec![(header("", &[]), self.figures())];
        if !self.diff.areas.is_empty() {
            tables.push((header("cost of", &["size", "cause before", "cause after"]), self.areas()));
        }
        tables
    }

    fn figures(&self) -> Rows {
        let diff = self.diff;
        let seconds = |time: f64| format!("{time:.3} s");
        let number = |value: f64| format!("{value:.0}");
        let two = |value: f64| format!("{value:.2}");
        let mut rows = Vec::new();
        let mut row = |what: &str, figure: Change, shown: &dyn Fn(f64) -> String| {
            rows.push(vec![what.into(), shown(figure.before), shown(figure.after), share(figure)]);
        };
        if let Some(time) = diff.seconds {
            row("modelled time", time, &seconds);
        }
        if let Some(time) = diff.contention_seconds {
            row("of it waiting for busy memories", time, &seconds);
        }
        row("cost, local references", diff.cost, &number);
        row("of it avoidable", diff.avoidable_cost, &number);
        row("non-local %", diff.nonlocal_percent, &|value| format!("{value:.1}"));
        row("busiest memory over the mean", diff.imbalance, &two);
        rows
    }

    /// The areas that changed most, a row each, and how many there are besides.
    fn areas(&self) -> Rows {
        let areas = &self.diff.areas;
        let mut rows: Rows = areas.iter().take(self.shown).map(row).collect();
        if let Some(rest) = areas.get(self.shown..).filter(|rest| !rest.is_empty()) {
            let sum = |of: fn(&AreaChange) -> &Option<AreaSide>| -> f64 {
                rest.iter().filter_map(|area| of(area).as_ref()).map(|side| side.cost).sum()
            };
            let all = Change { before: sum(|area| &area.before), after: sum(|area| &area.after) };
            let mut row =
                vec![format!("({} more)", rest.len()), cost(all.before), cost(all.after), share(all)];
            row.resize(7, String::new());
            rows.push(row);
        }
        rows
    }

    fn joined(&self) -> String {
        let joined = self.diff.joined;
        format!(
            "{} joined by name, {} by function and file at other lines; {} went away, {} new.",
            things(joined.by_name, "area"),
            joined.by_function,
            joined.only_before,
            if joined.only_after == 1 { "1 is".into() } else { format!("{} are", joined.only_after) },
        )
    }
}

fn row(area: &AreaChange) -> Vec<String> {
    let side = |side: &Option<AreaSide>| side.as_ref().map_or("-".into(), |side| cost(side.cost));
    let cause = |side: &Option<AreaSide>| {
        side.as_ref().and_then(|side| side.cause).map_or("-".into(), |cause| cause.words().to_owned())
    };
    let now = area.after.as_ref().or(area.before.as_ref());
    let change = match (&area.before, &area.after) {
        (Some(before), Some(after)) => share(Change { before: before.cost, after: after.cost }),
        (Some(_), None) => "went away".into(),
        _ => "new".into(),
    };
    vec![
        area.name.as_deref().map_or("(no name)".into(), |name| visible::name(name).into_owned()),
        side(&area.before),
        side(&area.after),
        change,
        now.map_or("-".into(), |side| HumanBytes(side.bytes).to_string()),
        cause(&area.before),
        cause(&area.after),
    ]
}

fn cost(value: f64) -> String {
    format!("{value:.0}")
}

fn share(change: Change) -> String {
    match change.share() {
        None => "from none".into(),
        Some(share) if share.abs() < 5e-4 => "same".into(),
        Some(share) => format!("{:+.1} %", 100.0 * share),
    }
}
