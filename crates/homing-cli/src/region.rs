//! The region of interest on the command line.

use crate::tables::things;
use homing_linux::visible;
use homing_record::{is_mark, NeverRan, Region};
use homing_trace::Summary;

/// What part of a program is recorded.
#[derive(clap::Args, Clone, Debug)]
pub struct RegionArgs {
    /// Count references from the first entry of this function on: a function of the program or of a library, by its
    /// symbol, or demangled with or without parameters; or from a mark of the program on: mark:NAME, mark:iteration.
    /// Before it only the first reference to each page is kept, which says who made the page
    #[arg(long, value_name = "FUNCTION")]
    pub from: Option<String>,
    /// Count references up to the first entry of this function, or up to this mark, after that of --from if it is
    /// given; the program runs on
    #[arg(long, value_name = "FUNCTION")]
    pub to: Option<String>,
    /// Leave out the dynamic loader, constructors and whatever else runs before `main`: the same as --from main
    #[arg(long, conflicts_with = "from")]
    pub exclude_startup: bool,
}

impl RegionArgs {
    /// The region.
    pub fn region(&self) -> Region {
        let from = self.from.clone().or_else(|| self.exclude_startup.then(|| "main".to_owned()));
        Region { from, to: self.to.clone() }
    }
}

/// Says that a function of the region never ran.
pub fn never_ran(NeverRan { function, begins, similar }: &NeverRan, summary: &Summary) -> String {
    let mark = is_mark(function);
    let function = visible::name(function);
    let never = if mark { "the program made no such mark" } else { "no such function ran" };
    let what = match begins {
        true => format!(
            "--from {function}: {never}, so no reference counts; the trace has only the {} that were the \
             first to their pages",
            things(summary.first_touches, "reference")
        ),
        false => format!("--to {function}: {never}, so the region goes on to the program's end"),
    };
    let names =
        similar.iter().map(|name| format!("`{}`", visible::name(name))).collect::<Vec<_>>().join(", ");
    let advice = match similar.is_empty() {
        true if mark => {
            "; `homing_phase(\"NAME\")` and `homing_iteration()` of homing.h make marks".to_owned()
        }
        true => {
            "; `nm` lists a program's functions, those that the compiler has inlined have no entry".to_owned()
        }
        false => format!("; similar functions of the program: {names}"),
    };
    format!("{what}{advice}")
}
