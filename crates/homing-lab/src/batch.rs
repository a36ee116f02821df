//! A file of jobs that one machine runs in turn (`homing lab batch`; docs/lab.md, "Many jobs in one machine").

use crate::gather::absolute;
use crate::LabError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// A job as the file has it. Its names are absolute: relative ones begin at its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which no other job of the file has.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The longest that it may run.
    pub timeout: Option<Duration>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Further files and directories that it needs.
    pub files: Vec<PathBuf>,
    /// Further files and directories that are brought back if it changes them.
    pub results: Vec<PathBuf>,
    /// Variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// Nodes on which its memory begins.
    pub start_on: Option<String>,
    /// Lines for a shell that runs beside it.
    pub beside: Vec<String>,
    /// Where the observer's counts of it go.
    pub observe: Option<PathBuf>,
    /// Where its stdout goes; ours without it.
    pub output: Option<PathBuf>,
    /// Where its stderr goes; ours without it.
    pub errors: Option<PathBuf>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    job: Vec<Spanned<Written>>,
}

/// A job as it is written.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    name: String,
    command: Vec<String>,
    timeout: Option<String>,
    directory: Option<PathBuf>,
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    results: Vec<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    start_on: Option<String>,
    #[serde(default)]
    beside: Vec<String>,
    observe: Option<PathBuf>,
    output: Option<PathBuf>,
    errors: Option<PathBuf>,
}

/// Reads a file of jobs. Directories of jobs begin at `directory`.
///
/// # Errors
/// [`LabError::Usage`] with the file, the line, what was found and what was expected.
pub fn read(file: &Path, directory: &Path) -> Result<Vec<Entry>, LabError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| LabError::Usage(format!("{}: {error}", file.display())))?;
    parse(&text, directory).map_err(|reason| LabError::Usage(format!("{}: {reason}", file.display())))
}

fn parse(text: &str, directory: &Path) -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if file.job.is_empty() {
        return Err("no job: expected at least one table [[job]] with a name and a command".into());
    }
    let (mut names, mut written) = (BTreeSet::new(), BTreeSet::new());
    let mut entries = Vec::new();
    for job in file.job {
        let line = text[..job.span().start].matches('\n').count() + 1;
        let job = job.into_inner();
        let name = job.name.clone();
        let entry = entry(job, directory).and_then(|entry| {
            if !names.insert(entry.name.clone()) {
                return Err("another job has this name: expected a name of its own".into());
            }
            for path in [&entry.observe, &entry.output, &entry.errors].into_iter().flatten() {
                if !written.insert(path.clone()) {
                    return Err(format!("{} is written twice: expected a file of its own", path.display()));
                }
            }
            Ok(entry)
        });
        entries.push(entry.map_err(|reason| format!("line {line}: job `{name}`: {reason}"))?);
    }
    Ok(entries)
}

fn entry(job: Written, directory: &Path) -> Result<Entry, String> {
    if job.name.trim().is_empty() || job.name.contains(char::is_control) {
        return Err("expected a name of one line".into());
    }
    if job.command.first().is_none_or(String::is_empty) {
        return Err("command: expected a program and its arguments, such as [\"./cg\", \"-t\", \"8\"]".into());
    }
    let directory = match &job.directory {
        Some(own) => absolute(&directory.join(own)),
        None => directory.to_owned(),
    };
    let place = |path: &PathBuf| absolute(&directory.join(path));
    let all = |paths: &[PathBuf]| paths.iter().map(place).collect::<Vec<_>>();
    let files = all(&job.files);
    if let Some(missing) = files.iter().find(|file| !file.exists()) {
        return Err(format!("files: {}: no such file or directory", missing.display()));
    }
    if let Some(variable) = job.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err(format!("env: `{variable}`: expected the name of a variable"));
    }
    let timeout = job.timeout.as_deref().map(duration).transpose();
    Ok(Entry {
        timeout: timeout.map_err(|reason| format!("timeout: {reason}"))?,
        files,
        results: all(&job.results),
        observe: job.observe.as_ref().map(place),
        output: job.output.as_ref().map(place),
        errors: job.errors.as_ref().map(place),
        name: job.name,
        command: job.command,
        environment: job.env,
        start_on: job.start_on,
        beside: job.beside,
        directory,
    })
}

/// A duration such as `500ms`, `90s` or `5m`.
///
/// # Errors
/// What was found and what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}`: expected a duration such as 500ms, 90s or 5m");
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = digits.parse().map_err(|_| expected())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs).ok_or_else(expected),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text, Path::new("/base")).unwrap_err()
    }

    #[test]
    fn jobs_are_read_with_what_they_need() {
        let text = "[[job]]\nname = \"a\"\ncommand = [\"./cg\", \"-t\", \"8\"]\ntimeout = \"90s\"\n\
                    env = { OMP_NUM_THREADS = \"8\" }\nresults = [\"out\", \"/x\"]\nstart-on = \"0\"\n\
                    directory = \"own\"\nobserve = \"counts.json\"\noutput = \"../a.out\"\nbeside = [\"numad\"]\n\
                    [[job]]\nname = \"b\"\ncommand = [\"true\"]\nfiles = [\"/proc/self\"]\n";
        let jobs = parse(text, Path::new("/base")).unwrap();
        let (a, b) = (&jobs[0], &jobs[1]);
        assert_eq!((a.name.as_str(), a.timeout, a.command.len()), ("a", Some(Duration::from_secs(90)), 3));
        assert_eq!(a.directory, Path::new("/base/own"));
        assert_eq!(a.results, [PathBuf::from("/base/own/out"), "/x".into()]);
        assert_eq!(a.observe.as_deref(), Some(Path::new("/base/own/counts.json")));
        assert_eq!(a.output.as_deref(), Some(Path::new("/base/a.out")));
        assert_eq!((a.environment["OMP_NUM_THREADS"].as_str(), a.start_on.as_deref()), ("8", Some("0")));
        assert_eq!((b.directory.as_path(), b.timeout, b.errors.as_ref()), (Path::new("/base"), None, None));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let job = |more: &str| format!("\n[[job]]\nname = \"a\"\ncommand = [\"x\"]\n{more}\n");
        assert!(error("").contains("expected at least one table [[job]]"));
        let unknown = error(&job("colour = 1"));
        assert!(unknown.contains("line 5") && unknown.contains("unknown field `colour`"), "{unknown}");
        assert!(unknown.contains("`timeout`"), "it names what there is: {unknown}");
        assert!(error("[[job]]\nname = \"a\"\n").contains("missing field `command`"));
        assert!(error("[[job]]\nname = \"a\"\ncommand = []\n").contains("line 1: job `a`: command: expected"));
        assert!(error(&job("").repeat(2)).contains("line 7: job `a`: another job has this name"));
        let absent = error(&job("files = [\"absent\"]"));
        assert!(absent.contains("line 2: job `a`: files: /base/absent: no such file"), "{absent}");
        assert!(error(&job("timeout = \"1 day\"")).contains("timeout: `1 day`: expected a duration"));
        assert!(error(&job("env = { \"A=B\" = \"\" }")).contains("expected the name of a variable"));
        assert!(error(&job("output = \"o\"\nerrors = \"o\"")).contains("/base/o is written twice"));
        assert!(error(&job("").replace("\"a\"", "\"\"")).contains("expected a name of one line"));
    }

    #[test]
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        for wrong in ["", "5", "h", "-1s", "99999999999999999999s", "999999999999999999m"] {
            assert!(duration(wrong).unwrap_err().contains("expected a duration"), "{wrong}");
        }
    }
}
