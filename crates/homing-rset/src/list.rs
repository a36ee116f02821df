//! Lists of CPUs and nodes as numactl reads them: `0-3,5`, `all`, `!1` (all but), `+0-1` (relative: the first and the
//! second that the caller may use).

use super::error::Wrong;
use std::collections::BTreeSet;

/// What a list is expected to be.
pub(super) const EXPECTED: &str =
    "expected a list such as 0-3,5, all, !1 (all but 1) or +0-1 (the first two)";

/// A list that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    /// `!`: all but these.
    invert: bool,
    /// `+`: the numbers count what the caller may use.
    relative: bool,
    /// None: `all`.
    ranges: Option<Vec<(u16, u16)>>,
}

impl List {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<List, Wrong> {
        let rest = text.strip_prefix('!').unwrap_or(text);
        let numbers = rest.strip_prefix('+').unwrap_or(rest);
        let (invert, relative) = (rest.len() < text.len(), numbers.len() < rest.len());
        if numbers == "all" {
            return Ok(List { invert, relative, ranges: None });
        }
        let mut at = text.len() - numbers.len();
        let mut ranges = Vec::new();
        for part in numbers.split(',') {
            ranges.push(range(part).map_err(|wrong| wrong.shifted(at))?);
            at += part.len() + 1;
        }
        Ok(List { invert, relative, ranges: Some(ranges) })
    }

    /// The numbers that it stands for, where the caller may use `usable`.
    pub fn numbers(&self, usable: &BTreeSet<u16>) -> Result<BTreeSet<u16>, String> {
        let mut numbers = BTreeSet::new();
        match &self.ranges {
            None => numbers.clone_from(usable),
            Some(ranges) => ranges.iter().for_each(|&(low, high)| numbers.extend(low..=high)),
        }
        if self.relative && self.ranges.is_some() {
            let nth: Vec<u16> = usable.iter().copied().collect();
            let real = |&place: &u16| {
                let beyond = || format!("+{place} is beyond them: {} may be used, from +0 on", nth.len());
                nth.get(usize::from(place)).copied().ok_or_else(beyond)
            };
            numbers = numbers.iter().map(real).collect::<Result<_, _>>()?;
        }
        Ok(if self.invert { usable - &numbers } else { numbers })
    }
}

fn range(part: &str) -> Result<(u16, u16), Wrong> {
    let (low, high) = part.split_once('-').unwrap_or((part, part));
    let whole = 0..part.len();
    let number = |text: &str| match text.parse::<u16>() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ if part.is_empty() => Err(Wrong::new(whole.clone(), format!("a number is missing: {EXPECTED}"))),
        _ => Err(Wrong::new(whole.clone(), format!("`{part}` is no number and no range: {EXPECTED}"))),
    };
    let (low, high) = (number(low)?, number(high)?);
    if low > high {
        let what = format!("the range {low}-{high} runs backwards: expected {high}-{low}");
        return Err(Wrong::new(whole, what));
    }
    Ok((low, high))
}

/// Numbers as a list: `0-3,5`; `none` if there are none.
pub fn ranges(numbers: impl IntoIterator<Item = u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    if runs.is_empty() {
        return "none".to_owned();
    }
    let text =
        |&(low, high): &(u16, u16)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}
