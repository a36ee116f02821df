//! What a trace is called: placeholders in a name, and the rank of this process among those of a parallel job.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The name where none is given.
pub const DEFAULT: &str = "homing.trace";

/// The environment variables by which launchers (mpirun, srun) give each process of a job its rank.
pub const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Why no name comes of one with placeholders.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No such placeholder.
    #[error("-o {0}: expected behind `%` one of p (process id), r (rank), q{{VARIABLE}} or %")]
    Unknown(String),
    /// No launcher started this process.
    #[error("-o {0}: `%r` is the rank that a launcher gives, and none is set ({list})", list = RANKS.join(", "))]
    NoRank(String),
    /// A variable cannot be used.
    #[error("-o {name}: the environment variable {variable} {why}")]
    Variable {
        /// The name with its placeholders.
        name: String,
        /// The variable.
        variable: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Where names take their parts from.
pub struct Names<'a> {
    /// The process that `%p` stands for.
    pub process: u32,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Names<'_> {
    /// The rank of this process, if a launcher has set one.
    pub fn rank(&self) -> Option<u32> {
        RANKS.iter().find_map(|name| (self.variable)(name)?.to_str()?.parse().ok())
    }

    /// The name of the trace: `wanted` with its placeholders replaced. One without any gets the rank of each process
    /// but the first, and the default name that of the first, too.
    ///
    /// # Errors
    /// If a placeholder stands for nothing.
    pub fn trace(&self, wanted: Option<&Path>) -> Result<PathBuf, NameError> {
        let rank = self.rank();
        match (wanted, rank) {
            (Some(wanted), _) if wanted.as_os_str().as_bytes().contains(&b'%') => self.expand(wanted),
            (Some(wanted), None | Some(0)) => Ok(wanted.to_owned()),
            (None, None) => Ok(DEFAULT.into()),
            (wanted, Some(rank)) => Ok(numbered(wanted.unwrap_or(Path::new(DEFAULT)), &rank.to_string())),
        }
    }

    fn expand(&self, wanted: &Path) -> Result<PathBuf, NameError> {
        let shown = || wanted.display().to_string();
        let mut left = wanted.as_os_str().as_bytes();
        let mut name = Vec::new();
        while let Some((&byte, rest)) = left.split_first() {
            left = rest;
            if byte != b'%' {
                name.push(byte);
                continue;
            }
            let (&which, rest) = rest.split_first().ok_or_else(|| NameError::Unknown(shown()))?;
            left = rest;
            match which {
                b'%' => name.push(b'%'),
                b'p' => name.extend(self.process.to_string().into_bytes()),
                b'r' => {
                    let rank = self.rank().ok_or_else(|| NameError::NoRank(shown()))?;
                    name.extend(rank.to_string().into_bytes());
                }
                b'q' => {
                    let (variable, rest) = braced(rest).ok_or_else(|| NameError::Unknown(shown()))?;
                    left = rest;
                    name.extend(self.value(variable, shown())?);
                }
                _ => return Err(NameError::Unknown(shown())),
            }
        }
        Ok(OsString::from_vec(name).into())
    }

    /// The value of a variable as a part of a file's name.
    fn value(&self, variable: &[u8], name: String) -> Result<Vec<u8>, NameError> {
        let variable = String::from_utf8_lossy(variable).into_owned();
        let wrong = |why| NameError::Variable { name: name.clone(), variable: variable.clone(), why };
        let value = (self.variable)(&variable).ok_or_else(|| wrong("is not set"))?.into_vec();
        if value.contains(&b'/') {
            return Err(wrong("holds a slash, which no file's name may"));
        }
        Ok(value)
    }
}

/// What stands between braces, and what follows.
fn braced(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"{")?;
    let end = text.iter().position(|&byte| byte == b'}').filter(|&end| end > 0)?;
    Some((&text[..end], &text[end + 1..]))
}

/// `app.trace` becomes `app.NUMBER.trace`.
pub(crate) fn numbered(output: &Path, number: &str) -> PathBuf {
    let mut name: OsString = output.file_stem().unwrap_or(OsStr::new("")).to_owned();
    name.push(".");
    name.push(number);
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(wanted: Option<&str>, variables: &[(&str, &str)]) -> Result<String, NameError> {
        let variable = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        };
        let names = Names { process: 77, variable: &variable };
        names.trace(wanted.map(Path::new)).map(|name| name.to_str().unwrap().to_owned())
    }

    #[test]
    fn each_process_of_a_job_has_a_name_of_its_own() {
        assert_eq!(trace(None, &[]).unwrap(), "homing.trace");
        assert_eq!(trace(Some("d.x/a.trace"), &[]).unwrap(), "d.x/a.trace");
        for variable in RANKS {
            let named = |wanted, rank| trace(wanted, &[(variable, rank)]).unwrap();
            assert_eq!(
                (named(None, "0"), named(None, "3")),
                ("homing.0.trace".into(), "homing.3.trace".into())
            );
            let wanted = Some("d.x/a.trace");
            assert_eq!(
                (named(wanted, "0"), named(wanted, "3")),
                ("d.x/a.trace".into(), "d.x/a.3.trace".into())
            );
            assert_eq!(named(None, "no number"), "homing.trace");
        }
    }

    #[test]
    fn placeholders_are_replaced() {
        let all = [("PMI_RANK", "2"), ("HOST", "n1"), ("DIRECTORY", "../x"), ("", "empty")];
        assert_eq!(trace(Some("%r/%q{HOST}-%p%%.trace"), &all).unwrap(), "2/n1-77%.trace");
        assert_eq!(trace(Some("no%%thing"), &all).unwrap(), "no%thing");
        for wrong in ["%", "a%x", "%q", "%qHOST", "%q{HOST", "%q{}"] {
            assert_eq!(trace(Some(wrong), &all), Err(NameError::Unknown(wrong.to_owned())));
        }
        assert_eq!(trace(Some("%r"), &[]), Err(NameError::NoRank("%r".into())));
        for (name, why) in
            [("%q{ABSENT}", "is not set"), ("%q{DIRECTORY}", "holds a slash, which no file's name may")]
        {
            let error = trace(Some(name), &all).unwrap_err().to_string();
            assert!(error.starts_with(&format!("-o {name}: ")) && error.ends_with(why), "{error}");
        }
    }
}
