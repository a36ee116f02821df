//! Where the names of a plan are: in the debug information and the symbols of the program, of the libraries that it is
//! linked with, and of other programs among the words of the command.

use homing_linux::{program, visible};
use homing_live::place::{Code, Entry};
use homing_record::sites::{Frame, Module, Name};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What was found.
#[derive(Default)]
pub struct Found {
    /// Of each name the number of its frames; 0 for variables and files.
    pub frames: Vec<usize>,
    /// Where it is.
    pub code: Code,
}

/// Looks the names up. What is nowhere is said on stderr.
///
/// # Errors
/// On a name that no data can be placed by, and if there is nothing to place.
pub fn look_up(entries: &[Entry], program: &Path, command: &[OsString]) -> Result<Found, String> {
    let names: Result<Vec<Name>, _> = entries.iter().map(|entry| Name::parse(&entry.name)).collect();
    let names = names.map_err(|error| error.to_string())?;
    let modules: Vec<Module> = files(program, command).iter().filter_map(|file| Module::read(file)).collect();
    let mut found = Found::default();
    found.code.modules = modules.iter().map(|module| module.identity).collect();
    let mut absent = Vec::new();
    for (number, (entry, name)) in entries.iter().zip(&names).enumerate() {
        if let Err(why) = found.add(number, name, &modules) {
            absent.push(format!("{}: {why}", visible::name(&entry.name)));
        }
    }
    if absent.len() == entries.len() {
        return Err(absent.join("\n"));
    }
    absent.iter().for_each(|line| errln!("homing: {line}; left out"));
    Ok(found)
}

/// The program, the libraries that its dynamic linker lists, and other programs among the words of the command. Nothing
/// of those is executed to ask for their libraries: they may be no more than input.
fn files(program: &Path, command: &[OsString]) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let text: Vec<_> = command[1..].iter().map(|word| word.to_string_lossy()).collect();
    let words = text.iter().flat_map(|word| word.split_whitespace());
    let others = words.filter_map(|word| program::find(OsStr::new(word), &path).ok());
    let mut files: Vec<PathBuf> = Vec::new();
    for file in std::iter::once(program.to_owned()).chain(program::libraries(program)).chain(others) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

impl Found {
    /// Adds a name; says why it is nowhere.
    fn add(&mut self, number: usize, name: &Name, modules: &[Module]) -> Result<(), String> {
        let mut frames = 0;
        match name {
            Name::File(file) => self.code.files.push((number, file.clone())),
            Name::Variable(variable, library) => {
                self.variable(number, variable, Some(library), modules)
                    .ok_or_else(|| format!("no variable of this name in a library {library}"))?;
            }
            Name::Bare(word) => {
                let variable = self.variable(number, word, None, modules);
                let function = self.frame(number, 0, &Frame::function(word), modules);
                frames = usize::from(function.is_some());
                if variable.is_none() && function.is_none() {
                    errln!(
                        "homing: {}: no variable and no function of this name in {}: it is taken for the name of a \
                         mapped file",
                        visible::name(word),
                        in_words(modules)
                    );
                    self.code.files.push((number, word.clone()));
                }
            }
            Name::Frames(all) => {
                for (at, frame) in all.iter().enumerate() {
                    self.frame(number, at, frame, modules).ok_or_else(|| nowhere(frame, modules))?;
                }
                frames = all.len();
            }
        }
        self.frames.resize(number, 0);
        self.frames.push(frames);
        Ok(())
    }

    fn variable(
        &mut self,
        number: usize,
        name: &str,
        library: Option<&str>,
        modules: &[Module],
    ) -> Option<()> {
        let before = self.code.variables.len();
        for (at, module) in modules.iter().enumerate() {
            let all = module.variables(name, library);
            self.code.variables.extend(all.into_iter().map(|(from, to)| (number, at, from, to)));
        }
        (self.code.variables.len() > before).then_some(())
    }

    fn frame(&mut self, number: usize, at: usize, frame: &Frame, modules: &[Module]) -> Option<()> {
        let before = self.code.ranges.len();
        for (file, module) in modules.iter().enumerate() {
            let all = module.code_of(frame);
            self.code.ranges.extend(all.into_iter().map(|(from, to)| (number, at, file, from, to)));
        }
        (self.code.ranges.len() > before).then_some(())
    }
}

/// Why a frame is nowhere.
fn nowhere(frame: &Frame, modules: &[Module]) -> String {
    let lines = modules.iter().any(Module::has_lines);
    let (what, expected) = match frame {
        Frame::Named { place: Some((file, line)), function, .. } => {
            let of = function
                .as_ref()
                .map_or(String::new(), |function| format!(" of {}", visible::name(function)));
            let expected = match lines {
                true => "a line as `homing why` prints it, of the same build",
                false => "a program with debug information (gcc -g): here is none",
            };
            (format!("no code{of} at {}:{line}", visible::name(file)), expected)
        }
        Frame::Named { function, .. } => {
            let function = function.as_deref().unwrap_or_default();
            (format!("no function {}", visible::name(function)), "a function as `homing why` prints it")
        }
        Frame::Address(file, _) => (format!("{} is not loaded", file.display()), "a file of the program"),
    };
    format!("{what} in {}; expected {expected}", in_words(modules))
}

fn in_words(modules: &[Module]) -> String {
    match modules {
        [] => "this command, which names no program that can be read".to_owned(),
        [one] => one.path.display().to_string(),
        [one, others @ ..] => {
            format!("{} and {} more files (libraries, other programs)", one.path.display(), others.len())
        }
    }
}
