//! How often a page is used between two scans, by the time from the scan to the fault: whoever comes soon probably
//! comes again.

use homing_core::ids::Micros;

/// Most bursts that one fault stands for: enough to move a page of which nothing else is known.
pub const MOST: f64 = 2.5;

/// Bursts that a fault stands for: as many as fit, at the rate of the first, into the time between two scans.
pub fn of(after_scan: Option<Micros>, period: Micros) -> f64 {
    match after_scan {
        Some(after) => (period.seconds() / after.seconds().max(1e-6)).clamp(1.0, MOST),
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_touched_soon_is_used_often() {
        let period = Micros::from_millis(400);
        let bursts = |ms| of(Some(Micros::from_millis(ms)), period);
        let expected = (MOST, MOST, 2.0, 1.0);
        assert_eq!((bursts(1), bursts(100), bursts(200), bursts(10_000)), expected);
        assert!((bursts(399) - 400.0 / 399.0).abs() < 1e-9);
        assert_eq!(of(None, period), 1.0, "a first touch before the scan");
    }
}
