//! What each option of the command line does with the file that it names, in one table, and the one check over all of
//! them: no output is another output, or a file that the same command reads.

use super::Over;
use crate::cmd::live::place;
use crate::exit::{self, Code};
use clap::{Arg, ArgMatches};
use homing_core::machine::Machine;
use homing_lab::topology::{Shape, Topology};
use homing_linux::files::place::{Place, NAME_MAX};
use homing_live::config::SETTINGS;
use homing_pipeline::manifest;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use Role::{Fills, NoFile, Reads, ReadsIf, Writes};

/// What an option does with its value.
#[derive(Clone, Copy)]
pub enum Role {
    /// It names no file, or none that is written or must stay as it is.
    NoFile,
    /// It names a file to read; `-` is standard input.
    Reads,
    /// It may name a file to read.
    ReadsIf(fn(&str) -> Option<&str>),
    /// It names a file to write.
    Writes(Written),
    /// It names a directory for these files.
    Fills(&'static [&'static str]),
}

/// What is written.
#[derive(Clone, Copy)]
pub struct Written {
    over: Over,
    /// `-` is standard output.
    prints: bool,
    /// A manifest is written beside it.
    manifest: bool,
}

const TRACE: Role = Writes(Written { over: Over::Traces, prints: false, manifest: false });
const JOURNAL: Role = Writes(Written { over: Over::Journals, prints: false, manifest: false });
const PAGE: Role = Writes(Written { over: Over::Pages, prints: false, manifest: false });
const JSON: Role = Writes(Written { over: Over::Json, prints: false, manifest: false });
const TEXT: Role = Writes(Written { over: Over::Texts, prints: false, manifest: false });
const TEXT_OR_STDOUT: Role = Writes(Written { over: Over::Texts, prints: true, manifest: false });
const TABLE: Role = Writes(Written { over: Over::Texts, prints: false, manifest: true });
const TABLE_OR_STDOUT: Role = Writes(Written { over: Over::Texts, prints: true, manifest: true });

/// The subcommand, or `*` for all, the name of the option's value, and what is done with it. The first line that fits
/// counts.
const ROLES: &[(&str, &str, Role)] = &[
    ("record", "output", TRACE),
    ("record", "recorder", NoFile),
    ("record", "from", NoFile),
    ("record", "to", NoFile),
    ("cc", "arguments", NoFile),
    ("cxx", "arguments", NoFile),
    ("trace import", "input", Reads),
    ("trace import", "format", NoFile),
    ("trace import", "output", TRACE),
    ("trace export", "output", TEXT_OR_STDOUT),
    ("trace join", "output", TRACE),
    ("trace merge", "output", TRACE),
    ("trace perturb", "output", TRACE),
    ("trace recover", "output", TRACE),
    ("trace refine", "line", NoFile),
    ("trace refine", "addresses", NoFile),
    ("refine", "line", NoFile),
    ("lab run", "trace", TRACE),
    // Its kind is told by the name's ending (`cmd/lab/observe.rs`).
    ("lab run", "observe", Writes(Written { over: Over::Anything, prints: false, manifest: false })),
    ("lab run", "placement_out", TEXT),
    ("lab run", "result", Writes(Written { over: Over::Anything, prints: true, manifest: false })),
    ("demo", "keep", NoFile),
    ("man", "output", NoFile),
    ("man", "subcommand", NoFile),
    ("reproduce", "traces", NoFile),
    ("reproduce", "workloads", NoFile),
    ("reproduce", "only", NoFile),
    ("reproduce", "papers", NoFile),
    ("study", "out", Fills(homing_pipeline::study::FILES)),
    ("study", "starts", ReadsIf(placement)),
    ("study", "machines", ReadsIf(machine)),
    ("study", "info", NoFile),
    ("study", "monitor", NoFile),
    ("study", "bound_start", NoFile),
    ("study", "iterations", NoFile),
    ("study", "threads_on", NoFile),
    ("study", "page_size", NoFile),
    ("study", "memory", NoFile),
    ("study", "mover", NoFile),
    ("study", "plan", Reads),
    ("machines", "name", ReadsIf(machine)),
    ("machines", "calibrate", Reads),
    ("monitors", "name", NoFile),
    ("policies", "name", NoFile),
    ("list machines", "name", ReadsIf(machine)),
    ("list machines", "calibrate", Reads),
    ("list monitors", "name", NoFile),
    ("list policies", "name", NoFile),
    ("optimal", "csv", TABLE_OR_STDOUT),
    ("sched run", "jobs", Reads),
    ("sched run", "manager", NoFile),
    ("sched run", "log", JSON),
    ("sched guard", "journal", NoFile),
    ("sched model", "traces", Reads),
    ("sched model", "name", NoFile),
    ("sched simulate", "log", Reads),
    ("sched simulate", "apps", Reads),
    ("sched simulate", "partitions", Reads),
    ("sched simulate", "mix", NoFile),
    ("sched simulate", "like", NoFile),
    ("sched simulate", "managers", NoFile),
    ("sched simulate", "load", NoFile),
    ("why", "from", NoFile),
    ("why", "to", NoFile),
    ("why", "words", Reads),
    ("why", "keep", TRACE),
    ("doctor", "contribute", JSON),
    ("why", "process", NoFile),
    ("why", "symfs", NoFile),
    ("why", "markdown", TEXT_OR_STDOUT),
    ("try", "against", NoFile),
    ("try", "ways", NoFile),
    ("diff", "before", Reads),
    ("diff", "after", Reads),
    ("diff", "markdown", TEXT_OR_STDOUT),
    ("optimal", "placement", TABLE),
    ("compare", "csv", TABLE_OR_STDOUT),
    ("replay", "log", Reads),
    ("bench", "machine_out", TEXT),
    ("why", "plan", TEXT),
    ("*", "place", ReadsIf(place::file::named)),
    ("*", "hwloc", Reads),
    ("*", "trace", Reads),
    ("*", "traces", Reads),
    ("*", "machine", ReadsIf(machine)),
    ("*", "placement", ReadsIf(placement)),
    ("*", "events", ReadsIf(events)),
    ("*", "topology", ReadsIf(topology)),
    ("*", "distances", ReadsIf(distances)),
    ("*", "config", Reads),
    ("*", "file", Reads),
    ("*", "actions", TABLE),
    ("*", "placement_out", TABLE),
    ("*", "intervals", TABLE),
    ("*", "html", PAGE),
    ("*", "journal", JOURNAL),
    ("*", "tee", JOURNAL),
    ("*", "summary", JSON),
    ("*", "cgroup", NoFile),
    ("*", "command", NoFile),
    ("*", "set", NoFile),
    ("*", "phase", NoFile),
    ("*", "policy", NoFile),
    ("*", "policies", NoFile),
    ("*", "source", NoFile),
    ("*", "filter", NoFile),
    ("*", "cpu_model", NoFile),
    ("*", "start_on", NoFile),
    ("*", "beside", NoFile),
    ("*", "env", NoFile),
    ("*", "contenders", NoFile),
];

/// Settings of the live engine ([`SETTINGS`]) name no files.
fn role(command: &str, option: &str) -> Option<Role> {
    let fits = |(of, name, _): &&(&str, &str, Role)| (*of == command || *of == "*") && *name == option;
    let setting = || SETTINGS.iter().any(|setting| setting.name == option).then_some(NoFile);
    ROLES.iter().find(fits).map(|(.., role)| *role).or_else(setting)
}

/// What a file of a study may take the place of. Its journal tells by itself.
fn of_ending(name: &str) -> Over {
    match Path::new(name).extension().and_then(OsStr::to_str) {
        Some("html") => Over::Pages,
        Some("json") => Over::Json,
        Some("jsonl") => Over::Anything,
        _ => Over::Texts,
    }
}

/// The file of `--machine`.
pub fn machine(text: &str) -> Option<&str> {
    (text != "host" && Machine::builtin(text).is_none()).then_some(text)
}

/// The file of `--placement`.
pub fn placement(text: &str) -> Option<&str> {
    text.strip_prefix("file:").or_else(|| text.strip_prefix("areas:"))
}

/// The file of `--events`.
pub fn events(text: &str) -> Option<&str> {
    (!text.starts_with("random:")).then_some(text)
}

fn topology(text: &str) -> Option<&str> {
    (!Topology::built_in().iter().any(|topology| topology.name == text)).then_some(text)
}

fn distances(text: &str) -> Option<&str> {
    text.parse::<Shape>().is_err().then_some(text)
}

/// A file that a command reads or writes.
#[derive(Clone, Debug)]
pub struct Use {
    /// Who names it.
    option: String,
    path: PathBuf,
    /// What it may take the place of, if it is written.
    over: Option<Over>,
}

impl Use {
    /// A file to read.
    pub fn read(option: &str, path: impl Into<PathBuf>) -> Use {
        Use { option: option.to_owned(), path: path.into(), over: None }
    }

    fn written(option: &str, path: PathBuf, over: Over) -> Use {
        Use { option: option.to_owned(), path, over: Some(over) }
    }

    /// The files that a study writes into its directory.
    pub fn filled(option: &str, directory: &Path, names: &[&str]) -> Vec<Use> {
        names.iter().map(|name| Use::written(option, directory.join(name), of_ending(name))).collect()
    }

    /// Where it is; nothing for pipes and devices, which several may use.
    fn place(&self) -> Option<Place> {
        let regular = self.path.metadata().map_or(true, |facts| facts.is_file());
        regular.then(|| Place::of(&self.path))
    }
}

/// Fails if the files of a command line are in each other's way, or one cannot be written under its name.
pub fn check(table: &clap::Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let (mut command, mut matches, mut name) = (table, matches, String::new());
    while let Some((word, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(word) else { break };
        (command, matches) = (found, inner);
        name = if name.is_empty() { word.to_owned() } else { format!("{name} {word}") };
    }
    let mut uses = Vec::new();
    for option in command.get_arguments() {
        let id = option.get_id().as_str();
        let Some(role) = role(&name, id) else { continue };
        let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        for value in values {
            uses.extend(of_value(role, &shown(option), value)?);
        }
    }
    refuse_clashes(&uses)
}

/// How messages call an option.
fn shown(option: &Arg) -> String {
    match (option.get_long(), option.get_value_names()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some([name, ..])) => format!("<{name}>"),
        (None, _) => option.get_id().to_string(),
    }
}

/// The files of one value of an option.
fn of_value(role: Role, option: &str, value: &OsStr) -> anyhow::Result<Vec<Use>> {
    let path = Path::new(value);
    Ok(match role {
        NoFile => Vec::new(),
        Reads => vec![Use::read(option, path)],
        ReadsIf(file) => {
            value.to_str().and_then(file).map(|file| Use::read(option, file)).into_iter().collect()
        }
        Writes(written) if value == "-" && written.prints => Vec::new(),
        Writes(_) if value == "-" => {
            let message = format!(
                "{option} -: expected a file; it cannot go to standard output (a file of that name is ./-)"
            );
            return Err(exit::error(Code::USAGE, message));
        }
        Writes(written) => {
            let mut uses = vec![Use::written(option, path.to_owned(), written.over)];
            if written.manifest {
                uses.extend(of_manifest(option, path)?);
            }
            uses
        }
        Fills(names) => Use::filled(option, path, names),
    })
}

fn of_manifest(option: &str, path: &Path) -> anyhow::Result<Option<Use>> {
    let Some(beside) = manifest::beside(path) else { return Ok(None) };
    if beside.file_name().is_some_and(|name| name.len() > NAME_MAX) {
        let message = format!(
            "{option} {}: there is no room for `.manifest.json` behind the name: choose a shorter one",
            path.display()
        );
        return Err(exit::error(Code::USAGE, message));
    }
    manifest::refuse_others(&beside)?;
    Ok(Some(Use::written(&format!("the manifest of {option}"), beside, Over::Json)))
}

/// Fails if a file that is written is another one that is, or one that is read, or is there and must not be replaced.
pub fn refuse_clashes(uses: &[Use]) -> anyhow::Result<()> {
    let placed: Vec<(&Use, Place)> = uses.iter().filter_map(|file| Some((file, file.place()?))).collect();
    for (index, (one, place)) in placed.iter().enumerate() {
        let clash = placed[..index]
            .iter()
            .find(|(other, at)| at == place && (one.over.is_some() || other.over.is_some()));
        if let Some((other, _)) = clash {
            return Err(exit::error(Code::USAGE, message(other, one)));
        }
    }
    uses.iter()
        .filter_map(|file| Some((file.over?, &file.path)))
        .try_for_each(|(over, path)| Ok(over.check(path)?))
}

fn message(first: &Use, second: &Use) -> String {
    if first.over.is_some() && second.over.is_some() {
        let (one, other, path) = (&first.option, &second.option, first.path.display());
        return format!("{one} and {other} both name {path}: expected a file each");
    }
    let (written, read) = if first.over.is_some() { (first, second) } else { (second, first) };
    format!(
        "{} {} is the file {} of {}, which is read: choose another name for what is to be written",
        written.option,
        written.path.display(),
        read.path.display(),
        read.option
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::ValueParser;
    use clap::{Command, CommandFactory};
    use std::ffi::OsString;

    /// All subcommands that take options, by name.
    fn commands() -> Vec<(String, Command)> {
        fn below(name: &str, command: &Command, all: &mut Vec<(String, Command)>) {
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                let name = format!("{name} {}", inner.get_name()).trim().to_owned();
                below(&name, inner, all);
                all.push((name, inner.clone()));
            }
        }
        let mut table = crate::Cli::command();
        table.build();
        let mut all = Vec::new();
        below("", &table, &mut all);
        all
    }

    /// Whether a value could be a file's name: it is a path or free text.
    fn may_name_a_file(option: &Arg) -> bool {
        let is = |parser: ValueParser| option.get_value_parser().type_id() == parser.type_id();
        option.get_action().takes_values()
            && (is(clap::value_parser!(PathBuf)) || is(ValueParser::string()) || is(ValueParser::os_string()))
    }

    #[test]
    fn each_option_that_may_name_a_file_says_what_it_does_with_it() {
        let all = commands();
        assert!(all.len() > 30, "{}", all.len());
        for (command, table) in &all {
            for option in table.get_arguments().filter(|option| may_name_a_file(option)) {
                let id = option.get_id().as_str();
                assert!(role(command, id).is_some(), "`{command}` {id}: expected a line in ROLES");
            }
        }
        for (of, name, _) in ROLES {
            let fits = |(command, table): &(String, Command)| {
                (of == command || *of == "*") && table.get_arguments().any(|option| option.get_id() == *name)
            };
            assert!(all.iter().any(fits), "ROLES: no option {name} of `{of}`");
        }
    }

    /// The words of an option with a value that names `path`.
    fn words(option: &Arg, role: Role, path: &str) -> Vec<OsString> {
        let value = match role {
            ReadsIf(file) if file(path).is_none() => format!("file:{path}"),
            _ => path.to_owned(),
        };
        match option.get_long() {
            Some(long) => vec![format!("--{long}={value}").into()],
            None => vec![value.into()],
        }
    }

    /// What a command line says to its files.
    fn checked(command: &str, words: Vec<OsString>) -> anyhow::Result<()> {
        let table = crate::Cli::command().ignore_errors(true);
        let line = std::iter::once("homing").chain(command.split(' ')).map(OsString::from).chain(words);
        let matches = table.clone().try_get_matches_from(line).unwrap();
        check(&table, &matches)
    }

    #[test]
    fn no_file_that_is_written_is_another_one_of_the_command() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it");
        let path = path.to_str().unwrap();
        let mut pairs = 0;
        for (command, table) in commands() {
            let with_role = |option: &Arg| Some((option.clone(), role(&command, option.get_id().as_str())?));
            let options: Vec<(Arg, Role)> = table.get_arguments().filter_map(with_role).collect();
            for (index, (one, first)) in options.iter().enumerate() {
                for (other, second) in &options[..index] {
                    let both_name = |role: Role| matches!(role, Writes(_) | Reads | ReadsIf(_));
                    let writes = [first, second].iter().any(|role| matches!(role, Writes(_)));
                    if !both_name(*first) || !both_name(*second) || !writes {
                        continue;
                    }
                    let line = [words(one, *first, path), words(other, *second, path)].concat();
                    let refused = checked(&command, line.clone()).map_err(|error| error.to_string());
                    assert!(
                        refused.is_err_and(
                            |said| said.contains("choose another") || said.contains("a file each")
                        ),
                        "{command} {line:?}"
                    );
                    pairs += 1;
                }
            }
        }
        assert!(pairs > 60, "{pairs}");
    }

    #[test]
    fn a_file_of_another_kind_is_not_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("notes"), "a thesis").unwrap();
        std::fs::write(path("journal"), "{\"homing_journal\":1}\n").unwrap();
        let said = |command: &str, option: &str, file: &str| {
            let word = format!("{option}={}", path(file).display());
            checked(command, vec![word.into()]).map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        for (command, option) in [
            ("run", "--journal"),
            ("run", "--tee"),
            ("attach", "--journal"),
            ("run", "--summary"),
            ("simulate", "--tee"),
            ("sched run", "--log"),
            ("sched run", "--html"),
            ("why", "--html"),
            ("why", "--keep"),
            ("record", "--output"),
        ] {
            assert!(said(command, option, "notes").contains("exists and is a text"), "{command} {option}");
        }
        for (command, option) in [("run", "--summary"), ("why", "--markdown"), ("optimal", "--csv")] {
            assert!(
                said(command, option, "journal").contains("exists and is a journal"),
                "{command} {option}"
            );
        }
        assert_eq!(said("run", "--journal", "journal") + &said("why", "--markdown", "notes"), "");
    }

    #[test]
    fn what_is_in_nobodys_way_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let said = |command: &str, words: &[&str]| {
            let words = words.iter().map(OsString::from).collect();
            checked(command, words).map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        let (one, two, manifest) = (path("one"), path("two"), path("one.manifest.json"));
        assert_eq!(said("compare", &[&two, &two, "--csv", &one, "--html", &two.replace("two", "three")]), "");
        assert_eq!(said("simulate", &[&two, "--actions=/dev/null", "--placement-out=/dev/null"]), "");
        assert_eq!(said("optimal", &[&two, "--machine", "ace", "--csv"]), "");
        assert!(
            said("compare", &[&two, "--csv", &one, "--html", &manifest]).contains("the manifest of --csv")
        );
        assert!(said("optimal", &[&two, "--machine", &manifest, "--placement", &one])
            .contains("of --machine, which is read"));
        assert!(said("compare", &[&two, "--html", "-"]).contains("cannot go to standard output"));
        assert!(said("compare", &[&two, "--csv", &path(&"n".repeat(250))]).contains("no room"));
        std::fs::write(&manifest, "{\"of\": \"my own\"}").unwrap();
        assert!(said("compare", &[&two, "--csv", &one]).contains("no manifest that homing wrote"));
        std::fs::write(&manifest, format!("{{\"generator\": \"{}\"}}", manifest::GENERATOR)).unwrap();
        assert_eq!(said("compare", &[&two, "--csv", &one]), "");
    }
}
