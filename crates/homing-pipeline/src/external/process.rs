//! A process that is asked lines and answers lines, with every wait bounded. Threads do the reading and the writing, so
//! that neither a full pipe nor a silent process can hold the caller.

use homing_linux::{child, wait};
use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Time that a process gets to end by itself once its input has.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a process has to do, for errors.
const EXPECTED: &str =
    "expected one line for each question, after it was read, and nothing else; stderr is for all else";

/// The process. Dropped, it sees the end of its input, and is killed if it does not end soon. It dies with homing,
/// however homing ends.
pub struct Process {
    command: String,
    child: Child,
    /// Its input and output, to see what is in them.
    pipes: Option<(OwnedFd, OwnedFd)>,
    questions: Option<Sender<String>>,
    /// A word for each question that was written.
    written: Receiver<()>,
    /// Asks for an answer of at most `limit` bytes.
    wanted: Option<Sender<u64>>,
    answers: Receiver<Result<String, String>>,
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
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("it has no pipes".into());
        };
        let copies = (stdin.as_fd().try_clone_to_owned(), stdout.as_fd().try_clone_to_owned());
        let (Ok(input), Ok(output)) = copies else { return Err("too many open files".into()) };
        let (questions, to_write) = channel();
        let (done, written) = channel();
        let (wanted, to_want) = channel();
        let (to_read, answers) = channel();
        // Both threads end with the pipes: a process that died closes them.
        thread::spawn(move || write(stdin, &to_write, &done));
        thread::spawn(move || read(stdout, &to_want, &to_read));
        Ok(Process {
            command: command.to_owned(),
            child,
            pipes: Some((input, output)),
            questions: Some(questions),
            written,
            wanted: Some(wanted),
            answers,
            _spawner: spawner,
        })
    }

    /// Sends a line and waits for one of at most `longest` bytes.
    pub fn exchange(&mut self, question: &str, longest: u64, timeout: Duration) -> Result<String, String> {
        let begin = Instant::now();
        self.is_silent()?;
        // A failed send means that the process has closed a pipe; the answer, or its absence, tells.
        let _ = self.questions.as_ref().map(|questions| questions.send(format!("{question}\n")));
        let _ = self.wanted.as_ref().map(|wanted| wanted.send(longest));
        match self.answers.recv_timeout(timeout) {
            Ok(answer) => self.after_the_question(answer?, timeout.saturating_sub(begin.elapsed())),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("no answer within {} s; --external-timeout allows more", timeout.as_secs_f64()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(match self.wait(PATIENCE) {
                Some(status) => format!("ended before it answered ({status})"),
                None => "closed its output before it answered".into(),
            }),
        }
    }

    /// Fails if the process has written something that nobody has asked for.
    fn is_silent(&self) -> Result<(), String> {
        let Some((_, output)) = &self.pipes else { return Ok(()) };
        match wait::readable(&[output.as_fd()], Duration::ZERO) {
            Ok(ready) if ready.is_empty() => Ok(()),
            Ok(_) => Err(format!("wrote to its output before it was asked: {EXPECTED}")),
            Err(error) => Err(format!("its output cannot be watched: {error}")),
        }
    }

    /// The answer, unless the process has not read all of the question.
    fn after_the_question(&self, answer: String, patience: Duration) -> Result<String, String> {
        let Some((input, _)) = &self.pipes else { return Ok(answer) };
        let written = self.written.recv_timeout(patience).is_ok();
        match wait::unread(input.as_fd()) {
            Ok(0) if written => Ok(answer),
            Ok(_) => {
                let shown: String = answer.trim_end().chars().take(200).collect();
                Err(format!("answered `{shown}` before it had read the question: {EXPECTED}"))
            }
            Err(error) => Err(format!("its input cannot be watched: {error}")),
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

/// Writes questions until there are no more, or the process has closed its input.
fn write(mut stdin: ChildStdin, questions: &Receiver<String>, written: &Sender<()>) {
    for line in questions {
        if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() || written.send(()).is_err()
        {
            return;
        }
    }
}

/// Reads a line for each that is wanted, until the process has closed its output or gone on at length.
fn read(stdout: ChildStdout, wanted: &Receiver<u64>, answers: &Sender<Result<String, String>>) {
    let mut reader = BufReader::new(stdout);
    for longest in wanted {
        let mut line = Vec::new();
        // One byte beyond tells a line that is too long from one that is not.
        let read = (&mut reader).take(longest.saturating_add(1)).read_until(b'\n', &mut line);
        let answer = match read {
            Ok(_) if line.len() as u64 > longest => {
                Err(format!("its answer is longer than {longest} bytes, the most that is read: {EXPECTED}"))
            }
            Ok(_) if line.last() != Some(&b'\n') => return,
            Ok(_) if !reader.buffer().is_empty() => {
                Err(format!("wrote more than one line for a question: {EXPECTED}"))
            }
            Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
            Err(_) => return,
        };
        let over = answer.is_err();
        if answers.send(answer).is_err() || over {
            return;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        (self.questions, self.wanted, self.pipes) = (None, None, None);
        if self.wait(PATIENCE).is_none() {
            // Already gone is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
            homing_linux::errln!(
                "homing: external policy `{}`: did not end within {} s of the end of its input; it was killed",
                self.command,
                PATIENCE.as_secs()
            );
        }
    }
}

/// Spawns from a thread that lives until what is returned beside the child is dropped: the kernel takes a thread's end
/// for that of its children's parent, and whoever asks for a policy may be a thread that ends sooner.
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

    /// What two questions to a shell script end in.
    fn asked(script: &str, longest: u64) -> Result<String, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, script).unwrap();
        let mut process = Process::start(&format!("sh {}", file.path().display())).unwrap();
        let mut ask = |question| process.exchange(question, longest, Duration::from_secs(60));
        ask("one").and_then(|_| ask("two"))
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_refused() {
        let good = "read -r q; echo a$q; read -r q; echo b$q";
        assert_eq!(asked(good, 6), Ok("btwo\n".to_owned()));
        assert!(asked(good, 4).unwrap_err().contains("longer than 4 bytes"));
        // It ends, and does not have to be killed: nobody reads what it writes.
        assert!(asked("read -r q; exec cat /dev/zero", 1 << 16).unwrap_err().contains("longer than 65536"));
        let twice = asked("read -r q; printf 'a\\nb\\n'; read -r q", 100).unwrap_err();
        assert!(twice.contains("expected one line for each question"), "{twice}");
        // It may have answered before or after the question was sent.
        let unread = asked("echo a; exec sleep 600", 100).unwrap_err();
        assert!(
            unread.contains("before it had read the question") || unread.contains("before it was asked"),
            "{unread}"
        );
    }

    #[test]
    fn what_comes_before_the_question_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ready) = (folder.path().join("early.sh"), folder.path().join("ready"));
        std::fs::write(&file, format!("echo early; : >{}; exec cat >/dev/null", ready.display())).unwrap();
        let mut process = Process::start(&format!("sh {}", file.display())).unwrap();
        let begin = Instant::now();
        while !ready.exists() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(5));
        }
        let refused = process.exchange("one", 100, Duration::from_secs(60)).unwrap_err();
        assert!(refused.contains("before it was asked"), "{refused}");
    }

    #[test]
    fn the_process_outlives_the_thread_that_asks_for_it() {
        let mut cat = thread::spawn(|| Process::start("cat").unwrap()).join().unwrap();
        for question in ["one", "two"] {
            assert_eq!(cat.exchange(question, 100, Duration::from_secs(60)), Ok(format!("{question}\n")));
        }
    }
}
