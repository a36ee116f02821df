//! From a machine's fields to its costs at one page size, with the constraints of Bolosky & Scott 1991, section 2.1:
//! r > 1, g > 1, R > 2r, G > 2g, r >= g and G <= R <= 2G.

use super::spec::{Cpus, Figure, Latency, Linear, MoveCost, Reference, WORD};
use super::{Costs, General, Global, Machine, MachineError, Uniform};
use crate::ids::{Node, PageSize};

impl Machine {
    /// What accesses and page moves cost at a page size. Matrices whose distances are all equal give the uniform model.
    pub fn costs(&self, page_size: PageSize) -> Result<Costs, MachineError> {
        self.check_nodes()?;
        self.checked_page_size()?;
        match (&self.spec.reference, &self.spec.latency) {
            (Some(reference), None) => self.reference_costs(reference, page_size.bytes()),
            (None, Some(latency)) => self.latency_costs(latency, page_size.bytes()),
            (Some(_), Some(_)) => {
                Err(self.field("latency", "given beside `reference`", "one of the two sections"))
            }
            (None, None) => Err(self.field("reference", "missing", "a section [reference] or [latency]")),
        }
    }

    fn reference_costs(&self, reference: &Reference, bytes: u64) -> Result<Costs, MachineError> {
        let copy = self.move_cost(&reference.page_move, "reference.page_move", bytes)?;
        let global = match (reference.global, &reference.global_page_move) {
            (None, None) => None,
            (Some(access), Some(cost)) => {
                let page_move = self
                    .move_cost(cost, "reference.global_page_move", bytes)?
                    .one()
                    .ok_or_else(|| self.field("reference.global_page_move", "a matrix", "one number (G)"))?;
                Some(Global { access, page_move })
            }
            (Some(_), None) => {
                return Err(self.field("reference.global_page_move", "missing", "G, as `global` is given"))
            }
            (None, Some(_)) => {
                return Err(self.field("reference.global", "missing", "g, as `global_page_move` is given"))
            }
        };
        match (reference.remote, &reference.access) {
            (Some(remote), None) => {
                let page_move = copy.one().ok_or_else(|| {
                    self.field("reference.page_move", "a matrix", "one number (R) beside `remote`")
                })?;
                self.uniform("reference", Uniform { nodes: self.nodes(), remote, page_move, global })
            }
            (None, Some(matrix)) if global.is_none() => {
                self.matrix_costs("reference", "access", matrix, copy, Some(1.0))
            }
            (None, Some(_)) => Err(self.field(
                "reference.global",
                "given beside `access`",
                "a memory-only node in the matrix instead",
            )),
            (Some(_), Some(_)) => {
                Err(self.field("reference.access", "given beside `remote`", "one of the two"))
            }
            (None, None) => {
                Err(self.field("reference.remote", "missing", "r, or a matrix `access` of all pairs"))
            }
        }
    }

    fn latency_costs(&self, latency: &Latency, bytes: u64) -> Result<Costs, MachineError> {
        let copy = self.move_cost(&latency.page_move, "latency.page_move", bytes)?;
        match (latency.local, latency.remote, &latency.matrix) {
            (Some(local), Some(remote), None) => {
                self.positive("latency.local", local)?;
                let page_move = copy.one().ok_or_else(|| {
                    self.field("latency.page_move", "a matrix", "one number of nanoseconds beside `remote`")
                })? / local;
                let uniform =
                    Uniform { nodes: self.nodes(), remote: remote / local, page_move, global: None };
                self.uniform("latency", uniform)
            }
            (None, None, Some(matrix)) => self.matrix_costs("latency", "matrix", matrix, copy, None),
            (_, _, Some(_)) => {
                Err(self.field("latency.matrix", "given beside `local` or `remote`", "one of the two forms"))
            }
            (None, _, None) => Err(self.field("latency.local", "missing", "nanoseconds, or a `matrix`")),
            (_, None, None) => Err(self.field("latency.remote", "missing", "nanoseconds, or a `matrix`")),
        }
    }

    /// Costs from a matrix in any unit; `unit` is one local reference, or the fastest access of a node with CPUs to its
    /// own memory.
    fn matrix_costs(
        &self,
        section: &str,
        name: &str,
        matrix: &[Vec<f64>],
        copy: Priced,
        unit: Option<f64>,
    ) -> Result<Costs, MachineError> {
        let nodes = usize::from(self.nodes());
        let field = format!("{section}.{name}");
        let mut access = self.flat(&field, matrix)?;
        let own = |i: usize| self.cpus_of(Node(i as u16)) > 0;
        let fastest =
            (0..nodes).filter(|&i| own(i)).map(|i| access[i * nodes + i]).fold(f64::INFINITY, f64::min);
        let unit = unit.unwrap_or(fastest);
        access.iter_mut().for_each(|a| *a /= unit);
        let mut costs = match copy {
            Priced::One(cost) => vec![cost / unit; nodes * nodes],
            Priced::Matrix(costs) => costs.into_iter().map(|c| c / unit).collect(),
        };
        (0..nodes).for_each(|i| costs[i * nodes + i] = 0.0);
        let remote: Vec<usize> = (0..nodes * nodes).filter(|i| i / nodes != i % nodes).collect();
        let equal = |of: &[f64]| remote.iter().all(|&i| of[i] == of[remote[0]]);
        let local = (0..nodes).all(|i| !own(i) || access[i * nodes + i] == 1.0);
        // Where no access is remote (emulated nodes), moves are still priced: a general machine on which none pays.
        if nodes > 1 && local && equal(&access) && equal(&costs) && access[remote[0]] > 1.0 {
            let (remote, page_move) = (access[remote[0]], costs[remote[0]]);
            return self.uniform(section, Uniform { nodes: self.nodes(), remote, page_move, global: None });
        }
        Ok(Costs::General(General { nodes: self.nodes(), access, copy: costs }))
    }

    pub(super) fn uniform(&self, section: &str, u: Uniform) -> Result<Costs, MachineError> {
        let check = |ok: bool, name: &str, found: f64, expected: String| {
            let found = format!("{found} local references");
            if ok {
                Ok(())
            } else {
                Err(self.field(&format!("{section}.{name}"), &found, &expected))
            }
        };
        let r = u.remote;
        check(r.is_finite() && r > 1.0, "remote", r, "r > 1".into())?;
        let big = u.page_move;
        check(big.is_finite() && big > 2.0 * r, "page_move", big, format!("R > 2r = {}", 2.0 * r))?;
        if let Some(global) = u.global {
            let (g, copy) = (global.access, global.page_move);
            check(g.is_finite() && g > 1.0, "global", g, "g > 1".into())?;
            check(g <= r, "global", g, format!("g <= r = {r}"))?;
            let name = "global_page_move";
            check(copy.is_finite() && copy > 2.0 * g, name, copy, format!("G > 2g = {}", 2.0 * g))?;
            let within = copy <= big && big <= 2.0 * copy;
            check(within, "page_move", big, format!("G <= R <= 2G, from {copy} to {}", 2.0 * copy))?;
        }
        Ok(Costs::Uniform(u))
    }

    fn check_nodes(&self) -> Result<(), MachineError> {
        let nodes = self.nodes();
        if !(1..=1024).contains(&nodes) {
            return Err(self.field("nodes", &nodes.to_string(), "1 to 1024"));
        }
        if let Cpus::List(list) = &self.spec.cpus_per_node {
            if list.len() != usize::from(nodes) {
                let found = format!("a list of {}", list.len());
                return Err(self.field(
                    "cpus_per_node",
                    &found,
                    &format!("one number for each of {nodes} nodes"),
                ));
            }
        }
        if !(1..=u32::from(u16::MAX)).contains(&self.cpus()) {
            let found = format!("{} CPUs in all", self.cpus());
            return Err(self.field("cpus_per_node", &found, "1 to 65535 CPUs in all"));
        }
        Ok(())
    }

    fn move_cost(&self, cost: &MoveCost, field: &str, bytes: u64) -> Result<Priced, MachineError> {
        let linear = match cost {
            MoveCost::Fixed(cost) => return self.positive(field, *cost).map(|()| Priced::One(*cost)),
            MoveCost::Linear(linear) => linear,
        };
        let Linear { per_byte, per_word, overhead } = linear;
        if !(overhead.is_finite() && *overhead >= 0.0) {
            return Err(self.field(&format!("{field}.overhead"), &overhead.to_string(), "0 or more"));
        }
        let (name, figure, units) = match (per_byte, per_word) {
            (Some(figure), None) => ("per_byte", figure, bytes),
            (None, Some(figure)) => ("per_word", figure, bytes / WORD),
            _ => return Err(self.field(field, "not complete", "one of `per_byte` and `per_word`")),
        };
        let field = format!("{field}.{name}");
        let price = |figure: f64| figure * units as f64 + overhead;
        match figure {
            Figure::One(figure) => {
                // A copy may take the same time whatever its size, but it takes some.
                if *figure == 0.0 {
                    self.positive(&field, *overhead)?;
                } else {
                    self.positive(&field, *figure)?;
                }
                Ok(Priced::One(price(*figure)))
            }
            Figure::Matrix(rows) => {
                Ok(Priced::Matrix(self.flat(&field, rows)?.into_iter().map(price).collect()))
            }
        }
    }

    /// A nodes x nodes matrix of positive numbers, row by row.
    fn flat(&self, field: &str, rows: &[Vec<f64>]) -> Result<Vec<f64>, MachineError> {
        let nodes = usize::from(self.nodes());
        let expected = format!("{nodes} rows of {nodes} numbers, as `nodes` is {nodes}");
        if rows.len() != nodes {
            return Err(self.field(field, &format!("{} rows", rows.len()), &expected));
        }
        for (i, row) in rows.iter().enumerate() {
            let field = format!("{field}[{i}]");
            if row.len() != nodes {
                return Err(self.field(&field, &format!("{} numbers", row.len()), &expected));
            }
            for (j, &value) in row.iter().enumerate() {
                self.positive(&format!("{field}[{j}]"), value)?;
            }
        }
        Ok(rows.concat())
    }

    pub(super) fn positive(&self, field: &str, value: f64) -> Result<(), MachineError> {
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(self.field(field, &value.to_string(), "a finite number above 0"))
    }

    pub(super) fn field(&self, field: &str, found: &str, expected: &str) -> MachineError {
        MachineError::Field {
            file: self.file.clone(),
            field: field.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// The cost of a page move at one page size.
enum Priced {
    One(f64),
    /// nodes x nodes, from (row) to (column).
    Matrix(Vec<f64>),
}

impl Priced {
    fn one(&self) -> Option<f64> {
        match self {
            Priced::One(cost) => Some(*cost),
            Priced::Matrix(_) => None,
        }
    }
}
