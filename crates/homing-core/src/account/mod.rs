//! What a placement costs: the reference model here, the memory-system model beside it later.

pub mod cost;

pub use cost::Account;
