//! Who is shown how far something is.

/// Shows how far one thing is, until it is dropped.
pub trait Bar: Send + Sync {
    /// That much more is done.
    fn advance(&self, done: u64);

    /// It begins again.
    fn restart(&self);
}

/// Begins to show how far something is: how much there is to do, and what it is.
pub type Show = fn(total: u64, what: &'static str) -> Box<dyn Bar>;

/// Shows nothing.
pub fn hidden(_total: u64, _what: &'static str) -> Box<dyn Bar> {
    struct Hidden;
    impl Bar for Hidden {
        fn advance(&self, _done: u64) {}
        fn restart(&self) {}
    }
    Box::new(Hidden)
}
