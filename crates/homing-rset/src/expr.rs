//! Resource sets in words: `node:0-1 & !cpu:3`. docs/rset.md has the language.
//!
//! `!` binds strongest, then `-`, `&`, `|`, as sets of Python do. What stands alone has a length and a depth that are
//! bounded, since expressions come from users' files.

use super::error::Wrong;
use super::list::List;
use super::{ExprError, Global, ResourceSet};
use std::ops::Range;

/// Most bytes of an expression.
const LONGEST: usize = 4096;
/// Most levels of parentheses and of `!`.
const DEEPEST: usize = 64;
/// What can stand where a set is expected.
const A_SET: &str =
    "expected a set: node:0-1, cpu:0-7, mem:2, within:20@0, all, local, the name of a set, ! or (";

/// An expression that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    text: String,
    root: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Nodes(List, Range<usize>),
    Cpus(List, Range<usize>),
    Memories(List, Range<usize>),
    Within(u32, List, Range<usize>),
    All,
    Local(Range<usize>),
    Name(String, Range<usize>),
    Not(Box<Part>),
    Both(Operator, Box<Part>, Box<Part>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Union,
    Intersection,
    Difference,
}

/// Operators, loosest first.
const OPERATORS: [(u8, Operator); 3] =
    [(b'|', Operator::Union), (b'&', Operator::Intersection), (b'-', Operator::Difference)];

/// Whether a text can name a set: it begins with a letter or `_`, goes on with letters, digits, `_`, `.` and `-`, and
/// is no word of the language.
pub fn is_name(text: &str) -> bool {
    let is_word = word_length(text) == text.len() && !text.is_empty();
    is_word && !["all", "local", "node", "cpu", "mem", "within", "set"].contains(&text)
}

/// How long the word is that a text begins with. A `-` belongs to it between letters and digits.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.".contains(byte);
    if !bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_') {
        return 0;
    }
    let goes_on = |at: usize| plain(&bytes[at]) || bytes[at] == b'-' && bytes.get(at + 1).is_some_and(plain);
    (0..bytes.len()).find(|&at| !goes_on(at)).unwrap_or(bytes.len())
}

impl Expr {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Expr, ExprError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let root = parser.whole().map_err(|wrong| ExprError::new(text, wrong))?;
        Ok(Expr { text: text.to_owned(), root })
    }

    /// What was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The set on a machine. `named`: the set with that name, or why there is none.
    pub fn on(
        &self,
        global: &Global,
        named: &mut dyn FnMut(&str) -> Result<ResourceSet, String>,
    ) -> Result<ResourceSet, ExprError> {
        of(&self.root, global, named).map_err(|wrong| ExprError::new(&self.text, wrong))
    }
}

fn of(
    part: &Part,
    global: &Global,
    named: &mut dyn FnMut(&str) -> Result<ResourceSet, String>,
) -> Result<ResourceSet, Wrong> {
    let at = |at: &Range<usize>| {
        let at = at.clone();
        |what: String| Wrong::new(at, what)
    };
    Ok(match part {
        Part::Nodes(list, place) => global.of_nodes(global.nodes_in(list).map_err(at(place))?),
        Part::Cpus(list, place) => {
            ResourceSet { cpus: global.cpus_in(list).map_err(at(place))?, ..ResourceSet::default() }
        }
        Part::Memories(list, place) => {
            let nodes = global.nodes_in(list).map_err(at(place))?;
            ResourceSet { memories: global.of_nodes(nodes).memories, ..ResourceSet::default() }
        }
        Part::Within(distance, list, place) => {
            let nodes = global.nodes_in(list).map_err(at(place))?;
            nodes.iter().fold(ResourceSet::default(), |all, from| &all | &global.within(*distance, from))
        }
        Part::All => global.all().clone(),
        Part::Local(place) => {
            let nowhere = || "this machine is a model, on which nobody runs: name a node".to_owned();
            let node = global.here().and_then(|id| global.node(id)).ok_or_else(nowhere).map_err(at(place))?;
            &global.of_nodes([node]) & global.all()
        }
        Part::Name(name, place) => named(name).map_err(at(place))?,
        Part::Not(inner) => global.all() - &of(inner, global, named)?,
        Part::Both(operator, left, right) => {
            let (left, right) = (of(left, global, named)?, of(right, global, named)?);
            match operator {
                Operator::Union => &left | &right,
                Operator::Intersection => &left & &right,
                Operator::Difference => &left - &right,
            }
        }
    })
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn whole(&mut self) -> Result<Part, Wrong> {
        if self.text.len() > LONGEST {
            let what = format!("{} bytes: expected at most {LONGEST}", self.text.len());
            return Err(Wrong::new(0..0, what));
        }
        let part = self.chain(0)?;
        match self.peek() {
            None => Ok(part),
            Some(')') => Err(self.wrong("a closing parenthesis without its opening one: leave it out")),
            Some(_) => Err(self.wrong("expected |, &, - or the end")),
        }
    }

    /// Parts that are joined by the operators from `level` on.
    fn chain(&mut self, level: usize) -> Result<Part, Wrong> {
        let Some(&(sign, operator)) = OPERATORS.get(level) else { return self.one() };
        let mut left = self.chain(level + 1)?;
        while self.peek() == Some(char::from(sign)) {
            self.at += 1;
            let right = self.chain(level + 1)?;
            left = Part::Both(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Part, Wrong> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wrong(&format!("nested deeper than {DEEPEST} levels: expected fewer ( and !")));
        }
        let begin = self.peek();
        let part = match begin {
            Some('!') => {
                self.at += 1;
                Part::Not(Box::new(self.one()?))
            }
            Some('(') => self.group()?,
            Some(_) => self.word()?,
            None => return Err(self.wrong(&format!("the expression ends here: {A_SET}"))),
        };
        self.depth -= 1;
        Ok(part)
    }

    fn group(&mut self) -> Result<Part, Wrong> {
        let opening = self.at..self.at + 1;
        self.at += 1;
        let inner = self.chain(0)?;
        match self.peek() {
            Some(')') => {
                self.at += 1;
                Ok(inner)
            }
            Some(_) => Err(self.wrong("expected |, &, - or a closing parenthesis")),
            None => Err(Wrong::new(opening, "this parenthesis is never closed: add a ) at the end")),
        }
    }

    /// A word, with what belongs to it behind a colon.
    fn word(&mut self) -> Result<Part, Wrong> {
        let start = self.at;
        let length = word_length(&self.text[start..]);
        let word = &self.text[start..start + length];
        if length == 0 {
            return Err(self.wrong(A_SET));
        }
        self.at += length;
        if !self.text[self.at..].starts_with(':') {
            return match word {
                "all" => Ok(Part::All),
                "local" => Ok(Part::Local(start..self.at)),
                name if is_name(name) => Ok(Part::Name(name.to_owned(), start..self.at)),
                _ => Err(Wrong::new(start..self.at, format!("`{word}` needs more behind it: {A_SET}"))),
            };
        }
        self.at += 1;
        match word {
            "set" => self.name(),
            "within" => self.within(start),
            "node" => self.list().map(|list| Part::Nodes(list, start..self.at)),
            "cpu" => self.list().map(|list| Part::Cpus(list, start..self.at)),
            "mem" => self.list().map(|list| Part::Memories(list, start..self.at)),
            _ => Err(Wrong::new(start..self.at, format!("`{word}:` is no kind of set: {A_SET}"))),
        }
    }

    fn name(&mut self) -> Result<Part, Wrong> {
        let start = self.at;
        self.at += word_length(&self.text[start..]);
        let name = &self.text[start..self.at];
        if !is_name(name) {
            return Err(Wrong::new(start..self.at, "expected the name of a set behind `set:`"));
        }
        Ok(Part::Name(name.to_owned(), start..self.at))
    }

    fn within(&mut self, start: usize) -> Result<Part, Wrong> {
        let rest = &self.text[self.at..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let distance = rest[..digits].parse();
        let (Ok(distance), true) = (distance, rest[digits..].starts_with('@')) else {
            let what =
                "expected a distance and nodes, as in within:20@0 (10 is local; `homing rset show all`)";
            return Err(Wrong::new(start..self.at, what));
        };
        self.at += digits + 1;
        self.list().map(|list| Part::Within(distance, list, start..self.at))
    }

    fn list(&mut self) -> Result<List, Wrong> {
        let start = self.at;
        let belongs = |c: char| c.is_ascii_alphanumeric() || "!+,-".contains(c);
        let rest = &self.text[start..];
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        List::parse(&self.text[start..self.at]).map_err(|wrong| wrong.shifted(start))
    }

    /// The next character that is no blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Something wrong with the next character.
    fn wrong(&self, what: &str) -> Wrong {
        let next = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        Wrong::new(self.at..self.at + next, what)
    }
}
