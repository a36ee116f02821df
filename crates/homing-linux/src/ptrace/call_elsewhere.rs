//! System calls in a thread's name, on processors whose registers this program does not know: always refused.

use crate::proc::{Pid, Proc, Tid};
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::time::Instant;

/// There is none on this processor.
#[derive(Debug)]
pub struct Caller<'a>(Infallible, PhantomData<&'a File>);

impl<'a> Caller<'a> {
    /// Refused.
    pub fn of(
        proc: &'a Proc,
        pid: Pid,
        _tid: Tid,
        memory: &'a File,
        _deadline: Instant,
    ) -> io::Result<Caller<'a>> {
        Caller::of_any(proc, pid, memory)
    }

    /// Refused.
    pub fn of_helper(proc: &'a Proc, helper: Pid, memory: &'a File) -> io::Result<Caller<'a>> {
        Caller::of_any(proc, helper, memory)
    }

    /// Needs a caller.
    pub fn exit(self) -> io::Result<()> {
        match self.0 {}
    }

    /// Refused.
    pub fn of_any(_proc: &'a Proc, _pid: Pid, _memory: &'a File) -> io::Result<Caller<'a>> {
        let message = "system calls in a thread's name are made on x86-64 only";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    /// Needs a caller.
    pub fn memory(&self) -> &'a File {
        match self.0 {}
    }

    /// Needs a caller.
    pub fn call(&mut self, _number: i64, _arguments: &[u64]) -> io::Result<u64> {
        match self.0 {}
    }

    /// Needs a caller.
    pub fn call_code(&mut self, _code: u64, _r12: u64) -> io::Result<u64> {
        match self.0 {}
    }
}
