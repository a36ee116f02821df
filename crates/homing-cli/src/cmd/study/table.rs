//! The table of a study.

use homing_linux::visible;
use homing_pipeline::study::Cell;

/// Least loss of first touch, in per cent of the optimal cost, of which a recovered share says something. A share of
/// less makes means meaningless: some are thousands of per cent.
const LOSS: f64 = 1.0;

/// The recovered share, if first touch loses enough.
fn recovered(gap_percent: f64, share: Option<f64>) -> Option<f64> {
    let share = share?;
    let lost = gap_percent / (1.0 - share / 100.0);
    (share >= 100.0 || lost >= LOSS).then_some(share)
}

/// Geometric mean, worst gap and recovered share, where first touch loses 1 % or more, of each policy at each machine,
/// start and information level.
pub fn table(cells: &[Cell]) -> comfy_table::Table {
    let mut groups: Vec<(Vec<&str>, Vec<&Cell>)> = Vec::new();
    for cell in cells {
        let row = &cell.row;
        let key = vec![&*row.policy, &*row.machine, &*cell.start, &*row.information];
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(cell),
            None => groups.push((key, vec![cell])),
        }
    }
    groups.sort_by(|a, b| a.0[1..].cmp(&b.0[1..]));
    let header = ["policy", "machine", "start", "information", "gap %", "worst %", "on trace", "recovered %"];
    let mut table = crate::tables::table(&header);
    for (key, cells) in groups {
        let count = cells.len() as f64;
        let logs: f64 = cells.iter().map(|cell| (1.0 + cell.row.gap_percent / 100.0).ln()).sum();
        let mean = 100.0 * ((logs / count).exp() - 1.0);
        let worst = cells.iter().max_by(|a, b| a.row.gap_percent.total_cmp(&b.row.gap_percent));
        let shares: Vec<f64> = cells
            .iter()
            .filter_map(|cell| recovered(cell.row.gap_percent, cell.row.recovered_percent))
            .collect();
        let share = match shares.len() {
            0 => "-".into(),
            count => format!("{:.1}", shares.iter().sum::<f64>() / count as f64),
        };
        let mut line: Vec<String> = key.into_iter().map(str::to_owned).collect();
        line.push(format!("{mean:.2}"));
        line.push(worst.map_or(String::new(), |cell| format!("{:.2}", cell.row.gap_percent)));
        line.push(worst.map_or(String::new(), |cell| visible::name(&cell.trace).into_owned()));
        line.push(share);
        table.add_row(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_next_to_nothing_is_not_averaged() {
        // First touch costs 0.01 % more than the optimum, the policy 1 %.
        assert_eq!((recovered(1.0, Some(-9900.0)), recovered(0.0, None)), (None, None));
        let shares = (recovered(1.0, Some(90.0)), recovered(20.0, Some(-100.0)));
        assert_eq!(shares, (Some(90.0), Some(-100.0)));
        assert_eq!(recovered(0.0, Some(100.0)), Some(100.0));
    }
}
