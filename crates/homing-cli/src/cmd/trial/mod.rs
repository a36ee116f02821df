//! `homing try`: the proof. Runs a program in turns as it is and in other ways, and says which is faster, by how much,
//! and how sure that is.

mod answer;
mod reading;

use super::live::place::{quoted, Placing};
use super::live::{duration, interrupts, one_node};
use crate::exit::{self, Code, Result};
use crate::files::Over;
use crate::progress;
use crate::tables::things;
use answer::Answer;
use clap::builder::PossibleValuesParser;
use clap::ValueHint;
use homing_core::report::SCHEMA;
use homing_linux::interrupts::Interrupts;
use homing_linux::monitor_card::MonitorCard;
use homing_linux::proc::Proc;
use homing_linux::program;
use homing_live::host::Host;
use homing_live::source::Places;
use homing_live::trial::run::Runner;
use homing_live::trial::ways::{self, Asked, Here, Way};
use homing_live::trial::{drive, End, Watch};
use homing_stats::looks::Looks;
use homing_stats::{Design, CONFIDENCE, MARGIN, MOST_ROUNDS};
use indicatif::ProgressBar;
use reading::{Measure, Number};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it may take where the user does not say.
const BUDGET: Duration = Duration::from_secs(300);

/// Arguments of `homing try`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The program runs many times: it must do the same each time. It gets no input; what it prints is \
dropped. A run of all ways in random order is a round; the first (cold) one is shown apart. Exit status: 0 \
whatever is found, 5 if runs failed or it was interrupted, 1 if the program fails as it is. docs/try.md says what the \
figures mean."
)]
pub struct Args {
    /// Another program to compare with, which gets the same arguments; or a whole command, its words split at blanks
    #[arg(long, value_name = "COMMAND")]
    against: Option<String>,
    /// Compare with a placement of these data, as `homing run --place`; other ways only if --ways names them
    #[arg(long, value_name = "NAME=PLACEMENT")]
    place: Vec<String>,
    /// Try these ways only: `again` is as it is once more, `none` leaves --against alone [default: all that
    /// this machine can carry out, but `again`]
    #[arg(long, value_name = "WAY,...", value_delimiter = ',', value_parser = PossibleValuesParser::new(ways::NAMES))]
    ways: Vec<String>,
    /// Stop after this time, though the differences are not clear [default: 5m; no end with --rounds]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    budget: Option<Duration>,
    /// Stop after this many rounds behind the cold one, though the differences are not clear
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_ROUNDS)))]
    rounds: Option<u32>,
    /// Compare a time that the program prints, not the wall time: the first group of this pattern, or all of it, in
    /// the last line that has it
    #[arg(long, value_name = "REGEX", conflicts_with = "rate_from")]
    time_from: Option<Number>,
    /// The same for a rate, which is better the higher it is
    #[arg(long, value_name = "REGEX")]
    rate_from: Option<Number>,
    /// How sure the intervals are, all together, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = CONFIDENCE * 100.0, value_parser = confidence)]
    confidence: f64,
    /// A difference below this does not matter, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = MARGIN * 100.0, value_parser = margin)]
    margin: f64,
    /// What the order of runs is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write what --json prints to a file
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, required = true,
          value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn confidence(text: &str) -> std::result::Result<f64, String> {
    percent(text, 50.0, 99.9)
}

fn margin(text: &str) -> std::result::Result<f64, String> {
    percent(text, 0.0, 50.0)
}

fn percent(text: &str, least: f64, most: f64) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected a number of percent from {least} to {most}"))
}

/// Tries, and prints.
pub fn run(args: Args) -> Result {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&args.command[0], &path)?;
    let against = args.against.as_deref().map(|text| other(text, &args.command, &path)).transpose()?;
    let host = Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
    let here = Here::of(host, &Proc::default(), Places::default(), std::env::current_exe()?)?;
    let placing = match args.place.is_empty() {
        true => None,
        false => Some(Placing::new(&args.place, &program, &args.command)?),
    };
    let how = || {
        let options: Vec<String> =
            args.place.iter().map(|place| format!("--place {}", quoted(place))).collect();
        format!("homing run {} -- PROGRAM", options.join(" "))
    };
    let none = ["none".to_owned()];
    let asked = Asked {
        program: &program,
        words: &args.command,
        against: against.as_ref().map(|(program, words)| (program.as_path(), words.as_slice())),
        placed: placing.as_ref().map(|placing| (how(), &placing.environment[..])),
        only: if placing.is_some() && args.ways.is_empty() { &none } else { &args.ways },
    };
    let (ways, left_out) = ways::ways(&here, &asked);
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = command.join(" ");
    if !here.has_places() && args.json {
        errln!("homing: {}", one_node(&format!("homing try {command}")));
    }
    if ways.len() == 1 {
        let why: String = left_out.iter().map(|left| format!("\n{}: {}", left.name, left.why)).collect();
        let message = format!(
            "there is nothing to compare {command} with here; name another program with --against{why}"
        );
        return Err(exit::error(Code::UNSUPPORTED, message));
    }
    args.tell_too_few(ways.len() - 1);
    let measure = args.measure();
    let read = |line: &str| measure.number(line);
    let places = Places::default();
    let card = MonitorCard::find(Path::new("/sys")).unwrap_or_else(|error| {
        errln!("homing: the monitor card of this machine counts nothing here: {error}");
        None
    });
    let runner =
        Runner { state: &places.state, reading: measure.reads().then_some(&read), card: card.as_ref() };
    let looks_on = LooksOn { caught: interrupts()?, bar: progress::steps("run") };
    let budget = args.budget.or(args.rounds.is_none().then_some(BUDGET));
    let measured = drive(&ways, args.design(ways.len()), budget, &runner, &looks_on)?;
    looks_on.bar.finish_and_clear();
    let placed = placing.map_or(Vec::new(), |placing| placing.lines());
    let answer =
        Answer { args: &args, command, here: &here, ways, left_out, placed, measured, measure, budget };
    print(&answer, &args)
}

fn print(answer: &Answer<'_>, args: &Args) -> Result {
    let mut json = answer.json();
    json["schema"] = SCHEMA.into();
    let json = serde_json::to_string_pretty(&json)?;
    match args.json {
        true => outln!("{json}"),
        false => outln!("{}", answer.text().trim_end()),
    }
    // Behind what is printed, which a file that cannot be written does not take away.
    if let Some(path) = &args.summary {
        crate::files::write(path, Over::Json, &json)?;
    }
    let failed = answer.measured.findings.ways.iter().any(|way| way.times.failed > 0);
    Ok(match answer.measured.end {
        End::Fails => Code::FAILURE,
        End::Interrupted => Code::PARTIAL,
        _ if failed => Code::PARTIAL,
        _ => Code::OK,
    })
}

impl Args {
    fn design(&self, ways: usize) -> Design {
        Design {
            ways,
            seed: self.seed,
            confidence: self.confidence / 100.0,
            margin: self.margin / 100.0,
            rounds: self.rounds.unwrap_or(MOST_ROUNDS),
        }
    }

    /// Says beforehand where so few rounds can tell nothing.
    fn tell_too_few(&self, compared: usize) {
        let needed = Looks::new(compared, self.confidence / 100.0).pairs(0);
        if let Some(rounds) = self.rounds.filter(|&rounds| (rounds as usize) < needed) {
            errln!(
                "homing: {} can tell nothing: to compare {}, {} % sure, at least {needed} are needed",
                things(u64::from(rounds), "round"),
                things(compared as u64, "way"),
                self.confidence
            );
        }
    }

    fn measure(&self) -> Measure {
        match (&self.time_from, &self.rate_from) {
            (Some(number), _) => Measure::Time(number.clone()),
            (None, Some(number)) => Measure::Rate(number.clone()),
            (None, None) => Measure::Wall,
        }
    }
}

/// The program and the words of the other command: all of its own, or the first word alone.
fn other(text: &str, words: &[OsString], path: &OsStr) -> anyhow::Result<(PathBuf, Vec<OsString>)> {
    let mut own: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
    if own.len() < 2 || Path::new(text).is_file() {
        own = std::iter::once(text.into()).chain(words[1..].iter().cloned()).collect();
    }
    Ok((program::find(&own[0], path)?, own))
}

/// Shows what runs, and notices signals.
struct LooksOn {
    caught: Interrupts,
    bar: ProgressBar,
}

impl Watch for LooksOn {
    fn interrupted(&self) -> bool {
        self.caught.count() > 0
    }

    fn begins(&self, way: &Way, round: u32) {
        self.bar.inc(1);
        self.bar.set_message(match round {
            0 => format!("cold round, {}", way.name),
            round => format!("round {round}, {}", way.name),
        });
    }
}
