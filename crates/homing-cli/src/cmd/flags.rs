//! `homing cflags` and `homing ldflags`: what a program is compiled and linked with to be recorded by
//! `homing record --recorder tsan` (`docs/recording-tsan.md`).

use crate::exit::{self, Code, Result};
use std::path::{Path, PathBuf};

/// The runtime for executables, and the one for instrumented shared libraries.
const STATIC: &str = "libhoming_tsan.a";
const SHARED: &str = "libhoming_tsan.so";

/// Arguments of `homing cflags`.
#[derive(clap::Args)]
pub struct CompileArgs {
    /// Print JSON (a list of arguments) instead of one line
    #[arg(long)]
    json: bool,
}

/// Arguments of `homing ldflags`.
#[derive(clap::Args)]
pub struct LinkArgs {
    /// Link the shared runtime: for instrumented shared libraries that plain programs load
    #[arg(long)]
    shared: bool,
    /// Print JSON (a list of arguments) instead of one line
    #[arg(long)]
    json: bool,
}

/// Prints the compiler flags.
pub fn compile(args: CompileArgs) -> Result {
    print(&["-fsanitize=thread", "-g"].map(String::from), args.json)
}

/// Prints the linker flags. `-fsanitize=thread` must not be among the user's own: it would bring libtsan.
pub fn link(args: LinkArgs) -> Result {
    let library = find(if args.shared { SHARED } else { STATIC })?;
    let directory = library.parent().unwrap_or(Path::new("/")).display();
    let flags = if args.shared {
        vec![
            format!("-L{directory}"),
            format!("-Wl,-rpath,{directory}"),
            "-Wl,--push-state,--no-as-needed".into(),
            "-lhoming_tsan".into(),
            "-Wl,--pop-state".into(),
        ]
    } else {
        // -rdynamic: libgomp and libstdc++ find the runtime's pthread_create, malloc and memcpy in the executable.
        vec![
            "-rdynamic".into(),
            "-Wl,--whole-archive".into(),
            library.display().to_string(),
            "-Wl,--no-whole-archive".into(),
            "-ldl".into(),
            "-lpthread".into(),
        ]
    };
    print(&flags, args.json)
}

fn print(flags: &[String], json: bool) -> Result {
    if json {
        println!("{}", serde_json::to_string(flags)?);
        return Ok(Code::OK);
    }
    if let Some(flag) = flags.iter().find(|flag| flag.contains(char::is_whitespace)) {
        return Err(exit::error(
            Code::FAILURE,
            format!(
                "`{flag}`: a path with a space cannot stand in a line of flags: use --json, or move homing"
            ),
        ));
    }
    println!("{}", flags.join(" "));
    Ok(Code::OK)
}

/// The runtime library: where `HOMING_LIB` says, where `make install` puts it, or where `make build` leaves it.
fn find(library: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let from_environment = std::env::var_os("HOMING_LIB").map(PathBuf::from).into_iter();
    let around = program.ancestors().skip(1);
    let installed = around.clone().map(|directory| directory.join("lib/homing"));
    let built = around.map(|directory| directory.join("build"));
    from_environment
        .chain(installed)
        .chain(built)
        .map(|at| at.join("tsan").join(library))
        .find(|at| at.is_file())
        .ok_or_else(|| {
            exit::error(
                Code::UNSUPPORTED,
                format!(
                    "{library} is neither below ../lib/homing nor below a build directory around {}: \
                     run `make recorders`, or set HOMING_LIB to the directory that holds tsan/{library}",
                    program.display()
                ),
            )
        })
}
