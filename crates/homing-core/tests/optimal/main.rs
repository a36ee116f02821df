//! The off-line optimum against an exhaustive search over all location sets, against the theorems of Bolosky & Scott
//! 1991, section 2.5, and against examples worked by hand.

mod cases;
mod curves;
mod evaluate;
mod examples;
mod exhaustive;
mod load;
mod properties;
mod windows;
mod windows_policies;
