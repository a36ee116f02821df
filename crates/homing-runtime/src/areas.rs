//! The hot areas that the program has named.

use homing_session::input::{HotArea, Own};
use std::collections::BTreeMap;

/// One of them.
#[derive(Clone, Debug, PartialEq)]
struct Area {
    bytes: u64,
    name: Option<String>,
    own: Own,
}

/// All of them, by first address, none over another.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    areas: BTreeMap<u64, Area>,
}

impl Areas {
    /// None yet.
    pub const fn new() -> Areas {
        Areas { areas: BTreeMap::new() }
    }

    /// Takes one more.
    ///
    /// # Errors
    /// A sentence: if it is empty, ends beyond all addresses, or lies over another.
    pub fn add(&mut self, start: u64, bytes: u64, name: Option<String>, own: Own) -> Result<(), String> {
        let named = name.as_deref().unwrap_or("without a name");
        if start == 0 || bytes == 0 {
            return Err(format!(
                "area {named}: expected an address and a length above 0, got {start:#x} and {bytes}"
            ));
        }
        let Some(end) = start.checked_add(bytes) else {
            return Err(format!("area {named}: {bytes} bytes from {start:#x} on end beyond all addresses"));
        };
        let before = self.areas.range(..end).next_back();
        if let Some((other, _)) = before.filter(|(other, area)| *other + area.bytes > start) {
            return Err(format!(
                "area {named} at {start:#x} lies over the one at {other:#x}: forget that first"
            ));
        }
        self.areas.insert(start, Area { bytes, name, own });
        Ok(())
    }

    /// Forgets the one that begins there. False if there is none.
    pub fn forget(&mut self, start: u64) -> bool {
        self.areas.remove(&start).is_some()
    }

    /// Forgets all of that name. False if there is none.
    pub fn forget_named(&mut self, name: &str) -> bool {
        let before = self.areas.len();
        self.areas.retain(|_, area| area.name.as_deref() != Some(name));
        self.areas.len() < before
    }

    /// True if one begins there.
    pub fn has(&self, start: u64) -> bool {
        self.areas.contains_key(&start)
    }

    /// Number of areas.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// The areas by address, as the session takes them.
    pub fn hot(&self) -> Vec<HotArea> {
        let hot = |(&start, area): (&u64, &Area)| HotArea {
            start,
            bytes: area.bytes,
            name: area.name.clone().unwrap_or_default(),
            own: area.own.clone(),
        };
        self.areas.iter().map(hot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_lie_side_by_side_and_are_forgotten_by_address_or_name() {
        let mut areas = Areas::new();
        let mut add =
            |start, bytes, name: &str| areas.add(start, bytes, Some(name.to_owned()), Own::default());
        assert_eq!(
            (add(0x2000, 0x1000, "b"), add(0x1000, 0x1000, "a"), add(0x3000, 1, "b")),
            (Ok(()), Ok(()), Ok(()))
        );
        for (start, bytes, why) in [
            (0, 1, "above 0"),
            (1, 0, "above 0"),
            (2, u64::MAX, "beyond"),
            (0x800, 0x1000, "over"),
            (0x2fff, 2, "over"),
        ] {
            assert!(add(start, bytes, "c").unwrap_err().contains(why), "{start:#x} {bytes}");
        }
        let hot: Vec<(u64, u64)> = areas.hot().iter().map(|area| (area.start, area.bytes)).collect();
        assert_eq!(hot, [(0x1000, 0x1000), (0x2000, 0x1000), (0x3000, 1)]);
        assert!(areas.forget(0x1000) && !areas.forget(0x1000) && !areas.forget(0x1001));
        assert!(areas.forget_named("b") && !areas.forget_named("b"));
        assert_eq!(areas.len(), 0);
    }
}
