//! Numbers that a file for another compiler gives names: `#define NAME 5` and `NAME = 5` of C, `.set NAME, 5` of an
//! assembler.

/// The number that `text` gives `name`: decimal, or hexadecimal after 0x. In a constant, a name that has none does not
/// compile.
pub const fn named(text: &str, name: &str) -> u64 {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut at = 1;
    while at + name.len() < text.len() {
        if text[at - 1] == b' ' && begins_with(text, at, name) {
            let from = at + name.len();
            let digits = after_separators(text, from);
            if digits > from && digits < text.len() && text[digits].is_ascii_digit() {
                return number(text, digits);
            }
        }
        at += 1;
    }
    panic!("the file gives this name no number")
}

const fn begins_with(text: &[u8], at: usize, word: &[u8]) -> bool {
    let mut i = 0;
    while i < word.len() && text[at + i] == word[i] {
        i += 1;
    }
    i == word.len()
}

const fn after_separators(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && matches!(text[at], b' ' | b'=' | b',') {
        at += 1;
    }
    at
}

const fn number(text: &[u8], mut at: usize) -> u64 {
    let hexadecimal = text[at] == b'0' && at + 1 < text.len() && text[at + 1] == b'x';
    let base = if hexadecimal { 16 } else { 10 };
    if hexadecimal {
        at += 2;
    }
    let mut number = 0;
    while at < text.len() {
        match (text[at] as char).to_digit(base) {
            Some(digit) => number = number * base as u64 + digit as u64,
            None => return number,
        }
        at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn numbers_of_c_and_of_an_assembler_are_found() {
        let text = "/* FIRST and LONGER */\n#define FIRST 5\n#define FIRSTLY 6\nenum { LONGER = 0x1fULL, LAST = 7 };\n";
        assert_eq!((named(text, "FIRST"), named(text, "FIRSTLY")), (5, 6));
        assert_eq!((named(text, "LONGER"), named(text, "LAST")), (31, 7));
        assert_eq!(named(".set at_stop, 12 # words\n", "at_stop"), 12);
        assert!(std::panic::catch_unwind(|| named("#define A B\n#define BA 3\n", "A")).is_err());
    }
}
