//! Which area of one diagnosis is which of another.

use super::Joined;
use crate::report::why::AreaReport;
use std::collections::BTreeMap;

/// An area in both diagnoses, or in one.
pub(super) type Pair<'a> = (Option<&'a AreaReport>, Option<&'a AreaReport>);

/// Joins areas by name, then the others by functions and files. All areas are in the result, each once.
pub(super) fn join<'a>(before: &'a [AreaReport], after: &'a [AreaReport]) -> Vec<Pair<'a>> {
    let exact = |area: &AreaReport| (area.name.clone().unwrap_or_default(), area.name.is_none());
    let (mut pairs, left, right) = by(before.iter().collect(), after.iter().collect(), exact, |a, b| {
        // Several areas of one name: in the order in which they come.
        (0..a.len().min(b.len())).map(|place| (place, place)).collect()
    });
    let (moved, left, right) = by(left, right, |area| (without_lines(area), area.name.is_none()), nearest);
    pairs.extend(moved);
    pairs.extend(left.into_iter().map(|area| (Some(area), None)));
    pairs.extend(right.into_iter().map(|area| (None, Some(area))));
    pairs
}

/// How areas were joined.
pub(super) fn count(pairs: &[Pair<'_>]) -> Joined {
    let mut joined = Joined::default();
    for pair in pairs {
        let sum = match pair {
            (Some(before), Some(after)) if before.name == after.name => &mut joined.by_name,
            (Some(_), Some(_)) => &mut joined.by_function,
            (Some(_), None) => &mut joined.only_before,
            (None, _) => &mut joined.only_after,
        };
        *sum += 1;
    }
    joined
}

type Areas<'a> = Vec<&'a AreaReport>;

/// Pairs of equal keys as `choose` pairs their places, and what is left of either side, in order.
fn by<'a, K: Ord>(
    before: Areas<'a>,
    after: Areas<'a>,
    key: impl Fn(&AreaReport) -> K,
    choose: impl Fn(&[&AreaReport], &[&AreaReport]) -> Vec<(usize, usize)>,
) -> (Vec<Pair<'a>>, Areas<'a>, Areas<'a>) {
    let mut groups: BTreeMap<K, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    before.iter().enumerate().for_each(|(place, area)| groups.entry(key(area)).or_default().0.push(place));
    after.iter().enumerate().for_each(|(place, area)| groups.entry(key(area)).or_default().1.push(place));
    let (mut pairs, mut used) = (Vec::new(), (vec![false; before.len()], vec![false; after.len()]));
    for (left, right) in groups.into_values() {
        let of = |places: &[usize], areas: &Areas<'a>| places.iter().map(|&at| areas[at]).collect::<Vec<_>>();
        for (a, b) in choose(&of(&left, &before), &of(&right, &after)) {
            let (a, b) = (left[a], right[b]);
            (used.0[a], used.1[b]) = (true, true);
            pairs.push((Some(before[a]), Some(after[b])));
        }
    }
    let rest = |areas: Areas<'a>, used: &[bool]| -> Areas<'a> {
        areas.into_iter().zip(used).filter(|(_, used)| !**used).map(|(area, _)| area).collect()
    };
    (pairs, rest(before, &used.0), rest(after, &used.1))
}

/// Pairs areas of the same functions and files by their lines: in order of line, each of the fewer with the nearest of
/// the more.
fn nearest(before: &[&AreaReport], after: &[&AreaReport]) -> Vec<(usize, usize)> {
    let sorted = |areas: &[&AreaReport]| {
        let mut places: Vec<(Vec<u64>, usize)> =
            areas.iter().enumerate().map(|(place, area)| (lines(area), place)).collect();
        places.sort();
        places
    };
    let (left, right) = (sorted(before), sorted(after));
    if left.len() <= right.len() {
        in_order(&left, &right)
    } else {
        in_order(&right, &left).into_iter().map(|(b, a)| (a, b)).collect()
    }
}

/// Lines that one is compared with: thousands of areas of one function are joined in order.
const WINDOW: usize = 64;

fn in_order(fewer: &[(Vec<u64>, usize)], more: &[(Vec<u64>, usize)]) -> Vec<(usize, usize)> {
    let mut next = 0;
    let pair = |(rank, (lines, place)): (usize, &(Vec<u64>, usize))| {
        // Enough must be left for those that follow; and not all of many thousand are compared.
        let last = (more.len() - (fewer.len() - rank)).min(next + WINDOW);
        let nearest = (next..=last).min_by_key(|&at| distance(lines, &more[at].0)).unwrap_or(last);
        next = nearest + 1;
        (*place, more[nearest].1)
    };
    fewer.iter().enumerate().map(pair).collect()
}

fn distance(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum.saturating_add(a.abs_diff(*b)))
}

/// A name's pieces between lines, and the lines: `f (a.c:12) < g (b.c:3)` has 12 and 3.
fn pieces(name: &str) -> (String, Vec<u64>) {
    let (mut text, mut lines, mut rest) = (String::new(), Vec::new(), name);
    while let Some(at) = rest.find(':') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let (head, tail) = rest.split_at(at + 1);
        text += head;
        match tail[..digits].parse() {
            Ok(line) if tail[digits..].starts_with(')') => {
                lines.push(line);
                rest = &tail[digits..];
            }
            _ => rest = tail,
        }
    }
    (text + rest, lines)
}

fn without_lines(area: &AreaReport) -> String {
    pieces(area.name.as_deref().unwrap_or_default()).0
}

fn lines(area: &AreaReport) -> Vec<u64> {
    pieces(area.name.as_deref().unwrap_or_default()).1
}
