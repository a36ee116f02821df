//! A process that is asked lines and answers lines, with every wait bounded. Threads do the reading and the writing, so
//! that neither a full pipe nor a silent process can hold the caller.

use homing_linux::child;
use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// An answer longer than this is no answer.
const LONGEST_LINE: u64 = 1 << 28;
/// Time that a process gets to end by itself once its input has.
const PATIENCE: Duration = Duration::from_secs(1);

/// The process. Dropped, it sees the end of its input, and is killed if it does not end soon. It dies with homing, however
/// homing ends.
pub struct Process {
    command: String,
    child: Child,
    questions: Option<Sender<String>>,
    answers: Receiver<String>,
    /// Lets the thread end that has spawned the process: last of all.
    _spawner: Sender<Infallible>,
}

impl Process {
    /// Starts a command of words separated by blanks. What it writes to stderr goes to ours.
    pub fn start(command: &str) -> Result<Process, String> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("no command; expected external:COMMAND")?;
        let mut to_start = Command::new(program);
        to_start.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        child::dying_with_us(&mut to_start);
        let (child, spawner) = spawn(to_start);
        let mut child = child.map_err(|e| format!("cannot start `{program}`: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else { return Err("it has no pipes".into()) };
        let (questions, to_write) = channel::<String>();
        let (to_read, answers) = channel();
        // Both threads end with the pipes: a process that died closes them.
        thread::spawn(move || {
            for line in to_write {
                if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        });
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(read) if read > 0 && line.last() == Some(&b'\n') => {}
                    _ => return,
                }
                if to_read.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Process {
            command: command.to_owned(),
            child,
            questions: Some(questions),
            answers,
            _spawner: spawner,
        })
    }

    /// Sends a line and waits for one.
    pub fn exchange(&mut self, question: &str, timeout: Duration) -> Result<String, String> {
        if let Some(questions) = &self.questions {
            // A failed send means that the process has closed its input; the answer, or its absence, tells.
            let _ = questions.send(format!("{question}\n"));
        }
        match self.answers.recv_timeout(timeout) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no answer within {} s; --external-timeout allows more", timeout.as_secs_f64()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(match self.wait(PATIENCE) {
                Some(status) => format!("ended before it answered ({status})"),
                None => "closed its output before it answered".into(),
            }),
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if begin.elapsed() < patience => thread::sleep(Duration::from_millis(5)),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.questions = None;
        if self.wait(PATIENCE).is_none() {
            // Already gone is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
            errln!(
                "homing: external policy `{}`: did not end within {} s of the end of its input; it was killed",
                self.command,
                PATIENCE.as_secs()
            );
        }
    }
}

/// Spawns from a thread that lives until what is returned beside the child is dropped: the kernel takes a thread's end for that of
/// its children's parent, and whoever asks for a policy may be a thread that ends sooner.
fn spawn(mut command: Command) -> (io::Result<Child>, Sender<Infallible>) {
    let (spawner, over) = channel::<Infallible>();
    let (done, child) = channel();
    thread::spawn(move || {
        // Neither end of this channel is dropped sooner.
        let _ = done.send(command.spawn());
        drop(command);
        let _ = over.recv();
    });
    let child = child.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has ended")));
    (child, spawner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_outlives_the_thread_that_asks_for_it() {
        let mut cat = thread::spawn(|| Process::start("cat").unwrap()).join().unwrap();
        for question in ["one", "two"] {
            assert_eq!(cat.exchange(question, Duration::from_secs(60)), Ok(format!("{question}\n")));
        }
    }
}
