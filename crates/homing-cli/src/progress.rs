//! Progress bars: on stderr, only on a terminal, only for what takes more than a second.

use homing_pipeline::progress::{Bar, Unit};
use homing_pipeline::Progress;
use homing_record::Watch;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A bar over a number of references.
pub fn references(total: u64, what: &'static str) -> ProgressBar {
    let style = "{msg}: {human_pos} of {human_len} references {wide_bar} {per_sec}, {eta} left";
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
        .with_message(what)
        .with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    show_later(&bar);
    bar
}

/// A bar over a number of bytes; 0 if it is not known.
pub fn bytes(total: u64, what: &'static str) -> ProgressBar {
    let style = match total {
        0 => "{msg}: {bytes} {bytes_per_sec}",
        _ => "{msg}: {bytes} of {total_bytes} {wide_bar} {bytes_per_sec}, {eta} left",
    };
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
        .with_message(what)
        .with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    show_later(&bar);
    bar
}

/// A bar over a number of things to do.
pub fn units(total: u64, what: &'static str) -> ProgressBar {
    let style = "{msg}: {pos} of {len} {wide_bar} {eta} left";
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
        .with_message(what)
        .with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    show_later(&bar);
    bar
}

/// What is being done, of a number of things that nobody knows beforehand: `inc` and `set_message` for each.
pub fn steps(what: &'static str) -> ProgressBar {
    let style = "{prefix} {pos}: {msg}, {elapsed} in all";
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        .with_prefix(what)
        .with_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_secs(1));
    show_later(&bar);
    bar
}

/// Shows a bar once a second has passed.
fn show_later(bar: &ProgressBar) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let bar = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        if let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    });
}

/// The bars of homing-pipeline.
pub fn of_pipeline() -> Progress {
    let begin = |total, unit, doing| -> Box<dyn Bar> {
        Box::new(Shown(match unit {
            Unit::References => references(total, doing),
            Unit::Cases => units(total, doing),
        }))
    };
    Progress::new(begin, |line| errln!("homing: {line}"))
}

/// A bar that ends when it is dropped.
struct Shown(ProgressBar);

impl Bar for Shown {
    fn advance(&self, done: u64) {
        self.0.inc(done);
    }

    fn restart(&self) {
        self.0.reset();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A recording: one line, once a second; what it says appears above that.
pub struct Recording {
    bar: ProgressBar,
    /// When the line was last shown, and the references then.
    shown: Mutex<(Instant, u64)>,
}

impl Recording {
    pub fn new() -> Recording {
        let style = ProgressStyle::with_template("recording: {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.unwrap_or(ProgressStyle::default_spinner()));
        Recording { bar, shown: Mutex::new((Instant::now(), 0)) }
    }
}

impl Watch for Recording {
    fn say(&self, line: &str) {
        self.bar.suspend(|| errln!("{line}"));
    }

    fn progress(&self, references: u64, bytes: u64) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = shown.0.elapsed();
        if elapsed < Duration::from_secs(1) {
            return;
        }
        // A process that executes another program begins again at 0.
        let rate = references.saturating_sub(shown.1) as f64 / elapsed.as_secs_f64();
        self.bar.set_message(format!(
            "{:.1} M references, {:.1} M/s, {}",
            references as f64 / 1e6,
            rate / 1e6,
            HumanBytes(bytes)
        ));
        self.bar.tick();
        *shown = (Instant::now(), references);
    }

    fn ended(&self) {
        self.bar.finish_and_clear();
    }
}
