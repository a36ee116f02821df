//! What results call the traces of one command.

use crate::error::{PipelineError, Result};
use std::iter::once;
use std::path::{Path, PathBuf};

/// A name for each trace: the file name without its extension where only one trace has it, else the shortest end of the
/// path that no other has.
///
/// # Errors
/// A usage error if a trace is named twice.
pub fn distinct(paths: &[PathBuf]) -> Result<Vec<String>> {
    let all: Vec<Vec<String>> = paths.iter().map(|path| candidates(path)).collect();
    let name = |(index, own): (usize, &Vec<String>)| {
        let others = || all.iter().enumerate().filter(|(other, _)| *other != index);
        let free = |name: &&String| !others().any(|(_, names)| names.contains(name));
        own.iter().find(free).cloned().ok_or_else(|| {
            let message =
                format!("trace {} is named twice: expected each trace once", paths[index].display());
            PipelineError::Usage(message)
        })
    };
    all.iter().enumerate().map(name).collect()
}

/// The names that a trace can have, shortest first.
fn candidates(path: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parts: Vec<_> = absolute.components().collect();
    let ends = (0..parts.len()).rev().map(|from| text(&parts[from..].iter().collect::<PathBuf>()));
    once(text(Path::new(absolute.file_stem().unwrap_or_default()))).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Result<Vec<String>> {
        distinct(&paths.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_as_long_as_it_takes() {
        for (paths, expected) in [
            (vec!["/r/a/x.trace", "/r/b/y.trace"], vec!["x", "y"]),
            (vec!["/r/a/x.trace", "/r/b/x.trace", "y"], vec!["a/x.trace", "b/x.trace", "y"]),
            (vec!["/a/r/x.trace", "/b/r/x.trace"], vec!["a/r/x.trace", "b/r/x.trace"]),
            (vec!["/r/x.old", "/r/x.new"], vec!["x.old", "x.new"]),
            (vec!["/x.trace", "/r/x.trace"], vec!["/x.trace", "r/x.trace"]),
            // A name that is short for one of them could be mistaken for another's.
            (vec!["/r/x.old.trace", "/r/x.old", "/s/x.old"], vec!["x.old.trace", "r/x.old", "s/x.old"]),
        ] {
            assert_eq!(names(&paths).unwrap(), expected, "{paths:?}");
        }
    }

    #[test]
    fn a_trace_is_named_once() {
        let here = std::env::current_dir().unwrap().join("x.trace");
        let error = names(&["x.trace", "y.trace", here.to_str().unwrap()]).unwrap_err();
        assert!(error.to_string().contains("x.trace is named twice"), "{error}");
        assert!(names(&["./x.trace", "x.trace"]).is_err());
    }
}
