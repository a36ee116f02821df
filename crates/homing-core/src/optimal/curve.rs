//! The optimal cost as a function of one of r, R, g and G, exactly (Bolosky & Scott 1991, section 4.3.1).
//!
//! Every placement costs a straight line in the parameter, so the optimum, their minimum, is continuous, concave and
//! piecewise linear, with the number of moves (or of remote or global references) as its slope. All break-points of a
//! page are found with about two evaluations each: where the lines of two known optima cross, either the optimum is
//! cheaper, and a new line is found, or the crossing is a break-point. The curve of a trace is the sum over its pages.

use super::uniform::UniformSolver;
use super::{OptimalError, Options};
use crate::account::Charges;
use crate::history::History;
use crate::ids::Page;
use crate::machine::{Costs, Global, Uniform};
use rayon::prelude::*;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The parameter that varies; the others stay as the machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Parameter {
    /// R, the cost of a page copy between nodes.
    #[serde(rename = "R")]
    PageMove,
    /// r, the cost of a remote reference.
    #[serde(rename = "r")]
    Remote,
    /// G, the cost of a page copy from or to global memory.
    #[serde(rename = "G")]
    GlobalPageMove,
    /// g, the cost of a reference to global memory.
    #[serde(rename = "g")]
    Global,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Parameter::PageMove => "R",
            Parameter::Remote => "r",
            Parameter::GlobalPageMove => "G",
            Parameter::Global => "g",
        })
    }
}

impl FromStr for Parameter {
    type Err = CurveError;

    fn from_str(text: &str) -> Result<Parameter, CurveError> {
        match text {
            "R" | "page_move" => Ok(Parameter::PageMove),
            "r" | "remote" => Ok(Parameter::Remote),
            "G" | "global_page_move" => Ok(Parameter::GlobalPageMove),
            "g" | "global" => Ok(Parameter::Global),
            _ => Err(CurveError::Syntax { found: text.into() }),
        }
    }
}

/// Why there is no curve.
#[derive(Debug, thiserror::Error)]
pub enum CurveError {
    /// Not `PARAM=LO..HI`.
    #[error("curve `{found}`: expected PARAM=LO..HI with PARAM one of R, r, G, g, such as R=200..20000")]
    Syntax {
        /// What was given.
        found: String,
    },
    /// The range ends before it begins.
    #[error(
        "{parameter} from {low} to {high}: expected the smaller number first, {parameter}={high}..{low}"
    )]
    Reversed {
        /// The parameter.
        parameter: Parameter,
        /// Asked from.
        low: f64,
        /// Asked to.
        high: f64,
    },
    /// The machine has matrices instead of parameters.
    #[error("the machine has unequal distances and no single {parameter}: a curve needs a machine with one r and one \
    R")]
    General {
        /// The parameter.
        parameter: Parameter,
    },
    /// g or G on a machine without global memory.
    #[error("the machine has no global memory, so no {parameter}: set `global` and `global_page_move`, or vary R or r")]
    NoGlobal {
        /// The parameter.
        parameter: Parameter,
    },
    /// Nothing of the range is valid.
    #[error("{parameter} from {low} to {high}: the model allows {} to {} on this machine \
    ({why})", .allowed.0, .allowed.1)]
    Empty {
        /// The parameter.
        parameter: Parameter,
        /// Asked from.
        low: f64,
        /// Asked to.
        high: f64,
        /// What the constraints leave.
        allowed: (f64, f64),
        /// The constraints.
        why: &'static str,
    },
    /// The optimum failed.
    #[error(transparent)]
    Optimal(#[from] OptimalError),
}

/// A parameter and its range, checked against a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// What varies.
    pub parameter: Parameter,
    /// From.
    pub low: f64,
    /// To.
    pub high: f64,
}

impl FromStr for Range {
    type Err = CurveError;

    /// Parses `R=200..20000`.
    fn from_str(text: &str) -> Result<Range, CurveError> {
        let error = || CurveError::Syntax { found: text.into() };
        let (parameter, range) = text.split_once('=').ok_or_else(error)?;
        let (low, high) = range.split_once("..").ok_or_else(error)?;
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(error);
        let parameter = parameter.trim().parse().map_err(|_| error())?;
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(CurveError::Reversed { parameter, low, high });
        }
        Ok(Range { parameter, low, high })
    }
}

impl Range {
    /// The part of the range that the model's constraints allow with the machine's other parameters (the closure of it:
    /// cost is continuous, so R = 2r is a limit that may be included), and the machine.
    pub fn clip(self, costs: &Costs) -> Result<(Range, Uniform), CurveError> {
        let Range { parameter, low, high } = self;
        let Costs::Uniform(u) = costs else { return Err(CurveError::General { parameter }) };
        let (least, most, why) = match (parameter, u.global) {
            (Parameter::PageMove, None) => (2.0 * u.remote, f64::INFINITY, "R > 2r"),
            (Parameter::PageMove, Some(g)) => {
                (g.page_move.max(2.0 * u.remote), 2.0 * g.page_move, "R > 2r, G <= R <= 2G")
            }
            (Parameter::Remote, None) => (1.0, u.page_move / 2.0, "r > 1, R > 2r"),
            (Parameter::Remote, Some(g)) => (g.access, u.page_move / 2.0, "r >= g, R > 2r"),
            (Parameter::GlobalPageMove, Some(g)) => {
                ((u.page_move / 2.0).max(2.0 * g.access), u.page_move, "G > 2g, G <= R <= 2G")
            }
            (Parameter::Global, Some(g)) => (1.0, u.remote.min(g.page_move / 2.0), "g > 1, r >= g, G > 2g"),
            (_, None) => return Err(CurveError::NoGlobal { parameter }),
        };
        let clipped = Range { parameter, low: low.max(least), high: high.min(most) };
        if clipped.low > clipped.high || low > high {
            return Err(CurveError::Empty { parameter, low, high, allowed: (least, most), why });
        }
        Ok((clipped, *u))
    }

    /// The read gap with which a history is exact over the whole range.
    pub fn read_gap(&self, costs: &Uniform) -> u32 {
        let gap = |value| Costs::Uniform(self.parameter.at(costs, value)).read_gap();
        gap(self.low).min(gap(self.high))
    }
}

impl Parameter {
    /// The machine with this parameter at `value`.
    pub fn at(self, costs: &Uniform, value: f64) -> Uniform {
        let with = |change: &dyn Fn(&mut Global)| {
            let mut global = costs.global;
            global.iter_mut().for_each(change);
            Uniform { global, ..*costs }
        };
        match self {
            Parameter::PageMove => Uniform { page_move: value, ..*costs },
            Parameter::Remote => Uniform { remote: value, ..*costs },
            Parameter::GlobalPageMove => with(&|global| global.page_move = value),
            Parameter::Global => with(&|global| global.access = value),
        }
    }

    /// How often a placement pays the parameter.
    fn slope(self, counts: &Charges) -> u64 {
        match self {
            Parameter::PageMove => counts.copies,
            Parameter::Remote => counts.remote,
            Parameter::GlobalPageMove => counts.global_copies,
            Parameter::Global => counts.global,
        }
    }
}

/// A straight piece of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Value of the parameter where it begins.
    pub from: f64,
    /// Value of the parameter where it ends.
    pub to: f64,
    /// What the optimal placement does throughout.
    pub counts: Charges,
    /// Cost per unit of the parameter: moves, or references.
    pub slope: u64,
    /// Cost at parameter 0, continued: cost = intercept + slope * parameter.
    pub intercept: f64,
}

impl Segment {
    /// The optimal cost at a value within the segment.
    pub fn cost(&self, value: f64) -> f64 {
        self.intercept + self.slope as f64 * value
    }
}

/// Costs that differ by less than this part are equal: the rest is rounding.
const ROUNDING: f64 = 1e-12;

/// The exact curve over `range`, which [`Range::clip`] gave for `costs`. The history must have been built with at most
/// `range.read_gap(costs)`. Uses all threads of the current rayon pool; the result is the same for any number.
pub fn curve(
    history: &History,
    costs: &Uniform,
    range: Range,
    options: Options,
) -> Result<Vec<Segment>, CurveError> {
    curve_within(history, costs, range, options, 0.0)
}

/// The same, but a break-point is left out where it makes the optimum of its page cheaper by less than `precision` of
/// it. A page with thousands of runs has as many break-points, each of which takes another look at all its runs; nearly
/// all of them are too small to see. What is given costs of placements that are possible, at most that much too high.
pub fn curve_within(
    history: &History,
    costs: &Uniform,
    range: Range,
    options: Options,
    precision: f64,
) -> Result<Vec<Segment>, CurveError> {
    let precision = precision.max(ROUNDING);
    let (mut first, mut breaks) = (0..history.pages())
        .into_par_iter()
        .try_fold(
            || (Charges::default(), Vec::new()),
            |(mut first, mut breaks), page| {
                let mut lines = PageCurve {
                    history,
                    costs,
                    range,
                    options,
                    precision,
                    page: Page(page),
                    found: Vec::new(),
                };
                first += lines.find()?;
                breaks.append(&mut lines.found);
                Ok::<_, OptimalError>((first, breaks))
            },
        )
        .try_reduce(
            || (Charges::default(), Vec::new()),
            |(mut a, mut breaks), (b, mut more)| {
                a += b;
                breaks.append(&mut more);
                Ok((a, breaks))
            },
        )
        .map_err(CurveError::from)?;
    breaks.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut segments: Vec<Segment> = Vec::new();
    let mut from = range.low;
    let mut rest = breaks.as_slice();
    while let Some(next) = rest.first() {
        // Pages that break at the same value may differ in the last bits.
        let near = next.at + next.at.abs() * 1e-12;
        let same = rest.iter().take_while(|b| b.at <= near).count();
        if next.at > from {
            segments.push(range.segment(costs, from, next.at, first));
            from = next.at;
        }
        rest[..same].iter().for_each(|b| first = b.apply(first));
        rest = &rest[same..];
    }
    segments.push(range.segment(costs, from, range.high, first));
    Ok(segments)
}

impl Range {
    fn segment(&self, costs: &Uniform, from: f64, to: f64, counts: Charges) -> Segment {
        let slope = self.parameter.slope(&counts);
        let intercept = counts.cost(&self.parameter.at(costs, 0.0));
        Segment { from, to, counts, slope, intercept }
    }
}

/// A page changes its placement at a value of the parameter.
struct Break {
    at: f64,
    before: Charges,
    after: Charges,
}

impl Break {
    fn apply(&self, mut total: Charges) -> Charges {
        let change = |total: &mut u64, before: u64, after: u64| *total = *total - before + after;
        let (b, a) = (&self.before, &self.after);
        change(&mut total.local, b.local, a.local);
        change(&mut total.remote, b.remote, a.remote);
        change(&mut total.global, b.global, a.global);
        change(&mut total.copies, b.copies, a.copies);
        change(&mut total.global_copies, b.global_copies, a.global_copies);
        change(&mut total.moves, b.moves, a.moves);
        change(&mut total.replications, b.replications, a.replications);
        total
    }
}

/// The search for the break-points of one page.
struct PageCurve<'a> {
    history: &'a History,
    costs: &'a Uniform,
    range: Range,
    options: Options,
    precision: f64,
    page: Page,
    found: Vec<Break>,
}

impl PageCurve<'_> {
    /// Finds all break-points; returns the counts at the low end.
    fn find(&mut self) -> Result<Charges, OptimalError> {
        let (low, high) = (self.range.low, self.range.high);
        let (first, last) = (self.optimum(low)?, self.optimum(high)?);
        self.between((low, first), (high, last))?;
        Ok(first)
    }

    fn optimum(&self, value: f64) -> Result<Charges, OptimalError> {
        let costs = self.range.parameter.at(self.costs, value);
        let runs = self.history.runs(self.page)?;
        Ok(UniformSolver::new(costs, self.options).page(self.page, None, runs, &mut ())?.counts)
    }

    fn line(&self, counts: &Charges) -> (u64, f64) {
        let parameter = self.range.parameter;
        (parameter.slope(counts), counts.cost(&parameter.at(self.costs, 0.0)))
    }

    /// Finds the break-points between two values with their optima, in rising order. Each line found splits the range,
    /// so the depth is at most the number of break-points of the page, and in practice its logarithm.
    fn between(&mut self, low: (f64, Charges), high: (f64, Charges)) -> Result<(), OptimalError> {
        let ((slope_low, base_low), (slope_high, base_high)) = (self.line(&low.1), self.line(&high.1));
        if slope_low <= slope_high {
            return Ok(());
        }
        let at = ((base_high - base_low) / (slope_low - slope_high) as f64).clamp(low.0, high.0);
        let middle = self.optimum(at)?;
        let (slope, base) = self.line(&middle);
        let crossing = base_low + slope_low as f64 * at;
        let cheaper = base + slope as f64 * at < crossing - crossing.abs() * self.precision;
        if cheaper && slope < slope_low && slope > slope_high {
            self.between(low, (at, middle))?;
            return self.between((at, middle), high);
        }
        self.found.push(Break { at, before: low.1, after: high.1 });
        Ok(())
    }
}
