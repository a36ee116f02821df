//! The output of `valgrind --tool=lackey --trace-mem=yes`: lines `I  addr,size` (instructions, skipped), ` L addr,size`
//! (load), ` S addr,size` (store), ` M addr,size` (modify: a load, then a store), addresses in hexadecimal without
//! `0x`.
//!
//! Lackey tells no thread, so all references are of thread 0. Lines of Valgrind itself (`==pid== ...`, `--pid-- ...`)
//! are skipped; what the program printed between them counts as malformed.

use super::{digits, quoted, ImportError, Imported, Importer, Report};
use crate::ids::Thread;
use std::io::BufRead;

/// Lines longer than this are malformed whatever they hold.
const MAX_LINE: u64 = 4096;

pub(super) const ENTRY: Importer = Importer {
    name: "lackey",
    summary: "valgrind --tool=lackey --trace-mem=yes",
    expected: "the output of valgrind --tool=lackey --trace-mem=yes",
    looks_so: |start| BEGINNINGS.iter().any(|beginning| start.starts_with(beginning)),
    read: |input, _, sink| read(input, sink),
};

/// How its first line may begin.
const BEGINNINGS: [&[u8]; 6] = [b"==", b"--", b"I ", b" L ", b" S ", b" M "];

/// Reads references and hands them to `sink`, in order.
pub fn read<E>(
    mut input: impl BufRead,
    mut sink: impl FnMut(Imported) -> Result<(), E>,
) -> Result<Report, ImportError<E>> {
    let mut report = Report::default();
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let failed = |source| ImportError::Read { line, source };
        let length =
            std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut text).map_err(failed)?;
        if length == 0 {
            break;
        }
        if length as u64 == MAX_LINE && !text.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(failed)?;
        }
        match parse(text.trim_ascii_end()) {
            Line::Skipped => report.skipped += 1,
            Line::Malformed => {
                let expected = "expected `I  addr,size`, ` L addr,size`, ` S addr,size` or ` M addr,size`";
                report.malformed(line, format!("{}: {expected}", quoted(text.trim_ascii_end())));
            }
            Line::Access { address, bytes, read, write } => {
                for write in [false, true].into_iter().filter(|&w| if w { write } else { read }) {
                    report.references += 1;
                    sink(Imported { thread: Thread(0), address, bytes, write }).map_err(ImportError::Sink)?;
                }
            }
        }
    }
    Ok(report)
}

enum Line {
    Skipped,
    Malformed,
    Access { address: u64, bytes: u32, read: bool, write: bool },
}

fn parse(line: &[u8]) -> Line {
    let (read, write, rest) = match line {
        [] | [b'=', b'=', ..] | [b'-', b'-', ..] => return Line::Skipped,
        [b'I', b' ', rest @ ..] => (false, false, rest),
        [b' ', b'L', b' ', rest @ ..] => (true, false, rest),
        [b' ', b'S', b' ', rest @ ..] => (false, true, rest),
        [b' ', b'M', b' ', rest @ ..] => (true, true, rest),
        _ => return Line::Malformed,
    };
    let mut fields = rest.trim_ascii_start().splitn(2, |&b| b == b',');
    let address = fields.next().and_then(|field| digits(field, 16));
    let size =
        fields.next().and_then(|field| digits(field, 10)).filter(|n| (1..=super::MAX_BYTES).contains(n));
    match (address, size) {
        (Some(_), Some(_)) if !read && !write => Line::Skipped,
        (Some(address), Some(bytes)) => Line::Access { address, bytes: bytes as u32, read, write },
        _ => Line::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn the_lines_of_lackey() {
        let text = "==12== Lackey, an example Valgrind tool\n==12== \nI  0400d7d4,8\n L 1ffeffe7e0,8\n S 1ffeffe7e8,4\n\
                    I  0400d7d8,3\n M 0421c0d8,10\nhello, world\n\
                    \x20L 04,\n L zz,8\n S 10,0\n\n--12-- REDIR: x\n L ffffffffffffffff,1";
        let mut references = Vec::new();
        let report = read(text.as_bytes(), |r| {
            references.push((r.address, r.bytes, r.write));
            Ok::<_, Infallible>(())
        });
        let expected = [
            (0x1f_feff_e7e0, 8, false),
            (0x1f_feff_e7e8, 4, true),
            (0x421_c0d8, 10, false),
            (0x421_c0d8, 10, true),
            (u64::MAX, 1, false),
        ];
        assert_eq!(references, expected);
        let report = report.unwrap();
        assert_eq!((report.references, report.skipped, report.malformed), (5, 6, 4));
        assert_eq!(report.examples[0].line, 8);
        assert!(report.examples[0].reason.starts_with("`hello, world`: expected"));
    }

    #[test]
    fn endless_lines_are_one_malformed_line_each() {
        let text = [vec![b'L'; 10_000], b"\n L 8,8\n".to_vec()].concat();
        let report = read(&text[..], |_| Ok::<_, Infallible>(())).unwrap();
        assert_eq!((report.references, report.malformed), (1, 1));
        assert!(report.examples[0].reason.len() < 200);
    }
}
