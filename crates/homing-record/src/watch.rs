//! Who looks at a recording while it runs.

/// Who looks at a recording while it runs. Several threads call it.
pub trait Watch: Send + Sync {
    /// A line for the user: a warning, or what a recorder says.
    fn say(&self, line: &str);

    /// How far the recording is: references, and bytes of the trace. Comes often.
    fn progress(&self, references: u64, bytes: u64);

    /// The program has ended: there is no more progress.
    fn ended(&self);
}
