//! Progress bars: on stderr, only on a terminal, only for what takes more than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

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
