//! One file per subcommand.

pub mod bench;
pub mod compare;
pub mod daemon;
pub mod doctor;
pub mod flags;
pub mod lab;
pub mod live;
pub mod machines;
pub mod manual;
pub mod monitors;
pub mod optimal;
pub mod policies;
pub mod record;
pub mod replay;
pub mod reproduce;
pub mod simulate;
pub mod study;
pub mod top;
pub mod trace;
