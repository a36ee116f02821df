//! Fitting a machine to measurements: latencies and bandwidths between nodes, as pointer-chasing and streaming programs
//! give.
//!
//! A latency becomes an entry of the matrix. From a bandwidth follows how long a part is busy with a line: the memory
//! where a node reads its own, the link where it reads another's (the slower of the two decides, so the larger is
//! kept). Several measurements of one pair are reduced to their median, which an interrupted one does not disturb.

use super::spec::Latency;
use super::{Machine, MachineError};
use crate::ids::Node;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One line of the file: columns `from`, `to`, `latency_ns`, `bandwidth_gbs`; one of the last two may be empty.
#[derive(Debug, Deserialize)]
struct Measured {
    from: u16,
    to: u16,
    latency_ns: Option<f64>,
    bandwidth_gbs: Option<f64>,
}

impl Machine {
    /// The machine with its latencies, and its busy times if it has any, as measured. `text` is CSV with columns `from`
    /// (node of the CPU), `to` (node of the memory), `latency_ns` and `bandwidth_gbs`; pairs that were not measured
    /// keep their values.
    pub fn calibrated(&self, text: &str) -> Result<Machine, MachineError> {
        let fail = |found: String, expected: &str| self.field("calibration", &found, expected);
        let nodes = usize::from(self.nodes());
        let mut latencies: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        let mut bandwidths: BTreeMap<bool, Vec<f64>> = BTreeMap::new();
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
        for row in reader.deserialize() {
            let row: Measured =
                row.map_err(|e| fail(e.to_string(), "CSV lines from,to,latency_ns,bandwidth_gbs"))?;
            let pair = (usize::from(row.from), usize::from(row.to));
            if pair.0.max(pair.1) >= nodes {
                return Err(fail(
                    format!("nodes {} and {}", pair.0, pair.1),
                    &format!("nodes 0 to {}", nodes - 1),
                ));
            }
            for value in [row.latency_ns, row.bandwidth_gbs].into_iter().flatten() {
                self.positive(&format!("calibration[{}, {}]", pair.0, pair.1), value)?;
            }
            latencies.entry(pair).or_default().extend(row.latency_ns);
            bandwidths.entry(pair.0 == pair.1).or_default().extend(row.bandwidth_gbs);
        }
        if latencies.values().chain(bandwidths.values()).all(Vec::is_empty) {
            return Err(fail("without measurements".into(), "CSV lines from,to,latency_ns,bandwidth_gbs"));
        }
        let costs = self.costs(self.page_size())?;
        let local = self.local_ns().ok_or_else(|| {
            fail(
                "a machine without [latency]".into(),
                "a machine in nanoseconds, since measurements are in them",
            )
        })?;
        let before = |i: usize, m: usize| costs.access(Node(i as u16), Node(m as u16)) * local;
        let now = |i, m| latencies.get(&(i, m)).and_then(|all| median(all)).unwrap_or_else(|| before(i, m));
        let matrix = (0..nodes).map(|i| (0..nodes).map(|m| now(i, m)).collect()).collect();
        let mut spec = self.spec.clone();
        let page_move = spec.latency.as_ref().map(|latency| latency.page_move.clone());
        let page_move = page_move.expect("local_ns() has found the section");
        spec.latency = Some(Latency { local: None, remote: None, matrix: Some(matrix), page_move });
        if let (Some(time), Some(hierarchy)) = (&mut spec.time, &spec.hierarchy) {
            // 1 GB/s is one byte a nanosecond.
            let busy = |own: bool| Some(hierarchy.l2.line as f64 / median(bandwidths.get(&own)?)?);
            time.memory_busy_ns = busy(true).unwrap_or(time.memory_busy_ns);
            time.link_busy_ns = busy(false).unwrap_or(time.link_busy_ns);
        }
        let machine = Machine { file: self.file.clone(), spec };
        machine.costs(machine.page_size())?;
        Ok(machine)
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = "from,to,latency_ns,bandwidth_gbs\n\
                            # an interrupted measurement among three\n\
                            0,0,90,64\n0,0,400,\n0,0,92,64\n0,1,150,32\n1,0,154,32\n";

    #[test]
    fn measurements_replace_what_they_cover() {
        let machine = Machine::builtin("two-socket").unwrap().calibrated(MEASURED).unwrap();
        assert_eq!(machine.local_ns(), Some(80.0), "node 1's own memory was not measured");
        let costs = machine.costs(machine.page_size()).unwrap();
        let ns = |i, m| costs.access(Node(i), Node(m)) * 80.0;
        assert_eq!((ns(0, 0), ns(0, 1), ns(1, 0)), (92.0, 150.0, 154.0));
        let time = machine.time().unwrap().unwrap();
        assert_eq!((time.memory_busy_ns, time.link_busy_ns), (1.0, 2.0));
        let again = Machine::from_toml(&machine.to_toml(), "again").unwrap();
        assert_eq!(again.costs(again.page_size()).unwrap(), costs);
    }

    #[test]
    fn wrong_measurements_are_refused() {
        let calibrate = |name: &str, rows: &str| {
            let text = format!("from,to,latency_ns,bandwidth_gbs\n{rows}\n");
            Machine::builtin(name).unwrap().calibrated(&text).unwrap_err().to_string()
        };
        assert!(calibrate("two-socket", "0,2,100,").contains("nodes 0 to 1"));
        assert!(calibrate("two-socket", "0,1,-5,").contains("calibration[0, 1]"));
        assert!(calibrate("two-socket", "0,x,100,").contains("CSV lines"));
        for nothing in ["", "0,1,,"] {
            assert!(calibrate("two-socket", nothing).contains("without measurements"));
        }
        assert!(calibrate("butterfly", "0,1,100,").contains("in nanoseconds"));
    }
}
