//! What to do about areas whose source line is not known.

use super::AreaReport;
use std::collections::BTreeSet;

/// Areas with less to avoid are not worth it, in percent.
const WORTH: f64 = 5.0;

/// A note on the files without debug information whose code allocates what matters.
pub(super) fn note(areas: &[AreaReport]) -> Option<String> {
    let worth = areas.iter().filter(|area| area.avoidable_percent >= WORTH);
    let files: BTreeSet<&str> = worth.filter_map(|area| file(area.name.as_deref()?, &area.stack)).collect();
    let files: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
    (!files.is_empty()).then(|| {
        format!(
            "allocations are named without lines, since no debug information was found of {}: compile with -g, or \
             install its debug symbols below /usr/lib/debug, and record again",
            files.join(", ")
        )
    })
}

/// The file with the code that names an area, if it gave no line: `/app/prog+0x12`, or `load (in /app/prog)`.
fn file<'a>(name: &str, stack: &'a [String]) -> Option<&'a str> {
    stack.iter().find_map(|frame| {
        let function = frame.rsplit_once(" (in ");
        let (begin, file) = match function {
            Some((function, file)) => (function, file.trim_end_matches(')')),
            None => {
                (frame.rsplit('/').next()?, frame.rsplit_once("+0x").filter(|_| frame.starts_with('/'))?.0)
            }
        };
        name.starts_with(begin).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_lines_is_of_the_file_that_names_the_area() {
        let stack = |frames: &[&str]| frames.iter().map(|&frame| frame.to_owned()).collect::<Vec<_>>();
        for (name, frames, expected) in [
            ("prog+0x12", &["/app/prog+0x12"][..], Some("/app/prog")),
            ("load (prog)", &["xmalloc (in /app/libx.so)", "load (in /app/prog)"], Some("/app/prog")),
            ("load (prog) < main (m.c:1)", &["load (in /app/prog)", "main (m.c:1)"], Some("/app/prog")),
            ("load (load.c:7)", &["malloc (in /lib/libc.so)", "load (load.c:7)"], None),
            ("table", &[], None),
        ] {
            assert_eq!(file(name, &stack(frames)), expected, "{name}");
        }
    }
}
