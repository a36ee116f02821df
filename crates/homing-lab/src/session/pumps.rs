//! The commands' streams, copied while they run.

use crate::machine::Streams;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Where the command's input comes from and its output goes.
pub struct Ends {
    /// Its input; none, if there is nothing.
    pub input: Option<Box<dyn Read + Send>>,
    /// Its output.
    pub output: Box<dyn Write + Send>,
    /// Its errors.
    pub errors: Box<dyn Write + Send>,
}

/// Threads that copy between the commands' streams and the ends of the job that runs.
#[derive(Default)]
pub struct Pumps {
    output: Vec<Pump>,
    /// Until a job has an input.
    stdin: Option<UnixStream>,
    /// Shut down at the end of the input, but held open: QEMU drops what it has not read of a stream that is closed.
    _held: Option<UnixStream>,
}

impl Pumps {
    /// Begins to copy; what comes before the first turn goes nowhere.
    pub fn start(streams: Streams) -> Pumps {
        let Streams { stdin, stdout, stderr } = streams;
        let held = stdin.try_clone().ok();
        Pumps { output: vec![Pump::start(stdout), Pump::start(stderr)], stdin: Some(stdin), _held: held }
    }

    /// From now on the streams are those of another job. All that the one before wrote has gone through.
    pub fn turn(&mut self, ends: Ends) {
        if let Some(input) = ends.input {
            if let Some(stdin) = self.stdin.take() {
                // It may wait for input for ever; the end of this program ends it.
                drop(std::thread::spawn(move || copy_input(input, stdin)));
            }
        }
        for (pump, to) in self.output.iter().zip([ends.output, ends.errors]) {
            if let Ok(mut end) = pump.end.lock() {
                *end = to;
            }
        }
    }

    /// Whether this many bytes of stdout and of stderr have gone through.
    pub fn copied(&self, sent: [u64; 2]) -> bool {
        self.output
            .iter()
            .zip(sent)
            .all(|(pump, sent)| pump.thread.is_finished() || pump.copied.load(Relaxed) >= sent)
    }

    /// All that the commands wrote has been copied when QEMU is gone and its ends of the streams with it.
    pub fn finish(self) {
        for pump in self.output {
            // A panic in it has been reported.
            let _ = pump.thread.join();
        }
    }
}

fn copy_input(mut from: Box<dyn Read + Send>, mut to: UnixStream) {
    // The command may end before its input does.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// A thread that copies one stream.
struct Pump {
    thread: JoinHandle<()>,
    copied: Arc<AtomicU64>,
    end: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl Pump {
    fn start(mut from: UnixStream) -> Pump {
        let copied = Arc::new(AtomicU64::new(0));
        let end: Arc<Mutex<Box<dyn Write + Send>>> = Arc::new(Mutex::new(Box::new(std::io::sink())));
        let (count, to) = (Arc::clone(&copied), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 14];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let Ok(mut to) = to.lock() else { return };
                // If nobody reads our output, the command still runs to its end.
                let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
                count.fetch_add(length as u64, Relaxed);
            }
        });
        Pump { thread, copied, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// What one job wrote, for the test to read.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_job_has_its_own_ends() {
        let pairs = [(); 3].map(|()| UnixStream::pair().unwrap());
        let [(stdin, mut read), (stdout, mut out), (stderr, _err)] = pairs;
        let mut pumps = Pumps::start(Streams { stdin, stdout, stderr });
        let kept = [(); 2].map(|()| Kept::default());
        let mut sent = 0;
        for (number, kept) in kept.iter().enumerate() {
            let input = (number == 1).then(|| Box::new(&b"given"[..]) as Box<dyn Read + Send>);
            pumps.turn(Ends { input, output: Box::new(kept.clone()), errors: Box::new(std::io::sink()) });
            write!(out, "job {number}").unwrap();
            sent += 5;
            let begin = Instant::now();
            while !pumps.copied([sent, 0]) {
                assert!(begin.elapsed() < Duration::from_secs(60), "it never comes");
                std::thread::yield_now();
            }
        }
        assert_eq!(kept.map(|kept| kept.0.lock().unwrap().clone()), [b"job 0".to_vec(), b"job 1".to_vec()]);
        let mut given = String::new();
        read.read_to_string(&mut given).unwrap();
        assert_eq!(given, "given", "the input of the job that has one, and its end");
        drop((out, _err));
        pumps.finish();
    }
}
