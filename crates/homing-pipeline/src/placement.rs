//! Where pages begin, as the user says it.

use crate::error::{PipelineError, Result, While};
use homing_core::areas::{self, Located};
use homing_core::history::History;
use homing_core::ids::Page;
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_linux::files::read_text;
use homing_trace::Trace;
use std::borrow::Cow;
use std::path::Path;

/// A placement from the command line, with its file read.
#[derive(Clone, Debug)]
pub struct Begins {
    placement: Placement,
    /// The file's pages are found by their data areas.
    by_area: bool,
}

impl Begins {
    /// The placement by address.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The placement of a trace's pages.
    pub fn of(&self, trace: &Trace<'_>, history: &History) -> Cow<'_, Placement> {
        match &self.placement {
            Placement::File(file) if self.by_area => {
                Cow::Owned(Placement::File(file.by_area(&located(trace, history), history.page_size())))
            }
            placement => Cow::Borrowed(placement),
        }
    }
}

/// Where a trace's pages lie in its data areas.
pub fn located(trace: &Trace<'_>, history: &History) -> Vec<Located> {
    let addresses = (0..history.pages()).map(|page| history.address(Page(page)));
    areas::locate(trace, addresses, history.page_size().bytes())
}

/// Reads a placement: a rule, `file:FILE` (by address) or `areas:FILE` (by data area).
pub fn begins(text: &str) -> Result<Begins> {
    let (path, by_area) = match (text.strip_prefix("file:"), text.strip_prefix("areas:")) {
        (Some(path), _) => (path, false),
        (_, Some(path)) => (path, true),
        _ => {
            let placement = text.parse().map_err(|e: String| PipelineError::Usage(e))?;
            return Ok(Begins { placement, by_area: false });
        }
    };
    if path.is_empty() {
        let message = format!("placement `{text}`: expected the name of a file behind the colon");
        return Err(PipelineError::Usage(message));
    }
    let text = read_text(Path::new(path), "placement file")?;
    let file = PlacementFile::parse(&text).doing(|| path.to_owned())?;
    if by_area && !file.has_areas() {
        let message = format!(
            "{path} names no data areas; write it by `homing simulate --placement-out` from a trace that has names"
        );
        return Err(PipelineError::Usage(message));
    }
    Ok(Begins { placement: Placement::File(file), by_area })
}
