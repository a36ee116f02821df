//! The tables, in Markdown.

use super::Cell;

/// Cells that are shown one by one.
const WORST: usize = 10;

/// The tables of cells, the worst first.
pub fn table(cells: &[Cell]) -> String {
    let mut text = "All times are modelled.\n\n\
                    | cells | number | mean | above 1.01 | above 1.03 | above 1.08 | worst | kernel: mean \
                    | engine: slower by % | held % | CPU % |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    text += &line("all", cells.iter());
    for start in ["first touch", "node 0", "in turn"] {
        text += &line(start, cells.iter().filter(|cell| cell.start == start));
    }
    for machine in ["four-socket", "two-socket"] {
        text += &line(machine, cells.iter().filter(|cell| cell.machine == machine));
    }
    text += "\n| program | machine | start | none s | kernel s | homing s | ratio | scans | moved | slower by % |\n\
             |---|---|---|---|---|---|---|---|---|---|\n";
    for cell in cells.iter().take(WORST) {
        text += &format!(
            "| {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.3} | {} | {} | {:.2} |\n",
            cell.program,
            cell.machine,
            cell.start,
            cell.none,
            cell.kernel,
            cell.homing,
            cell.ratio(),
            cell.scans,
            cell.moved,
            percent(cell.delay, cell)
        );
    }
    text
}

fn percent(seconds: f64, cell: &Cell) -> f64 {
    100.0 * seconds / (cell.homing - cell.delay)
}

fn line<'a>(name: &str, cells: impl Iterator<Item = &'a Cell> + Clone) -> String {
    let number = cells.clone().count();
    if number == 0 {
        return String::new();
    }
    let above = |limit: f64| cells.clone().filter(|cell| cell.ratio() > limit).count();
    let mean = |value: &dyn Fn(&Cell) -> f64| cells.clone().map(value).sum::<f64>() / number as f64;
    let geometric = |value: &dyn Fn(&Cell) -> f64| mean(&|cell| value(cell).ln()).exp();
    format!(
        "| {name} | {number} | {:.3} | {} | {} | {} | {:.3} | {:.3} | {:.2} | {:.2} | {:.2} |\n",
        geometric(&Cell::ratio),
        above(1.01),
        above(1.03),
        above(1.08),
        cells.clone().map(Cell::ratio).fold(0.0, f64::max),
        geometric(&|cell| cell.kernel / cell.none.min(cell.kernel)),
        mean(&|cell| percent(cell.delay, cell)),
        mean(&|cell| percent(cell.charges.holds_ns / 1e9, cell)),
        mean(&|cell| percent(cell.charges.cpu_ns() / 1e9, cell)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_session::simulated::Charges;

    #[test]
    fn a_cell_is_measured_by_the_better_of_both() {
        let charges = Charges { holds_ns: 3e8, engine_ns: 6e8, ..Charges::default() };
        let cell = |start, kernel, homing| Cell {
            program: "p".into(),
            machine: "four-socket",
            start,
            none: 30.0,
            kernel,
            homing,
            charges,
            delay: 0.5,
            scans: 7,
            moved: 9,
        };
        let text = table(&[cell("node 0", 20.0, 22.0), cell("in turn", 40.0, 30.5)]);
        let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or("").to_owned();
        // The mean is the root of 1.1 times 1.0167.
        assert_eq!(line("| all"), "| all | 2 | 1.058 | 2 | 1 | 1 | 1.100 | 1.155 | 2.00 | 1.20 | 2.40 |");
        assert_eq!(
            line("| node 0"),
            "| node 0 | 1 | 1.100 | 1 | 1 | 1 | 1.100 | 1.000 | 2.33 | 1.40 | 2.79 |"
        );
        assert_eq!(line("| first touch"), "");
        assert_eq!(
            line("| p |"),
            "| p | four-socket | node 0 | 30.00 | 20.00 | 22.00 | 1.100 | 7 | 9 | 2.33 |"
        );
    }
}
