//! Pictures of simulated scheduling: which job had which processors, and how local each job was, one pair for each run.

use crate::html::{escape, head};
use homing_pipeline::sched::Cell;
use homing_sched::outcome::Outcome;
use homing_sched::partition::{Division, Transfer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of a picture, height of the curves, and the margin for labels, in pixels.
const WIDTH: usize = 900;
const CURVES: usize = 120;
const LEFT: usize = 48;
/// What is above the uppermost curve.
const TOP: usize = 10;

/// Jobs that a legend names.
const NAMED: usize = 24;

/// Height of a CPU's row: few CPUs have higher ones.
fn row_of(cpus: usize) -> usize {
    (160 / cpus.max(1)).clamp(5, 18)
}

/// Distinct colours of jobs, by number.
const COLOURS: [&str; 12] = [
    "#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e",
    "#9498a0", "#0a7d8c", "#c2385a",
];

/// The style of the report page.
const STYLE: &str = include_str!("../../../../../ui/src/style.css");

/// A page, with the JSON of what it shows where the report page has its own.
fn whole(text: &str, body: &str, json: &Value) -> String {
    // No `<` in the data: then nothing in it can end the script element or open a comment.
    let json = json.to_string().replace('<', "\\u003c");
    let head = head("Jobs and processors");
    format!(
        "{head}<script type=\"application/json\" id=\"homing-report\">{json}</script>\n<style>{STYLE}\
         main svg{{max-width:100%;height:auto;overflow:visible}}main svg text{{font:11px system-ui;fill:currentColor}}\
         </style>\n<main><h1>Jobs and processors</h1>\n<p>{text}</p>\n{body}</main></html>\n"
    )
}

/// A page of one run of real jobs; `names` are theirs.
pub fn page_of_one(
    title: &str,
    text: &str,
    outcome: &Outcome,
    names: &[&str],
    how: &str,
    json: &Value,
) -> String {
    let divided = outcome.division.as_ref().map_or(String::new(), transfers);
    let name = |job: u32| names.get(job as usize).map_or_else(|| format!("job {job}"), |name| escape(name));
    let body = format!(
        "<h2>{}</h2>\n<p>{text}</p>\n{}{}{divided}",
        escape(title),
        processors(outcome, &name),
        locality(outcome, "Local share of the live engine's samples, all jobs together", &|_| "all jobs"
            .into())
    );
    whole(how, &body, json)
}

/// The page.
pub fn page(cells: &[Cell], machine: &str, how: &str, json: &Value) -> String {
    let mut body = String::new();
    let name = |job: u32| format!("job {job}");
    for cell in cells {
        let outcome = &cell.outcome;
        let _ = writeln!(
            body,
            "<h2>{}, pages {}, load {:.0} %, seed {}</h2>\n<p>{} jobs in {:.0} s; {:.0} s of CPU time (bound {:.0}); \
             {:.1} % of the misses non-local; {} process migrations.</p>",
            cell.manager, cell.policy, cell.load_percent, cell.seed, outcome.jobs, outcome.makespan_s, outcome.cpu_s,
            outcome.bound_cpu_s, outcome.nonlocal_percent, outcome.process_migrations
        );
        if outcome.left_out_of_pictures > 0 {
            let _ = writeln!(
                body,
                "<p>{} bursts are left out of the pictures.</p>",
                outcome.left_out_of_pictures
            );
        }
        body += &processors(outcome, &name);
        body += &locality(outcome, "Local misses of each job", &name);
        body += &outcome.division.as_ref().map_or(String::new(), transfers);
    }
    whole(&format!("Machine {}. {how}", escape(machine)), &body, json)
}

/// The nodes that moved, for a page.
fn transfers(division: &Division) -> String {
    let item = |transfer: &Transfer| {
        format!(
            "<li>{:.1} s: node {} from {} to {}, {} pages in {:.3} s, {} left</li>",
            transfer.at_s,
            transfer.node,
            transfer.from.as_deref().map_or("nobody".into(), escape),
            escape(&transfer.to),
            transfer.pages_moved,
            transfer.seconds,
            transfer.pages_left
        )
    };
    let count = crate::tables::things(division.transfers.len() as u64, "node");
    let items: String = division.transfers.iter().map(item).collect();
    format!("<details><summary>{count} moved between partitions</summary><ol>{items}</ol></details>\n")
}

/// The job that had most of the time of each pixel of a CPU's row.
fn shown(outcome: &Outcome, cpus: usize) -> Vec<Vec<Option<u32>>> {
    let step = outcome.makespan_s / WIDTH as f64;
    let mut time: Vec<BTreeMap<(usize, u32), f64>> = vec![BTreeMap::new(); cpus];
    for segment in &outcome.segments {
        let mut column = (segment.from_s / step) as usize;
        let mut from = segment.from_s;
        while from < segment.to_s && column < WIDTH {
            let to = segment.to_s.min((column + 1) as f64 * step);
            *time[usize::from(segment.cpu)].entry((column, segment.job.0)).or_default() += to - from;
            (from, column) = (to, column + 1);
        }
    }
    let row = |time: &BTreeMap<(usize, u32), f64>| {
        let mut most: Vec<Option<(u32, f64)>> = vec![None; WIDTH];
        for (&(column, job), &seconds) in time {
            if seconds > step / 2.0 || most[column].is_none_or(|(_, other)| seconds > other) {
                most[column] = Some((job, seconds));
            }
        }
        most.into_iter().map(|most| most.map(|(job, _)| job)).collect()
    };
    time.iter().map(row).collect()
}

/// A row for each CPU. Neighbours that show the same are one block, and all blocks of a job one path.
fn processors(outcome: &Outcome, name: &dyn Fn(u32) -> String) -> String {
    let cpus = outcome.segments.iter().map(|segment| usize::from(segment.cpu) + 1).max().unwrap_or(0);
    let mut paths: BTreeMap<u32, String> = BTreeMap::new();
    let (mut cpu, row) = (0, row_of(cpus));
    for same in shown(outcome, cpus).chunk_by(|a, b| a == b) {
        let mut from = 0;
        for run in same[0].chunk_by(|a, b| a == b) {
            if let Some(job) = run[0] {
                let (x, y, wide, high) = (LEFT + from, cpu * row, run.len(), same.len() * row - 1);
                let _ = write!(paths.entry(job).or_default(), "M{x} {y}h{wide}v{high}h-{wide}z");
            }
            from += run.len();
        }
        cpu += same.len();
    }
    let mut drawn = paths.iter().fold(String::new(), |mut drawn, (job, path)| {
        let colour = COLOURS[*job as usize % COLOURS.len()];
        let _ = write!(drawn, "<path d=\"{path}\" fill=\"{colour}\"><title>{}</title></path>", name(*job));
        drawn
    });
    let (width, height) = (LEFT + WIDTH, cpus * row + 18);
    // The first and the last row, which may be one, have labels.
    for cpu in [0, cpus.saturating_sub(1)].into_iter().take(cpus) {
        let _ = write!(drawn, "<text x=\"0\" y=\"{}\">CPU {cpu}</text>", (cpu * row + row / 2 + 4).max(10));
    }
    let axis = axis(outcome, cpus * row + 14);
    format!(
        "<h3>Processors by job</h3>\n<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-label=\"Which job had which processors over time\">{drawn}{axis}</svg>\n{}",
        legend(paths.keys().copied(), name)
    )
}

/// The colours of jobs by name, where they are not too many.
fn legend(jobs: impl ExactSizeIterator<Item = u32>, name: &dyn Fn(u32) -> String) -> String {
    if jobs.len() > NAMED {
        return String::new();
    }
    let item = |job: u32| {
        let colour = COLOURS[job as usize % COLOURS.len()];
        format!("<span style=\"color:{colour}\">&#9632;</span> {} ", name(job))
    };
    format!("<p>{}</p>\n", jobs.map(item).collect::<String>().trim_end())
}

/// A curve for each job, or one for all: the share of the misses that are local.
fn locality(outcome: &Outcome, heading: &str, name: &dyn Fn(u32) -> String) -> String {
    if outcome.locality.is_empty() {
        return String::new();
    }
    let mut jobs: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for point in &outcome.locality {
        let x = LEFT as f64 + WIDTH as f64 * point.at_s / outcome.makespan_s;
        jobs.entry(point.job.0).or_default().push((x, CURVES as f64 * (1.0 - point.local) + TOP as f64));
    }
    let mut drawn = String::new();
    for (job, points) in jobs {
        // One point a pixel.
        let line: Vec<String> = points
            .chunk_by(|a, b| a.0 as usize == b.0 as usize)
            .map(|same| {
                format!(
                    "{:.0},{:.1}",
                    same[0].0,
                    same.iter().map(|point| point.1).sum::<f64>() / same.len() as f64
                )
            })
            .collect();
        let colour = COLOURS[job as usize % COLOURS.len()];
        let _ = write!(
            drawn,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"><title>{}</title></polyline>",
            line.join(" "),
            name(job)
        );
    }
    for percent in [0, 50, 100] {
        let y = CURVES * (100 - percent) / 100 + TOP;
        let _ = write!(
            drawn,
            "<text x=\"0\" y=\"{}\">{percent} %</text><path d=\"M{LEFT} {y}h{WIDTH}\" stroke=\"#8884\"/>",
            y + 4
        );
    }
    let (width, height) = (LEFT + WIDTH, CURVES + TOP + 22);
    let axis = axis(outcome, CURVES + TOP + 18);
    format!(
        "<h3>{heading}</h3>\n<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{heading}, over time\">\
         {drawn}{axis}</svg>\n"
    )
}

/// Seconds below a picture.
fn axis(outcome: &Outcome, y: usize) -> String {
    (0..=4).fold(String::new(), |mut axis, quarter| {
        let anchor = ["start", "middle", "middle", "middle", "end"][quarter];
        let x = LEFT + WIDTH * quarter / 4;
        let seconds = outcome.makespan_s * quarter as f64 / 4.0;
        let places = usize::from(outcome.makespan_s < 40.0);
        let _ =
            write!(axis, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{seconds:.places$} s</text>");
        axis
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_sched::outcome::{Point, Segment};
    use homing_sched::JobId;

    #[test]
    fn cpus_with_the_same_jobs_are_one_block_and_nothing_breaks_out() {
        let mut outcome = Outcome::default();
        outcome.makespan_s = 9.0;
        let segment = |cpu, job, from_s, to_s| Segment { cpu, job: JobId(job), from_s, to_s };
        outcome.segments = vec![segment(0, 0, 0.0, 9.0), segment(1, 0, 0.0, 9.0), segment(2, 1, 0.0, 3.0)];
        let point = |at_s, local| Point { at_s, job: JobId(0), local, cpus: 0 };
        outcome.locality = vec![point(0.0, 1.0), point(9.0, 0.5)];
        let json = serde_json::json!({ "name": "</script>" });
        let page = page_of_one("a", "b", &outcome, &["<x>", "y"], "how", &json);
        assert!(page.contains("M48 0h900v35h-900z") && page.contains("M48 36h300v17h-300z"), "{page}");
        assert!(page.contains("<title>&lt;x&gt;</title>") && page.contains("<title>y</title>"));
        assert!(
            page.contains("points=\"48,10.0 948,70.0\"") && page.contains("<title>all jobs</title>"),
            "{page}"
        );
        assert_eq!(page.matches("</script>").count(), 1);
        let policy =
            page.find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style").unwrap();
        assert!(policy < page.find("<title>").unwrap() && policy < page.find("<script").unwrap());
    }
}
