//! One file per subcommand.

pub mod machines;
pub mod optimal;
pub mod trace;
