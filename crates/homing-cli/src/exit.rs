//! Exit codes: decided once, here (design: "Contracts of the command line").

use homing_lab::LabError;
use homing_linux::files::FileError;
use homing_linux::libraries::Missing;
use homing_linux::mapped;
use homing_linux::program::ProgramError;
use homing_pipeline::PipelineError;
use homing_record::RecordError;
use std::path::Path;
use std::process::ExitCode;

/// The codes as help shows them.
pub const CODES: &str =
    "Exit codes: 0 done; 1 failed, also by what a trace or another program's file holds; 2 wrong usage: options, \
    names, machines, \
     plans and other files that users write; 3 not supported on this machine; 4 no permission; 5 done in part: \
     something was \
     lost, skipped or did not move. `record`, `run`, `rset exec`, `replay` and `lab run` pass on the status of the \
     command that they run.";

/// What a subcommand returns: the exit code to end with, or an error with its context.
pub type Result = anyhow::Result<Code>;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// Success.
    pub const OK: Code = Code(0);
    /// The command failed.
    pub const FAILURE: Code = Code(1);
    /// Wrong arguments (clap uses the same).
    pub const USAGE: Code = Code(2);
    /// Not supported on this machine.
    pub const UNSUPPORTED: Code = Code(3);
    /// No permission.
    pub const PERMISSION: Code = Code(4);
    /// Done in part: something was lost, skipped or did not move.
    pub const PARTIAL: Code = Code(5);
}

/// An error that ends the program with a certain code; anything else ends it with [`Code::FAILURE`].
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Coded {
    /// The exit code.
    pub code: Code,
    /// What, where, expected what, what to do.
    pub message: String,
}

/// An error with an exit code of its own: `return Err(exit::error(Code::USAGE, "..."))`.
pub fn error(code: Code, message: impl Into<String>) -> anyhow::Error {
    Coded { code, message: message.into() }.into()
}

/// The error for a library whose path the dynamic linker does not take (`homing_linux::ld_preload`).
pub fn cannot_preload(library: &Path) -> anyhow::Error {
    let message = format!(
        "{}: the dynamic linker takes no path with blanks, colons or dollar signs: set HOMING_LIB to another one",
        library.display()
    );
    error(Code::UNSUPPORTED, message)
}

/// Prints the error, if any, and gives the exit code.
pub fn finish(result: Result) -> ExitCode {
    // Whatever else went wrong with a trace that was changed while it was read came from that.
    match mapped::check().map_err(anyhow::Error::from).and(result) {
        Ok(code) => ExitCode::from(code.0),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Lines after the first are set in: what an error quotes cannot look like a message of its own.
            errln!("homing: {}", format!("{error:#}").replace('\n', "\n  "));
            let code = error.chain().find_map(code_of).unwrap_or(Code::FAILURE);
            ExitCode::from(code.0)
        }
    }
}

/// The exit code that one error of a chain asks for.
fn code_of(error: &(dyn std::error::Error + 'static)) -> Option<Code> {
    let denied = |e: &std::io::Error| e.kind() == std::io::ErrorKind::PermissionDenied;
    let coded = error.downcast_ref::<Coded>().map(|coded| coded.code);
    coded
        .or_else(|| error.downcast_ref().and_then(of_file))
        .or_else(|| error.downcast_ref().and_then(of_recording))
        .or_else(|| error.downcast_ref().and_then(of_experiment))
        .or_else(|| error.downcast_ref().and_then(of_lab))
        .or_else(|| error.downcast_ref().map(|e: &ProgramError| Code(e.status())))
        .or_else(|| error.downcast_ref().map(|_: &Missing| Code::UNSUPPORTED))
        .or_else(|| error.downcast_ref().filter(|e| denied(e)).map(|_| Code::PERMISSION))
}

fn of_file(error: &FileError) -> Option<Code> {
    match error {
        FileError::OtherKind { .. } | FileError::NoText { .. } => Some(Code::USAGE),
        FileError::AnothersLink { .. } => Some(Code::PERMISSION),
        _ => None,
    }
}

fn of_experiment(error: &PipelineError) -> Option<Code> {
    match error {
        PipelineError::Usage(_) => Some(Code::USAGE),
        PipelineError::Unsupported(_) => Some(Code::UNSUPPORTED),
        PipelineError::File(error) => of_file(error),
        _ => None,
    }
}

fn of_lab(error: &LabError) -> Option<Code> {
    match error {
        LabError::Missing { .. } => Some(Code::UNSUPPORTED),
        LabError::Usage(_) | LabError::Topology { .. } => Some(Code::USAGE),
        LabError::Program { why, .. } => Some(Code(why.status())),
        LabError::Command { status, .. } => Some(Code(*status)),
        LabError::Io { why, .. } if why.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(Code::PERMISSION)
        }
        LabError::File { why, .. } => of_file(why),
        LabError::Failed(_) | LabError::Io { .. } | LabError::Died { .. } | LabError::Result { .. } => None,
    }
}

fn of_recording(error: &RecordError) -> Option<Code> {
    match error {
        RecordError::Missing(_) | RecordError::Unsupported(_) | RecordError::CarriesRuntime(_) => {
            Some(Code::UNSUPPORTED)
        }
        RecordError::CannotFollow { .. } | RecordError::NoRegularFile(_) | RecordError::Name(_) => {
            Some(Code::USAGE)
        }
        RecordError::Program(error) => Some(Code(error.status())),
        RecordError::File(error) => of_file(error),
        _ => None,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
