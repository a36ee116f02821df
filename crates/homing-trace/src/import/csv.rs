//! References as comma-separated values: columns `thread,addr,size,kind`, one line each, in the order in which they
//! happened.
//!
//! A header line may come first; it may then name the columns in another order and have others, which are ignored.
//! Addresses and sizes are decimal or hexadecimal behind `0x`; kind is `r` or `w`. Empty lines and lines that begin
//! with `#` are skipped.

use super::{number, quoted, size, ImportError, Imported, Importer, Options, Report, MAX_BYTES};
use crate::ids::Thread;
use std::collections::HashMap;
use std::io::{BufRead, Read};

/// The columns, in the order that a file without a header has.
pub const COLUMNS: [&str; 4] = ["thread", "addr", "size", "kind"];

/// The largest thread number that is taken as it is; larger ones (process ids of the system) need renumbering.
pub const MAX_THREAD: u64 = (1 << 16) - 1;

/// Of a longer line only so much is looked at.
const MAX_LINE: u64 = 1 << 16;

pub(super) const ENTRY: Importer = Importer {
    name: "csv",
    summary: "columns thread,addr,size,kind (r or w), with or without a header line",
    expected: "CSV lines thread,addr,size,kind such as 0,0x1000,8,r",
    looks_so: |_| false,
    read: |input, options, sink| read(input, options, sink),
};

/// Reads references and hands them to `sink`, in order.
pub fn read<E>(
    mut input: impl BufRead,
    options: Options,
    mut sink: impl FnMut(Imported) -> Result<(), E>,
) -> Result<Report, ImportError<E>> {
    let mut report = Report::default();
    let mut rows = Rows { places: [0, 1, 2, 3], numbers: options.renumber.then(HashMap::new) };
    let mut text = Vec::new();
    let mut line = 1;
    let mut first = true;
    loop {
        let failed = |source| ImportError::Read { line, source };
        let bytes = input.fill_buf().map_err(failed)?;
        if bytes.is_empty() {
            return Ok(report);
        }
        let mut used = 0;
        while let Some((reference, length)) = rows.plain(&bytes[used..]) {
            (used, line, first) = (used + length, line + 1, false);
            report.references += 1;
            sink(reference).map_err(ImportError::Sink)?;
        }
        input.consume(used);
        let failed = |source| ImportError::Read { line, source };
        text.clear();
        let length = Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut text).map_err(failed)?;
        if length as u64 == MAX_LINE && !text.ends_with(b"\n") {
            input.skip_until(b'\n').map_err(failed)?;
        }
        let row = if line == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text) } else { &text };
        if !row.trim_ascii().is_empty() && !row.starts_with(b"#") {
            let fields: Vec<&[u8]> = row.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
            if std::mem::take(&mut first) && is_header(&fields) {
                rows.places = columns(&fields)?;
            } else {
                match rows.parse(&fields) {
                    Ok(reference) => {
                        report.references += 1;
                        sink(reference).map_err(ImportError::Sink)?;
                    }
                    Err(reason) => report.malformed(line, reason),
                }
            }
        }
        line += 1;
    }
}

fn is_header(fields: &[&[u8]]) -> bool {
    fields.iter().any(|field| COLUMNS.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field)))
}

/// Where the header puts each column.
fn columns<E>(header: &[&[u8]]) -> Result<[usize; 4], ImportError<E>> {
    let mut places = [0; 4];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let mut found = (0..header.len()).filter(|&i| column.as_bytes().eq_ignore_ascii_case(header[i]));
        let first = found.next();
        if found.next().is_some() {
            return Err(ImportError::Twice { column });
        }
        *place = first.ok_or_else(|| {
            let found: Vec<_> = header.iter().map(|field| String::from_utf8_lossy(field)).collect();
            ImportError::Header { found: found.join(","), column }
        })?;
    }
    Ok(places)
}

/// Reads a number without signs or spaces from the front of `bytes`, which go on behind it; gives it and its length.
#[inline]
fn number_at(bytes: &[u8]) -> Option<(u64, usize)> {
    let (start, base, most) = match bytes {
        [b'0', b'x' | b'X', ..] => (2, 16, 16),
        _ => (0, 10, 19),
    };
    let mut value = 0u64;
    for (length, &byte) in bytes[start..].iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' if base == 16 => byte - b'a' + 10,
            b'A'..=b'F' if base == 16 => byte - b'A' + 10,
            _ => return (1..=most).contains(&length).then_some((value, start + length)),
        };
        if length >= most {
            return None;
        }
        value = value * base + u64::from(digit);
    }
    None
}

/// How rows become references.
struct Rows {
    /// The fields that are the columns.
    places: [usize; 4],
    /// The new number of each thread, if they are renumbered.
    numbers: Option<HashMap<u64, u32>>,
}

impl Rows {
    /// The reference and the length of the line that `bytes` begin with, if it is a whole one of the four columns
    /// without spaces: the usual case, in one pass. Whatever is not quite so is left to [`Rows::parse`].
    #[inline]
    fn plain(&self, bytes: &[u8]) -> Option<(Imported, usize)> {
        if self.places != [0, 1, 2, 3] || self.numbers.is_some() {
            return None;
        }
        let mut at = 0;
        let mut field = || {
            let (value, length) = number_at(&bytes[at..])?;
            let comma = bytes.get(at + length)? == &b',';
            at += length + 1;
            comma.then_some(value)
        };
        let (thread, address, size) = (field()?, field()?, field()?);
        let (write, end) = match bytes.get(at..at + 3)? {
            [b'r', b'\n', _] => (false, 2),
            [b'w', b'\n', _] => (true, 2),
            b"r\r\n" => (false, 3),
            b"w\r\n" => (true, 3),
            _ => return None,
        };
        let known = thread <= MAX_THREAD && (1..=MAX_BYTES).contains(&size);
        let reference = Imported { thread: Thread(thread as u32), address, bytes: size as u32, write };
        known.then_some((reference, at + end))
    }

    /// The reference of a line with these fields.
    fn parse(&mut self, fields: &[&[u8]]) -> Result<Imported, String> {
        let field = |i: usize| {
            fields.get(self.places[i]).copied().ok_or_else(|| {
                let (count, column) = (fields.len(), COLUMNS[i]);
                let other = [b'\t', b';', b' '].into_iter().find(|by| fields[0].contains(by));
                match other.filter(|_| count == 1) {
                    Some(by) => {
                        format!("no comma, but `{}`: expected commas between the fields", by.escape_ascii())
                    }
                    None => {
                        let s = if count == 1 { "" } else { "s" };
                        format!("{count} field{s}, and no column `{column}`; expected thread,addr,size,kind")
                    }
                }
            })
        };
        let wrong = |i: usize, field: &[u8], expected: &str| {
            Err(format!("{} {}: expected {expected}", COLUMNS[i], quoted(field)))
        };
        let (thread, address, bytes, kind) = (field(0)?, field(1)?, field(2)?, field(3)?);
        if self.places == [0, 1, 2, 3] && fields.len() > 4 {
            return Err(format!("{} fields; expected the four of thread,addr,size,kind", fields.len()));
        }
        let write = match kind {
            b"r" | b"R" => false,
            b"w" | b"W" => true,
            [b'"', ..] => return wrong(3, kind, "r or w, without quotation marks"),
            other => return wrong(3, other, "r (read) or w (write)"),
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
        let thread = match &mut self.numbers {
            None if thread_number > MAX_THREAD => {
                return wrong(
                    0,
                    thread,
                    "a number below 65536 (--renumber takes any and numbers threads from 0)",
                )
            }
            None => thread_number as u32,
            Some(numbers) => {
                let next = numbers.len() as u32;
                *numbers.entry(thread_number).or_insert(next)
            }
        };
        Ok(Imported { thread: Thread(thread), address: virtual_address, bytes: bytes_number, write })
    }
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
    fn other_dialects_are_named() {
        let first = |text: &str| import(text, false).1.examples[0].reason.clone();
        assert!(first("0\t0x1000\t8\tr\n").contains("no comma, but `\\t`"), "{}", first("0\t0x1000\t8\tr\n"));
        assert!(first("0;0x1000;8;r\n").contains("no comma, but `;`"));
        assert!(first("0,0x1000,8,\"r\"\n").contains("without quotation marks"));
        let twice =
            read("thread,addr,size,kind,addr\n".as_bytes(), Options::default(), |_| Ok::<_, Infallible>(()));
        assert!(twice.unwrap_err().to_string().contains("`addr` twice"));
    }

    #[test]
    fn the_short_way_gives_what_the_long_one_does() {
        let lines =
            ["0,0x10,8,r", "1,0XaF,4,w\r", "2,18446744073709551615,1,r", "3,0xffffffffffffffff,32768,w"];
        for line in lines {
            let fields: Vec<&[u8]> = line.trim().split(',').map(str::as_bytes).collect();
            let mut rows = Rows { places: [0, 1, 2, 3], numbers: None };
            let long = rows.parse(&fields).unwrap();
            let short = rows.plain(format!("{line}\n#").as_bytes());
            assert!(short.is_none_or(|short| short == (long, line.len() + 1)), "{line}");
            assert_eq!(import(line, false).0, [(long.thread.0, long.address, long.bytes, long.write)]);
        }
        let (references, report) = import("\u{feff}0,1,1,r\n0,2,1,w\n0,3,1,r", false);
        assert_eq!(
            (references.len(), report.malformed),
            (3, 0),
            "a byte order mark, and no newline at the end"
        );
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
        assert_eq!(examples[3], "line 6: kind `x`: expected r (read) or w (write)");
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
            "the header line `thread,address,size,kind` has no column `addr`; \
            expected the columns thread,addr,size,kind"
        );
    }
}
