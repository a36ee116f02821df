//! The page on a terminal: keys, looks and drawing. Looking has a thread of its own, so keys are answered while a large
//! process is looked at. The terminal is put back however this ends: on return, on a panic of any thread, on a signal.

use super::app::App;
use super::draw::draw;
use crate::exit::{self, Code};
use anyhow::Context;
use homing_linux::interrupts::Interrupts;
use homing_linux::proc::{Pid, ProcError};
use homing_live::observe::snapshot::Snapshot;
use homing_live::observe::{Observer, Wanted};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::mem::ManuallyDrop;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// The longest wait for a key, so that looks and signals are noticed.
const NAP: Duration = Duration::from_millis(100);

/// Puts the terminal back when dropped. `ratatui::init` also does at a panic, before its message. What is inside is not
/// dropped: it would print a message to a terminal that went away, and panic where that fails.
struct Terminal(ManuallyDrop<ratatui::DefaultTerminal>);

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that went away needs no state.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Shows the page until the user leaves it, a signal comes, or the terminal goes away.
pub fn run(observer: Observer, app: &mut App, interval: Duration) -> anyhow::Result<()> {
    let caught = Interrupts::catch().context("cannot catch signals")?;
    let (orders, looks) = start(observer, app.only.clone());
    let mut terminal = Terminal(ManuallyDrop::new(ratatui::try_init().context("cannot use the terminal")?));
    let ended = follow(&mut terminal, app, interval, &caught, &orders, &looks);
    // A terminal can go away at any time, also between a check and a write, and then that write fails.
    if homing_linux::terminal::is_gone() {
        Ok(())
    } else {
        ended
    }
}

/// Draws what looks tell and answers keys, until the page ends.
fn follow(
    terminal: &mut Terminal,
    app: &mut App,
    interval: Duration,
    caught: &Interrupts,
    orders: &Sender<Wanted>,
    looks: &Receiver<Look>,
) -> anyhow::Result<()> {
    let events = events();
    let mut next = Instant::now();
    let mut asked = false;
    let mut changed = true;
    while caught.count() == 0 && !homing_linux::terminal::is_gone() {
        if !asked && Instant::now() >= next {
            asked = orders.send(app.wanted()).is_ok();
            next = Instant::now() + interval;
        }
        match looks.try_recv() {
            Ok(look) => {
                app.set(look.context("cannot look at processes")?);
                (asked, changed) = (false, true);
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(exit::error(Code::FAILURE, "looking at processes ended by a fault of homing"));
            }
        }
        if std::mem::take(&mut changed) {
            terminal.0.draw(|frame| draw(frame, app)).context("cannot draw on the terminal")?;
        }
        let nap = if asked { NAP / 5 } else { NAP.min(next.saturating_duration_since(Instant::now())) };
        match events.recv_timeout(nap) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(exit::error(Code::FAILURE, "reading keys ended by a fault of homing"));
            }
            Ok(event) => match event.context("cannot read keys")? {
                Event::Key(key) if key.kind == KeyEventKind::Release => {}
                Event::Key(key) if !app.key(key) => return Ok(()),
                _ => changed = true,
            },
        }
    }
    Ok(())
}

/// Keys and other events of the terminal, read by a thread of their own: reading from a terminal that went away does
/// not come back.
fn events() -> Receiver<std::io::Result<Event>> {
    let (sender, events) = channel();
    std::thread::spawn(move || loop {
        let event = event::read();
        let last = event.is_err();
        if sender.send(event).is_err() || last {
            return;
        }
    });
    events
}

type Look = Result<Snapshot, ProcError>;

/// Starts to look, once an order. Ends when the orders' sender is dropped.
fn start(mut observer: Observer, only: Vec<Pid>) -> (Sender<Wanted>, Receiver<Look>) {
    let (orders, ordered) = channel::<Wanted>();
    let (results, looks) = channel();
    std::thread::spawn(move || {
        for wanted in ordered {
            let look = observer.look(&only).map(|mut look| {
                observer.inspect(&wanted, &mut look);
                look
            });
            if results.send(look).is_err() {
                return;
            }
        }
    });
    (orders, looks)
}
