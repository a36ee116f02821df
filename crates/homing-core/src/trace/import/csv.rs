//! References as comma-separated values: columns `thread,addr,size,kind`, one line each, in the order in which they
//! happened.
//!
//! A header line may come first; it may then name the columns in another order and have others, which are ignored.
//! Addresses and sizes are decimal or hexadecimal behind `0x`; kind is `r` or `w`. Empty lines and lines that begin with
//! `#` are skipped.

use super::{number, quoted, size, ImportError, Imported, Report};
use crate::ids::Thread;
use csv::{ByteRecord, ReaderBuilder, Trim};
use std::collections::HashMap;
use std::io::Read;

/// The columns, in the order that a file without a header has.
pub const COLUMNS: [&str; 4] = ["thread", "addr", "size", "kind"];

/// The largest thread number that is taken as it is; larger ones (process ids of the system) need renumbering.
pub const MAX_THREAD: u64 = (1 << 16) - 1;

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Number the threads from 0 in order of their first reference instead of keeping their numbers.
    pub renumber: bool,
}

/// Reads references and hands them to `sink`, in order.
pub fn read<E>(
    input: impl Read,
    options: Options,
    mut sink: impl FnMut(Imported) -> Result<(), E>,
) -> Result<Report, ImportError<E>> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .quoting(false)
        .comment(Some(b'#'))
        .trim(Trim::All)
        .buffer_capacity(1 << 16)
        .from_reader(input);
    let mut report = Report::default();
    let mut places = [0, 1, 2, 3];
    let mut numbers = options.renumber.then(HashMap::new);
    let mut record = ByteRecord::new();
    let mut first = true;
    loop {
        let line = reader.position().line();
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(report),
            Err(error) => return Err(ImportError::Read { line, source: error.into() }),
        }
        if record.len() == 1 && record[0].is_empty() {
            continue;
        }
        if std::mem::take(&mut first) && is_header(&record) {
            places = columns(&record)?;
            continue;
        }
        match parse(&record, places, &mut numbers) {
            Ok(reference) => {
                report.references += 1;
                sink(reference).map_err(ImportError::Sink)?;
            }
            Err(reason) => {
                let line = record.position().map_or(line, csv::Position::line);
                report.malformed(line, reason);
            }
        }
    }
}

fn is_header(record: &ByteRecord) -> bool {
    record.iter().any(|field| COLUMNS.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field)))
}

/// Where the header puts each column.
fn columns<E>(header: &ByteRecord) -> Result<[usize; 4], ImportError<E>> {
    let mut places = [0; 4];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let found = header.iter().position(|field| column.as_bytes().eq_ignore_ascii_case(field));
        *place = found.ok_or_else(|| {
            let found: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
            ImportError::Header { found: found.join(","), column }
        })?;
    }
    Ok(places)
}

fn parse(
    record: &ByteRecord,
    places: [usize; 4],
    numbers: &mut Option<HashMap<u64, u32>>,
) -> Result<Imported, String> {
    let field = |i: usize| {
        record.get(places[i]).ok_or_else(|| {
            format!("{} fields, and no column `{}`; expected thread,addr,size,kind", record.len(), COLUMNS[i])
        })
    };
    let wrong = |i: usize, field: &[u8], expected: &str| {
        Err(format!("{} {}: expected {expected}", COLUMNS[i], quoted(field)))
    };
    let (thread, address, bytes, kind) = (field(0)?, field(1)?, field(2)?, field(3)?);
    if places == [0, 1, 2, 3] && record.len() > 4 {
        return Err(format!("{} fields; expected the four of thread,addr,size,kind", record.len()));
    }
    let write = match kind {
        b"r" | b"R" => false,
        b"w" | b"W" => true,
        other => return wrong(3, other, "r or w"),
    };
    let Some(virtual_address) = number(address) else {
        return wrong(1, address, "a decimal number or 0x and hexadecimal digits, below 2^64");
    };
    let Some(bytes_number) = size(bytes) else {
        return wrong(2, bytes, "a number of bytes from 1 to 32768");
    };
    let Some(thread_number) = number(thread) else {
        return wrong(0, thread, "a number");
    };
    let thread = match numbers {
        None if thread_number > MAX_THREAD => {
            return wrong(0, thread, "a number below 65536 (--renumber takes any and numbers threads from 0)")
        }
        None => thread_number as u32,
        Some(numbers) => {
            let next = numbers.len() as u32;
            *numbers.entry(thread_number).or_insert(next)
        }
    };
    Ok(Imported { thread: Thread(thread), address: virtual_address, bytes: bytes_number, write })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn import(text: &str, renumber: bool) -> (Vec<(u32, u64, u32, bool)>, Report) {
        let mut references = Vec::new();
        let report = read(text.as_bytes(), Options { renumber }, |r| {
            references.push((r.thread.0, r.address, r.bytes, r.write));
            Ok::<_, Infallible>(())
        });
        (references, report.unwrap())
    }

    #[test]
    fn with_and_without_a_header() {
        let expected = [(0, 0x1000, 8, false), (3, 4096, 4, true)];
        let plain = "0,0x1000,8,r\n3,4096,4,W\n";
        let headed = "# made by hand\nthread,addr,size,kind\n\n0, 0X1000 ,8, r\r\n3,4096,0x4,w";
        let other = "kind,cpu,size,addr,thread\nr,9,8,0x1000,0\nw,9,4,4096,3\n";
        for text in [plain, headed, other] {
            let (references, report) = import(text, false);
            assert_eq!(references, expected, "{text}");
            assert_eq!((report.references, report.malformed), (2, 0));
        }
    }

    #[test]
    fn malformed_lines_are_named_and_the_rest_is_kept() {
        let text = "thread,addr,size,kind\n0,0x10,8,r\n0,0x10,8\n0,zz,8,r\n0,1,0,r\n0,1,8,x\n70000,1,8,r\n-1,1,8,r\n\
                    0,18446744073709551616,8,r\n0,1,8,r,5\n0,0x20,8,w\n";
        let (references, report) = import(text, false);
        assert_eq!(references, [(0, 16, 8, false), (0, 32, 8, true)]);
        assert_eq!(report.malformed, 8);
        let examples: Vec<String> = report.examples.iter().map(ToString::to_string).collect();
        assert_eq!(examples[0], "line 3: 3 fields, and no column `kind`; expected thread,addr,size,kind");
        assert!(examples[1].starts_with("line 4: addr `zz`: expected a decimal number"), "{}", examples[1]);
        assert_eq!(examples[2], "line 5: size `0`: expected a number of bytes from 1 to 32768");
        assert_eq!(examples[3], "line 6: kind `x`: expected r or w");
        assert!(examples[4].contains("--renumber"), "{}", examples[4]);
    }

    #[test]
    fn threads_can_be_renumbered() {
        let (references, _) = import("4000000000,1,1,r\n7,2,1,r\n4000000000,3,1,r\n", true);
        assert_eq!(references.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn a_header_without_a_column_is_an_error() {
        let sink = |_| Ok::<_, Infallible>(());
        let error = read("thread,address,size,kind\n0,0,1,r\n".as_bytes(), Options::default(), sink);
        assert_eq!(
            error.unwrap_err().to_string(),
            "the header line `thread,address,size,kind` has no column `addr`; expected the columns thread,addr,size,kind"
        );
    }
}
