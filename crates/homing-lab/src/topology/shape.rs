//! Distances of regular machines.

/// How the nodes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each with each.
    Full,
    /// Each with the next, the last with the first.
    Ring,
    /// Rows and columns, as square as the number of nodes allows.
    Mesh,
    /// Nodes whose numbers differ in one bit; for a power of two of nodes.
    Hypercube,
}

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        match text {
            "full" => Ok(Shape::Full),
            "ring" => Ok(Shape::Ring),
            "mesh" => Ok(Shape::Mesh),
            "hypercube" => Ok(Shape::Hypercube),
            _ => Err(format!("`{text}` is no shape: expected full, ring, mesh or hypercube")),
        }
    }
}

impl Shape {
    /// The distance matrix: 10 to the node itself, 10 more for each hop.
    pub fn distances(self, nodes: usize) -> Result<Vec<Vec<u8>>, String> {
        if self == Shape::Hypercube && !nodes.is_power_of_two() {
            return Err(format!("a hypercube of {nodes} nodes: expected a power of two"));
        }
        let columns = (1..=nodes).rfind(|c| nodes.is_multiple_of(*c) && c * c <= nodes).unwrap_or(1);
        let hops = |a: usize, b: usize| match self {
            Shape::Full => usize::from(a != b),
            Shape::Ring => a.abs_diff(b).min(nodes - a.abs_diff(b)),
            Shape::Mesh => (a / columns).abs_diff(b / columns) + (a % columns).abs_diff(b % columns),
            Shape::Hypercube => (a ^ b).count_ones() as usize,
        };
        let distance = |a, b| u8::try_from(10 + 10 * hops(a, b)).map_err(|_| "too many hops".to_owned());
        (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect()
    }
}
