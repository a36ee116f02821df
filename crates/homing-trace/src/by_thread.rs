//! Values by thread. A recorder or a file may give a thread any number: memory goes by how many threads there are.

use crate::ids::Thread;
use std::collections::BTreeMap;

/// Threads below this are looked up in an array.
const NEAR: usize = 1 << 12;

/// A value for each of some threads.
#[derive(Clone, Debug)]
pub struct ByThread<T> {
    near: Vec<Option<T>>,
    far: BTreeMap<Thread, T>,
}

impl<T> Default for ByThread<T> {
    fn default() -> Self {
        ByThread { near: Vec::new(), far: BTreeMap::new() }
    }
}

impl<T> ByThread<T> {
    /// The value of a thread, made by `new` if there is none.
    #[inline]
    pub fn get_or_insert_with(&mut self, thread: Thread, new: impl FnOnce() -> T) -> &mut T {
        if thread.index() >= NEAR {
            return self.far.entry(thread).or_insert_with(new);
        }
        if self.near.len() <= thread.index() {
            self.near.resize_with(thread.index() + 1, || None);
        }
        self.near[thread.index()].get_or_insert_with(new)
    }

    /// The value of a thread, if there is one.
    #[inline]
    pub fn get_mut(&mut self, thread: Thread) -> Option<&mut T> {
        match self.near.get_mut(thread.index()) {
            Some(value) => value.as_mut(),
            None => self.far.get_mut(&thread),
        }
    }

    /// Takes the value of a thread out.
    pub fn remove(&mut self, thread: Thread) -> Option<T> {
        match self.near.get_mut(thread.index()) {
            Some(value) => value.take(),
            None => self.far.remove(&thread),
        }
    }

    /// The threads that have a value, with it, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Thread, &T)> {
        let near = self.near.iter().enumerate();
        let near = near.filter_map(|(number, value)| Some((Thread(number as u32), value.as_ref()?)));
        near.chain(self.far.iter().map(|(&thread, value)| (thread, value)))
    }

    /// The same, to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Thread, &mut T)> {
        let near = self.near.iter_mut().enumerate();
        let near = near.filter_map(|(number, value)| Some((Thread(number as u32), value.as_mut()?)));
        near.chain(self.far.iter_mut().map(|(&thread, value)| (thread, value)))
    }

    /// Whether no thread has a value.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<T> FromIterator<(Thread, T)> for ByThread<T> {
    fn from_iter<I: IntoIterator<Item = (Thread, T)>>(values: I) -> Self {
        let mut all = ByThread::default();
        for (thread, value) in values {
            all.remove(thread);
            all.get_or_insert_with(thread, || value);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_has_a_value_and_all_come_in_order() {
        let numbers = [7, u32::MAX, 0, NEAR as u32, NEAR as u32 - 1, 1 << 31];
        let mut all: ByThread<u32> = numbers.iter().map(|&number| (Thread(number), number)).collect();
        let mut sorted = numbers;
        sorted.sort_unstable();
        assert!(all.iter().map(|(thread, &value)| (thread.0, value)).eq(sorted.iter().map(|&n| (n, n))));
        assert!(all.iter_mut().all(|(thread, value)| thread.0 == *value));
        assert_eq!(*all.get_or_insert_with(Thread(7), || 9), 7);
        assert_eq!(*all.get_or_insert_with(Thread(8), || 9), 9);
        assert!(all.get_mut(Thread(9)).is_none() && all.get_mut(Thread(1 << 30)).is_none());
        for number in numbers.into_iter().chain([8]) {
            assert!(all.remove(Thread(number)).is_some() && all.remove(Thread(number)).is_none());
        }
        assert!(all.is_empty() && all.near.len() <= NEAR);
    }
}
