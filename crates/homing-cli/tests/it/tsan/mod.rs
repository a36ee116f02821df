//! The runtime of the recorder for recompiled programs, and programs in C, C++ and Fortran that are built against it.

pub mod build;
pub mod races;
pub mod wire;
