//! `homing cflags` and `homing ldflags`: what a program is compiled and linked with to be recorded by
//! `homing record --recorder tsan` (`docs/recording-tsan.md`).

use crate::exit::{self, Code, Result};
use homing_linux::libraries;
use std::path::Path;

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
    let name = if args.shared { SHARED } else { STATIC };
    let library = libraries::find(&format!("tsan/{name}"))?;
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
        outln!("{}", serde_json::to_string(flags)?);
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
    outln!("{}", flags.join(" "));
    Ok(Code::OK)
}
