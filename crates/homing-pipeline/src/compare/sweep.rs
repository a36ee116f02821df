//! `--sweep`: cost against page-move cost or page size (Bolosky & Scott 1991, figures 4 to 8 and 12).

use crate::case::Case;
use crate::error::{PipelineError, Result};
use homing_core::compare::sweep::{add_point, exact_optimum, geometric, page_move, scale_page_moves};
use homing_core::compare::Subject;
use homing_core::ids::PageSize;
use homing_core::machine::Costs;
use homing_core::report::Curve;
use std::str::FromStr;

/// Points of a sweep over page-move cost.
const POINTS: usize = 16;

/// What is varied.
#[derive(Clone, Debug)]
pub enum Sweep {
    /// R from, to. Where there is global memory G keeps its ratio to R; unequal copy costs keep theirs.
    PageMove(f64, f64),
    /// Page sizes.
    PageSize(Vec<PageSize>),
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Sweep, String> {
        let fail = || format!("`{text}`: expected page-move=LOW..HIGH or page-size=SIZE,SIZE,...");
        match text.split_once('=').ok_or_else(fail)? {
            ("page-move", range) => {
                let (low, high) = range.split_once("..").ok_or_else(fail)?;
                let (low, high): (f64, f64) =
                    (low.parse().map_err(|_| fail())?, high.parse().map_err(|_| fail())?);
                if !(low > 0.0 && low < high && high.is_finite()) {
                    return Err(format!("`{text}`: expected a rising range of positive numbers"));
                }
                Ok(Sweep::PageMove(low, high))
            }
            ("page-size", sizes) => {
                let mut sizes: Vec<PageSize> =
                    sizes.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
                sizes.sort_unstable();
                sizes.dedup();
                Ok(Sweep::PageSize(sizes))
            }
            _ => Err(fail()),
        }
    }
}

impl Sweep {
    /// The largest read gap that is exact at every point that uses the main history.
    pub(crate) fn read_gap(&self, costs: &Costs) -> Option<u32> {
        match self {
            Sweep::PageMove(low, _) => Some(scale_page_moves(costs, low / page_move(costs)).read_gap()),
            Sweep::PageSize(_) => None,
        }
    }

    /// The curve of one trace.
    pub(crate) fn run(&self, case: &Case<'_>) -> Result<Curve> {
        match self {
            Sweep::PageMove(low, high) => page_moves(*low, *high, case),
            Sweep::PageSize(sizes) => page_sizes(sizes, case),
        }
    }
}

fn page_moves(low: f64, high: f64, case: &Case<'_>) -> Result<Curve> {
    let Case { ready, layout, .. } = case;
    let here = page_move(&layout.costs);
    if let Costs::Uniform(uniform) = scale_page_moves(&layout.costs, low / here) {
        let least = 2.0 * uniform.remote;
        let global = uniform.global.is_some_and(|g| g.page_move <= 2.0 * g.access);
        if uniform.page_move <= least || global {
            return Err(PipelineError::Usage(format!(
                "--sweep page-move={low}..{high}: the model needs R > 2r (and G > 2g); r is {} here",
                uniform.remote
            )));
        }
    }
    let mut series = Vec::new();
    for x in geometric(low, high, POINTS) {
        let costs = scale_page_moves(&layout.costs, x / here);
        let subject = Subject { costs: &costs, ..case.subject() };
        add_point(&mut series, x, &subject, &ready.policies)?;
    }
    if let Some(exact) = exact_optimum(&case.subject(), low, high)? {
        series[0] = exact;
    }
    Ok(Curve { parameter: "page-move".into(), unit: "local references".into(), here: Some(here), series })
}

fn page_sizes(sizes: &[PageSize], case: &Case<'_>) -> Result<Curve> {
    let ready = case.ready;
    let mut series = Vec::new();
    for &size in sizes {
        let layout = ready.lay_out(&case.trace, size, None)?;
        add_point(&mut series, size.bytes() as f64, &ready.subject(&layout), &ready.policies)?;
    }
    let here = Some(ready.page_size.bytes() as f64);
    Ok(Curve { parameter: "page-size".into(), unit: "bytes".into(), here, series })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_parse() {
        assert!(
            matches!("page-move=200..4000".parse(), Ok(Sweep::PageMove(low, high)) if (low, high) == (200.0, 4000.0))
        );
        let Ok(Sweep::PageSize(sizes)) = "page-size=4K,512,1K".parse() else { panic!("page sizes") };
        assert_eq!(sizes.iter().map(|size| size.bytes()).collect::<Vec<_>>(), [512, 1024, 4096]);
        for bad in
            ["page-move", "page-move=3", "page-move=9..3", "page-move=-1..3", "page-size=3K", "speed=1..2"]
        {
            assert!(bad.parse::<Sweep>().is_err(), "{bad}");
        }
    }
}
