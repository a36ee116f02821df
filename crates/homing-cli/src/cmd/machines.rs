//! `homing machines`: what machine models there are.

use crate::exit::Result;

/// Arguments of `homing machines`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists the machines.
pub fn run(args: Args) -> Result {
    if args.json {
        println!("[]");
    }
    Ok(exit_ok())
}

fn exit_ok() -> crate::exit::Code {
    crate::exit::Code::OK
}
