//! `homing lab setup`: installs what the lab needs, by `lab/setup.sh`, or checks whether it is there.

use crate::exit::{Code, Result};
use anyhow::Context;
use homing_lab::parts::{self, Parts};

/// Arguments of `homing lab setup`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "QEMU and busybox are installed by apt-get (as root, or with sudo), from the release's backports \
    where its own are \
too old; the kernel is only unpacked, into the directory that HOMING_LAB_CACHE names [default: ~/.cache/homing/lab]."
)]
pub struct Args {
    /// Only check whether a lab can run here: ends with 0, or with 3 and what is missing
    #[arg(long)]
    check: bool,
}

/// Installs, or checks.
pub fn run(args: Args) -> Result {
    if args.check {
        Parts::find()?;
        return Ok(Code::OK);
    }
    let script = parts::setup_script()?;
    let status = std::process::Command::new(&script)
        .env("HOMING_LAB_CACHE", parts::cache_directory())
        .status()
        .with_context(|| format!("cannot run {}", script.display()))?;
    Ok(status.code().map_or(Code::FAILURE, |code| Code(code as u8)))
}
