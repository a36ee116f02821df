//! `homing rset exec`: a program on the CPUs and the memory of a set.

use super::source::{FromFile, Source};
use crate::exit::{self, cannot_preload, Code, Result};
use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::ValueHint;
use homing_core::ids::parse_bytes;
use homing_linux::placed::page;
use homing_linux::{libraries, program, visible};
use homing_live::rset::{self, LIBRARY, SET_ENV};
use homing_rset::{Memory, Policies, ResourceSet, Threads, STRIDE_UNIT};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Arguments of `homing rset exec`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The program takes the place of homing, and keeps its exit status. `local`, `remote`, a stride \
    and `--threads` need a program that is linked dynamically; docs/rset.md says what each does."
)]
pub struct Args {
    /// The set: an expression such as `node:0-1 & !cpu:3`, or a name
    #[arg(value_name = "SET")]
    set: String,
    #[command(flatten)]
    file: FromFile,
    /// Which memory of the set is used [default: that of the named set, or float]
    #[arg(long, value_name = "HOW",
          value_parser = PossibleValuesParser::new(Memory::NAMES).try_map(|text| text.parse::<Memory>()))]
    memory: Option<Memory>,
    /// Bytes of a stripe, with --memory striped [default: a page]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    stride: Option<u64>,
    /// Ask for huge pages of this size
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    huge: Option<u64>,
    /// Bind each thread to a CPU of the set [default: that of the named set, or not at all]
    #[arg(long, value_name = "HOW",
          value_parser = PossibleValuesParser::new(Threads::NAMES).try_map(|text| text.parse::<Threads>()))]
    threads: Option<Threads>,
    /// Look after allocations of at least this size each; smaller ones are within the set
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = at_least_a_page)]
    least: u64,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, required = true,
          value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn bytes(text: &str) -> std::result::Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected a size such as 64K or 2M"))
}

fn at_least_a_page(text: &str) -> std::result::Result<u64, String> {
    match bytes(text)? {
        less if less < STRIDE_UNIT => Err(format!("`{text}`: expected at least a page, 4K")),
        size => Ok(size),
    }
}

/// Fails if stripes were not whole pages here.
fn check_stride(stride: Option<u64>) -> std::result::Result<(), String> {
    let page = page() as u64;
    match stride {
        Some(stride) if !stride.is_multiple_of(page) => Err(format!(
            "a stride of {stride} bytes: expected a multiple of this machine's pages, {page} bytes"
        )),
        _ => Ok(()),
    }
}

/// Fails if this kernel has no huge pages of the size.
fn check_huge(wanted: Option<u64>) -> anyhow::Result<()> {
    let has = homing_linux::huge::size();
    match wanted {
        Some(wanted) if Some(wanted) != has => {
            let has = has.map_or("none".to_owned(), |bytes| format!("those of {}", super::show::size(bytes)));
            let message = format!("--huge {wanted}: of transparent huge pages this kernel has {has}");
            Err(exit::error(Code::UNSUPPORTED, message))
        }
        _ => Ok(()),
    }
}

/// Executes the program; comes back only if that fails.
pub fn run(args: Args) -> Result {
    let expr = Source::expression(&args.set)?;
    let source = Source::new(None, &args.file)?;
    let set = source.set(&expr)?;
    let Args { memory, stride, huge, threads, .. } = args;
    let policies = Policies { memory, stride, huge, threads }.over(source.sets.policies(&expr));
    let usage = |why: String| exit::error(Code::USAGE, format!("{}: {why}", expr.text()));
    policies.check().map_err(usage)?;
    source.global.refuse_outside(&set).map_err(usage)?;
    policies.check_on(&set, &source.global).map_err(usage)?;
    check_stride(policies.stride).map_err(usage)?;
    check_huge(policies.huge)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&args.command[0], &path)?;
    if rset::needs_library(&policies) && program::is_static(&program) {
        errln!(
            "homing: {} is linked statically: its memory and threads are within the set, without the policies \
             (docs/rset.md)",
            visible::name(&args.command[0].to_string_lossy())
        );
    }
    let mut command = Command::new(program);
    command.arg0(&args.command[0]).args(&args.command[1..]).env_remove(SET_ENV);
    if rset::needs_library(&policies) {
        command.envs(environment(&source, &set, &policies, args.least)?);
    }
    match rset::bind(&set, policies.memory.unwrap_or(Memory::Float)) {
        // A kernel without NUMA: all memory is the set's.
        Err(error) if error.kind() == ErrorKind::Unsupported && source.global.nodes().len() == 1 => {
            errln!("homing: this kernel has no memory policies, and the machine one memory node: CPUs alone are bound");
        }
        bound => bound.map_err(|error| refused(&error, &source, &set))?,
    }
    Err(command.exec()).with_context(|| format!("cannot start {}", args.command[0].to_string_lossy()))
}

fn environment(
    source: &Source,
    set: &ResourceSet,
    policies: &Policies,
    least: u64,
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let library = libraries::find(LIBRARY)?;
    rset::environment(&library, set, policies, least, &source.global).ok_or_else(|| cannot_preload(&library))
}

/// What the kernel refused, with the code that it means.
fn refused(error: &std::io::Error, source: &Source, set: &ResourceSet) -> anyhow::Error {
    let words = source.global.words(set);
    let (code, advice) = match error.kind() {
        ErrorKind::PermissionDenied => (
            Code::PERMISSION,
            "a container may forbid it (docker: --cap-add SYS_NICE, or its seccomp profile)",
        ),
        ErrorKind::Unsupported => (Code::UNSUPPORTED, "expected a kernel with CONFIG_NUMA"),
        _ => (Code::FAILURE, "expected CPUs and nodes that are online"),
    };
    exit::error(code, format!("the kernel does not bind this process to {words}: {error}; {advice}"))
}
