//! Applications: how long an iteration takes with a number of processors, and what it misses in memory.
//!
//! An iteration on p processors takes
//!
//! > compute (serial + (1 - serial) / p) + overhead p + the misses of the slowest thread, each for what it waits.
//!
//! `misses` says how many there are in all on some numbers of processors; between them they are interpolated on
//! logarithmic scales. The share `serial_misses` of them is that of the first thread's serial work, which goes over all
//! of the data; the rest is divided evenly. Fewer misses on more processors, whose caches hold more of the data
//! together, are what makes a speed-up super-linear.

use super::workload::Mix;
use super::BadInput;
use homing_core::trace::ids::parse_bytes;
use serde::{Deserialize, Serialize};

/// Where an application's pages are when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// Each thread touches its part of the data first.
    Parallel,
    /// The first thread touches everything.
    Serial,
}

/// An application, as a file says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Its name.
    pub name: String,
    /// Processors that it asks for.
    pub request: u32,
    /// Iterations of its outer loop.
    pub iterations: f64,
    /// Milliseconds of an iteration on one processor, without misses.
    pub compute_ms: f64,
    /// Share of that which one thread does alone.
    #[serde(default)]
    pub serial: f64,
    /// Microseconds of each iteration for each thread: to begin and end its parallel regions.
    #[serde(default)]
    pub overhead_us: f64,
    /// Its data, such as "14M".
    #[serde(default)]
    pub data: Bytes,
    /// Share of its misses that go to data which all threads use.
    #[serde(default)]
    pub shared: f64,
    /// Share of its misses that are writes.
    #[serde(default = "third")]
    pub writes: f64,
    /// Misses of an iteration, all threads together, at numbers of processors: `[[1, 3e6], [32, 1e6]]`.
    #[serde(default)]
    pub misses: Vec<(f64, f64)>,
    /// Share of them that the first thread has in its serial work, one for all numbers of processors or
    /// `[[2, 0.4], [8, 0.3]]`. They go to all of the data alike.
    #[serde(default)]
    pub serial_misses: Share,
    /// How it initialises its data.
    #[serde(default = "parallel")]
    pub init: Init,
    /// False for a job whose number of threads is fixed: it waits until it gets the processors that it asks for.
    #[serde(default = "yes")]
    pub malleable: bool,
}

fn third() -> f64 {
    1.0 / 3.0
}

fn parallel() -> Init {
    Init::Parallel
}

fn yes() -> bool {
    true
}

/// A share that is always the same, or known on some numbers of processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a share from 0 to 1, or pairs such as [[2, 0.4], [8, 0.3]]")]
pub enum Share {
    /// Always this.
    Same(f64),
    /// By rising numbers of processors; between them in proportion to their logarithms.
    By(Vec<(f64, f64)>),
}

impl Default for Share {
    fn default() -> Share {
        Share::Same(0.0)
    }
}

impl Share {
    /// The share on p processors.
    pub fn on(&self, processors: u32) -> f64 {
        match self {
            Share::Same(share) => *share,
            Share::By(points) => interpolated(points, f64::from(processors.max(1)), |low, high, part| {
                low + part * (high - low)
            }),
        }
    }
}

/// Between two points that are known, `between` their values for the part of the way on a logarithmic scale; beyond
/// the first and the last, theirs.
fn interpolated(points: &[(f64, f64)], p: f64, between: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    if p <= first.0 {
        return first.1;
    }
    let Some(above) = points.iter().position(|point| p <= point.0) else { return last.1 };
    let (low, high) = (points[above - 1], points[above]);
    between(low.1, high.1, (p / low.0).ln() / (high.0 / low.0).ln())
}

/// A number of bytes that is written with a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Bytes, String> {
        parse_bytes(&text).map(Bytes).ok_or_else(|| format!("`{text}`: expected a size such as \"14M\""))
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        match bytes.0 {
            whole if whole % 1024 == 0 && whole > 0 => format!("{}K", whole / 1024),
            bytes => bytes.to_string(),
        }
    }
}

/// A file of applications.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    app: Vec<App>,
    #[serde(default)]
    mix: Vec<Mix>,
}

/// Applications, and mixes of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Applications.
    pub apps: Vec<App>,
    /// Mixes.
    pub mixes: Vec<Mix>,
}

/// The applications and workloads of Corbalan 2003, section 6.
pub const CORBALAN: &str = include_str!("../../../jobs/corbalan-2003.toml");

impl App {
    /// The applications and mixes of a TOML file (`[[app]]` and `[[mix]]`, one table each).
    pub fn read(text: &str, file: &str) -> Result<Catalogue, BadInput> {
        let bad = |message: String| BadInput { file: file.into(), line: None, message };
        let read: File = toml::from_str(text).map_err(|e| bad(e.to_string().trim_end().into()))?;
        if read.app.is_empty() {
            return Err(bad("no application: expected a table [[app]] for each".into()));
        }
        for (index, app) in read.app.iter().enumerate() {
            app.check().map_err(|message| bad(format!("app `{}`: {message}", app.name)))?;
            if read.app[..index].iter().any(|other| other.name == app.name) {
                return Err(bad(format!("app `{}` stands twice", app.name)));
            }
        }
        Ok(Catalogue { apps: read.app, mixes: read.mix })
    }

    /// A job of a log, of which only processors and time are known: it computes, and misses nothing.
    pub fn of_log(request: u32, malleable: bool) -> App {
        App {
            name: format!("{request} CPUs"),
            request,
            iterations: 1.0,
            compute_ms: 1000.0 * f64::from(request),
            serial: 0.0,
            overhead_us: 0.0,
            data: Bytes(0),
            shared: 0.0,
            writes: third(),
            misses: Vec::new(),
            serial_misses: Share::default(),
            init: Init::Parallel,
            malleable,
        }
    }

    fn check(&self) -> Result<(), String> {
        let rising = |name, points: &[(f64, f64)]| {
            let wrong = |&(p, n): &(f64, f64)| p < 1.0 || n < 0.0 || !p.is_finite() || !n.is_finite();
            match points.windows(2).all(|pair| pair[0].0 < pair[1].0) && !points.iter().any(wrong) {
                true => Ok(()),
                false => {
                    Err(format!("{name}: expected pairs [processors, {name}] by rising processors from 1"))
                }
            }
        };
        let share = |name, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} = {value}: expected a share from 0 to 1")),
        };
        share("serial", self.serial)?;
        share("shared", self.shared)?;
        match &self.serial_misses {
            Share::Same(value) => share("serial_misses", *value)?,
            Share::By(points) => {
                points.iter().try_for_each(|&(_, value)| share("serial_misses", value))?;
                rising("serial_misses", points)?;
            }
        }
        share("writes", self.writes)?;
        let positive = |name, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(format!("{name} = {value}: expected a number above 0")),
        };
        positive("request", f64::from(self.request))?;
        positive("iterations", self.iterations)?;
        positive("compute_ms", self.compute_ms)?;
        if !(self.overhead_us >= 0.0 && self.overhead_us.is_finite()) {
            return Err(format!("overhead_us = {}: expected 0 or more", self.overhead_us));
        }
        rising("misses", &self.misses)?;
        if self.data.0 == 0 && self.misses.iter().any(|&(_, n)| n > 0.0) {
            return Err("misses without data: expected `data`, the bytes that they go to".into());
        }
        Ok(())
    }

    /// Misses of an iteration on p processors, all threads together.
    pub fn misses_on(&self, processors: u32) -> f64 {
        interpolated(&self.misses, f64::from(processors.max(1)), |low, high, part| {
            match low > 0.0 && high > 0.0 {
                true => (low.ln() + part * (high / low).ln()).exp(),
                false => low + part * (high - low),
            }
        })
    }

    /// Seconds of an iteration on p processors in which no thread waits for memory.
    pub fn busy_s(&self, processors: u32) -> f64 {
        let p = f64::from(processors.max(1));
        self.compute_ms * 1e-3 * (self.serial + (1.0 - self.serial) / p) + self.overhead_us * 1e-6 * p
    }

    /// Misses of an iteration on p processors in its serial work, and of each thread in its parallel work.
    pub fn misses_of_threads_on(&self, processors: u32) -> (f64, f64) {
        let misses = self.misses_on(processors);
        let serial = misses * self.serial_misses.on(processors);
        (serial, (misses - serial) / f64::from(processors.max(1)))
    }

    /// Seconds of an iteration on p processors whose misses wait that long each.
    pub fn iteration_s(&self, processors: u32, wait_s: f64) -> f64 {
        let (serial, parallel) = self.misses_of_threads_on(processors);
        self.busy_s(processors) + (serial + parallel) * wait_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWIM: &str =
        "[[app]]\nname = \"swim\"\nrequest = 32\niterations = 10\ncompute_ms = 100\nserial = 0.1\n\
                        overhead_us = 50\ndata = \"14M\"\nmisses = [[1, 8e6], [4, 2e6], [32, 2e6]]\n";

    #[test]
    fn time_and_misses_by_hand() {
        let app = &App::read(SWIM, "apps.toml").unwrap().apps[0];
        assert_eq!(app.misses_on(1), 8e6);
        assert!((app.misses_on(2) - 4e6).abs() < 1e-6, "the geometric mean at half of the way");
        assert_eq!(app.misses_on(64), 2e6);
        // 100 ms x (0.1 + 0.9 / 2) + 2 x 50 us, and 2 million misses a thread of 1 us each.
        assert!((app.iteration_s(2, 1e-6) - (0.055 + 1e-4 + 2.0)).abs() < 1e-12);
        // A quarter of them by one thread alone, which then has that and its part of the others.
        let alone = App { serial_misses: Share::Same(0.25), ..app.clone() };
        let (serial, parallel) = alone.misses_of_threads_on(4);
        assert!((serial - 0.5e6).abs() < 1e-6 && (parallel - 0.375e6).abs() < 1e-6);
        assert!((alone.iteration_s(4, 1e-6) - alone.busy_s(4) - 0.875).abs() < 1e-12);
        let by = Share::By(vec![(2.0, 0.4), (8.0, 0.2)]);
        assert_eq!([1, 2, 8, 16].map(|p| by.on(p)), [0.4, 0.4, 0.2, 0.2]);
        assert!((by.on(4) - 0.3).abs() < 1e-12, "half of the way on a logarithmic scale");
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        let refused =
            |from: &str, to: &str| App::read(&SWIM.replace(from, to), "apps.toml").unwrap_err().message;
        assert!(refused("serial = 0.1", "serial = 2").contains("expected a share"));
        assert!(refused("[4, 2e6]", "[40, 2e6]").contains("rising"));
        assert!(refused("\"14M\"", "\"0\"").contains("without data"));
        assert!(refused("\"14M\"", "\"lots\"").contains("expected a size"));
        assert!(refused("request = 32", "request = 0").contains("above 0"));
        assert!(
            refused("overhead_us", "serial_misses = [[2, 1.5]]\noverhead_us").contains("expected a share")
        );
        assert!(
            refused("overhead_us", "serial_misses = [[2, 0.5], [1, 0.5]]\noverhead_us").contains("rising")
        );
        assert!(refused("overhead_us", "serial_misses = \"few\"\noverhead_us").contains("or pairs such as"));
        assert!(refused("overhead_us", "overhead").contains("unknown field"));
        assert!(App::read("", "apps.toml").unwrap_err().message.contains("[[app]]"));
        assert!(App::read(&SWIM.repeat(2), "apps.toml").unwrap_err().message.contains("twice"));
    }
}
