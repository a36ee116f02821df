//! `homing cc` and `homing c++`: clang with what `homing record --recorder clang` needs (`docs/recording-clang.md`).

use super::flags;
use crate::exit::{self, Code, Result};
use homing_linux::libraries;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Which LLVM the pass was built against: what `make recorders` leaves beside it.
const VERSION: &str = "clang/version";

/// Arguments of `homing cc`.
#[derive(clap::Args)]
#[command(
    after_long_help = "Takes clang's arguments. A link gets homing's runtime, too, but for that of a library \
(-shared): such a library is for programs that have it. For others add `homing ldflags --shared`."
)]
pub struct Args {
    /// Arguments of clang
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Runs clang in this process' place.
pub fn run(args: Args) -> Result {
    compile("clang", args)
}

/// Runs clang++.
pub fn run_cxx(args: Args) -> Result {
    compile("clang++", args)
}

fn compile(name: &str, Args { arguments }: Args) -> Result {
    let version = std::fs::read_to_string(libraries::find(VERSION)?)?;
    let link = if links(&arguments) { flags::with_runtime(false)? } else { Vec::new() };
    let pass = flags::with_pass()?;
    // The pass fits one version of clang only.
    let names = [format!("{name}-{}", version.trim()), name.to_owned()];
    let mut error = None;
    for compiler in &names {
        // Link-time optimisation would come after the pass, and would see no loops.
        let failed = Command::new(compiler).args(&pass).args(&arguments).args(&link).arg("-fno-lto").exec();
        error.get_or_insert(failed);
    }
    let why = error.map(|error| error.to_string()).unwrap_or_default();
    Err(exit::error(
        Code::UNSUPPORTED,
        format!(
            "cannot run {}: {why}: install it (Debian, Ubuntu: apt install clang-{})",
            names[0],
            version.trim()
        ),
    ))
}

/// Options that end before a link.
const NO_LINK: [&str; 7] = ["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-r"];

/// Whether clang is to link a program.
fn links(arguments: &[OsString]) -> bool {
    let is = |argument: &OsStr, option: &str| argument == option;
    let ends =
        |argument: &OsString| NO_LINK.iter().any(|option| is(argument, option)) || is(argument, "-shared");
    let is_input = |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-") || is(argument, "-");
    !arguments.iter().any(ends) && arguments.iter().any(is_input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_programs_get_the_runtime() {
        let links = |line: &str| links(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(links("-O2 a.c") && links("-o a a.o b.o -lm"));
        for line in ["-c a.c", "-O2 -S a.c", "-shared -o a.so a.o", "--version", "-v"] {
            assert!(!links(line), "{line}");
        }
    }
}
