//! The cheapest placement that any policy could have reached, as a result of its own: its cost, its actions and its
//! exact cost over one parameter of the machine.

use crate::case::Case;
use crate::error::{PipelineError, Result};
use crate::experiment::Ready;
use crate::info;
use homing_core::machine::{Costs, Uniform};
use homing_core::optimal::curve::{curve, Range, Segment};
use homing_core::optimal::{place, solve, OptimalError, Optimum, Options, Sink, Start};
use homing_core::report::{Parameter, Row};
use std::time::Instant;

/// What is asked about the optimum, checked against the machine.
pub struct Question {
    start: Start,
    curve: Option<Curve>,
}

/// A range of a parameter.
struct Curve {
    asked: Range,
    /// What the model's constraints leave of it.
    clipped: Range,
    costs: Uniform,
}

/// The optimum.
pub struct Answer {
    /// What it is made of.
    pub optimum: Optimum,
    /// Its row in a table; the costs are in local word references.
    pub row: Row,
    /// The parameter that varies, with the range that the machine allows, and the exact cost over it.
    pub curve: Option<(Range, Vec<Segment>)>,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What it was made of, for a manifest.
    pub parameters: Vec<Parameter>,
}

impl Question {
    /// `start`: where pages may begin free of charge. `range`: a parameter of the machine, whose exact cost curve is
    /// wanted, in local word references.
    ///
    /// # Errors
    /// If the machine has no such parameter, or its other parameters leave nothing of the range.
    pub fn new(ready: &Ready, start: Start, range: Option<Range>) -> Result<Question> {
        let curve = |asked: Range| {
            let (clipped, costs) = asked.clip(&ready.costs).map_err(PipelineError::usage)?;
            Ok::<_, PipelineError>(Curve { asked, clipped, costs })
        };
        Ok(Question { start, curve: range.map(curve).transpose()? })
    }

    /// The read gap that a trace must be laid out with (see [`Ready::case`]).
    pub fn read_gap(&self) -> Option<u32> {
        self.curve.as_ref().map(|curve| curve.clipped.read_gap(&curve.costs))
    }

    /// Answers.
    pub fn solve(&self, case: &Case<'_>) -> Result<Answer> {
        self.answer(case, |options| solve(&case.layout.history, &case.layout.costs, options))
    }

    /// Answers, and tells `sink` the placement, page by page.
    pub fn place(&self, case: &Case<'_>, sink: &mut impl Sink) -> Result<Answer> {
        self.answer(case, |options| place(&case.layout.history, &case.layout.costs, options, sink))
    }

    fn answer(
        &self,
        case: &Case<'_>,
        solve: impl FnOnce(Options) -> std::result::Result<Optimum, OptimalError>,
    ) -> Result<Answer> {
        let options = Options { replication: case.ready.replication(), start: self.start };
        let begin = Instant::now();
        let optimum = solve(options)?;
        let row = case.subject().row_of_optimum(&optimum, begin.elapsed().as_secs_f64());
        let segments = |asked: &Curve| {
            Ok((asked.clipped, curve(&case.layout.history, &asked.costs, asked.clipped, options)?))
        };
        let curve = self.curve.as_ref().map(segments).transpose().map_err(PipelineError::Curve)?;
        let mut parameters = info::parameters(case.ready, "the cheapest", optimum.replication);
        parameters.push(info::parameter("start", self.start));
        Ok(Answer { row, curve, notes: self.notes(case), parameters, optimum })
    }

    /// What a reader must know about the numbers.
    fn notes(&self, case: &Case<'_>) -> Vec<String> {
        let mut notes = Vec::new();
        if matches!(case.ready.costs, Costs::General(_)) && case.ready.experiment.replication {
            notes.push(
                "this machine has unequal distances, for which no exact bound with replication is known: one copy a \
                 page"
                    .into(),
            );
        }
        if let Some(Curve { asked, clipped, .. }) =
            self.curve.as_ref().filter(|curve| curve.asked != curve.clipped)
        {
            notes.push(format!(
                "the model's constraints clip {} from {}..{} to {}..{} on this machine",
                asked.parameter, asked.low, asked.high, clipped.low, clipped.high
            ));
        }
        notes.extend_from_slice(&case.layout.notes);
        notes
    }
}
