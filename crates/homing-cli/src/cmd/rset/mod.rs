//! `homing rset`: resource sets, which are CPUs and memories to confine programs to (docs/rset.md).

mod exec;
mod list;
mod show;
mod source;

use crate::exit::Result;

/// Arguments of `homing rset`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    /// List the global set and the named sets, as a tree
    List(list::Args) => list::run;
    /// Show the CPUs, memory and distances of a set
    Show(show::Args) => show::run;
    /// Run a program on the CPUs and the memory of a set
    Exec(exec::Args) => exec::run;
}

/// Does what the subcommand says.
pub fn run(args: Args) -> Result {
    args.command.run()
}
