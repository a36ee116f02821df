//! The help of `homing`: its subcommands in groups along the data path.

use crate::cmd::GROUPS;
use clap::Command;
use std::fmt::Write;

/// A group of subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Record a program and say what is wrong.
    FindOutWhy,
    /// Bound and simulate.
    Compare,
    /// Programs that run.
    Live,
    /// The virtual machine.
    Lab,
    /// Traces, and the tables that options take names of.
    LookInto,
    /// All other.
    Rest,
}

impl Group {
    /// All, in the order of the help, with their headings.
    const ALL: [(Group, &'static str); 6] = [
        (Group::FindOutWhy, "Find out why"),
        (Group::Compare, "Compare"),
        (Group::Live, "Live"),
        (Group::Lab, "Lab"),
        (Group::LookInto, "Look into"),
        (Group::Rest, "Rest"),
    ];
}

/// The template of the help of `homing`: as clap's own, with the subcommands in groups.
pub fn help(table: &Command) -> String {
    let styles = table.get_styles();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let width = GROUPS.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut listed = String::new();
    for (group, heading) in Group::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(listed, "{header}{heading}:{header:#}");
        for (name, _) in GROUPS.iter().filter(|(_, of)| *of == group) {
            let name = name.to_lowercase();
            let about =
                table.find_subcommand(&name).and_then(Command::get_about).cloned().unwrap_or_default();
            let _ = writeln!(listed, "  {literal}{name:width$}{literal:#}  {about}");
        }
        listed.push('\n');
    }
    format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    )
}
