//! One file per subcommand.

pub mod machines;
