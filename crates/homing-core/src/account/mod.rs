//! What a placement costs: the reference model here, the memory-system model beside it later.

pub mod charges;
pub mod cost;

pub use charges::Charges;
pub use cost::Account;
