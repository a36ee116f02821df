//! `homing cflags` and `homing ldflags`: what a program is compiled and linked with to be recorded by
//! `homing record --recorder tsan` (`docs/recording-tsan.md`) or clang (`docs/recording-clang.md`).

use crate::exit::{self, Code, Result};
use homing_linux::libraries;
use std::path::Path;

/// The runtime for executables, and the one for instrumented shared libraries.
const STATIC: &str = "libhoming_tsan.a";
const SHARED: &str = "libhoming_tsan.so";
/// What clang loads to add the records of `--recorder clang`.
const PASS: &str = "clang/homing_pass.so";

/// Arguments of `homing cflags`.
#[derive(clap::Args)]
pub struct CompileArgs {
    /// For clang and `record --recorder clang`: its records cost less than the calls of -fsanitize=thread
    #[arg(long)]
    clang: bool,
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
    let flags = if args.clang { with_pass()? } else { ["-fsanitize=thread", "-g"].map(String::from).into() };
    print(&flags, args.json)
}

/// What clang compiles with.
pub fn with_pass() -> anyhow::Result<Vec<String>> {
    let pass = libraries::find(PASS)?;
    Ok(vec![format!("-fpass-plugin={}", pass.display()), "-g".into()])
}

/// Prints the linker flags.
pub fn link(args: LinkArgs) -> Result {
    print(&with_runtime(args.shared)?, args.json)
}

/// What a program is linked with. `-fsanitize=thread` must not be among the user's own: it would bring libtsan.
pub fn with_runtime(shared: bool) -> anyhow::Result<Vec<String>> {
    let name = if shared { SHARED } else { STATIC };
    let library = libraries::find(&format!("tsan/{name}"))?;
    let directory = library.parent().unwrap_or(Path::new("/")).display();
    Ok(if shared {
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
    })
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
