//! Words that others chose (names of programs, files and variables, answers of other programs), so that they can be
//! shown: characters that command a terminal or change the direction of text appear as their numbers, `\u001b` for ESC.
//!
//! What is printed goes through [`text`] in one place for each stream (`stderr.rs` here, `stdout.rs` of the command
//! line). The form is JSON's, so that JSON stays exact: JSON allows these characters in strings only, and there they
//! mean the same.

use std::borrow::Cow;
use std::fmt::Write;

/// A text of lines: all but the ends of lines and tabs is made visible.
pub fn text(words: &str) -> Cow<'_, str> {
    shown(words, |letter| acts(letter) && !matches!(letter, '\n' | '\t'))
}

/// A name within a line: the ends of lines and tabs are made visible as well.
pub fn name(words: &str) -> Cow<'_, str> {
    shown(words, acts)
}

/// Whether a terminal does something else than showing it.
fn acts(letter: char) -> bool {
    // All below 0x10000, as `\u` with four digits needs it.
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(words: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !words.contains(&hidden) {
        return Cow::Borrowed(words);
    }
    let mut shown = String::with_capacity(words.len() + 16);
    for letter in words.chars() {
        if hidden(letter) {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{:04x}", u32::from(letter));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_all_else_stays() {
        let harmless = "naïve 名前 😀 [31m \\u001b a\u{301}";
        assert!(matches!(name(harmless), Cow::Borrowed(same) if same == harmless));
        for (letter, shown) in [
            ('\0', "\\u0000"),
            ('\x07', "\\u0007"),
            ('\x08', "\\u0008"),
            ('\r', "\\u000d"),
            ('\x1b', "\\u001b"),
            ('\x7f', "\\u007f"),
            ('\u{80}', "\\u0080"),
            ('\u{9b}', "\\u009b"),
            ('\u{9f}', "\\u009f"),
            ('\u{61c}', "\\u061c"),
            ('\u{200f}', "\\u200f"),
            ('\u{202e}', "\\u202e"),
            ('\u{2028}', "\\u2028"),
            ('\u{2066}', "\\u2066"),
            ('\u{2069}', "\\u2069"),
        ] {
            let words = format!("a{letter}[2Jb");
            assert_eq!(name(&words), format!("a{shown}[2Jb"));
            assert_eq!(text(&words), name(&words));
            assert_eq!(text(&text(&words)), text(&words), "nothing is made visible twice");
        }
        assert_eq!(name("a\nb\tc"), "a\\u000ab\\u0009c");
        assert_eq!(text("a\nb\tc"), "a\nb\tc");
    }

    #[test]
    fn every_control_character_of_unicode_is_shown() {
        let controls = (0..=0x1f).chain(0x7f..=0x9f).filter_map(char::from_u32);
        assert!(controls.map(String::from).all(|control| name(&control).starts_with("\\u")));
    }
}
