//! Huge pages against small ones: the same trace laid out a second time.

use super::cpus_in_use;
use super::known::follow;
use crate::case::Case;
use crate::error::Result;
use homing_core::ids::PageSize;
use homing_core::policy::placement::Placement;
use homing_core::why::facts::{facts, PageFacts, INTERVALS};
use homing_core::why::{small, CpuCounts};

/// Bytes of a transparent huge page.
pub const HUGE: u64 = 2 << 20;

/// What a program does if all its pages are small.
pub struct SmallPages {
    /// The CPUs that threads run on.
    pub cpus: Vec<CpuCounts>,
    /// Huge pages of which it is not known what they would cost in small ones.
    pub left_out: usize,
}

/// Gives huge pages the facts of the small ones that they would be in. Nothing if the trace is not laid out in
/// transparent huge pages.
pub fn simulate(
    case: &Case<'_>,
    by_cpu: &[[u64; INTERVALS]],
    follows: bool,
    huge: &mut [PageFacts],
) -> Result<Option<SmallPages>> {
    let Case { ready, trace, layout, .. } = case;
    if layout.history.page_size().bytes() != HUGE {
        return Ok(None);
    }
    let own = ready.machine.page_size();
    let size = if own.bytes() < HUGE { own } else { PageSize::KIB4 };
    let layout = ready.lay_out(trace, size, None)?;
    let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
    let mut facts = facts(&layout.history, &layout.costs, &placement)?;
    if follows {
        follow(&mut facts, ready.subject(&layout))?;
    }
    let cpus = cpus_in_use(case, &layout, by_cpu)?;
    Ok(Some(SmallPages { cpus, left_out: small::give(huge, facts) }))
}
