//! Who is told what happens in a lab.

/// Is told what happens in a lab.
pub trait Watch {
    /// Something that the user should know: a line for stderr.
    fn say(&self, line: &str);
}
