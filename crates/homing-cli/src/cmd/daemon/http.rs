//! `/metrics` over HTTP/1.1, for this machine only: one request a connection, small, and with a time limit. All
//! connections are served side by side, so that one that says nothing keeps no other waiting.

use homing_linux::wait::{ready, For};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request that is read.
const LONGEST: usize = 8192;

/// The longest that a client may take, from connecting until it has its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connections at a time. One more closes the oldest, which has had the longest to say something.
const MOST: usize = 64;

/// Connections that are accepted before those that are there get their turn.
const AT_ONCE: usize = MOST / 4;

/// A pause after a failure to accept.
const NAP: Duration = Duration::from_millis(100);

/// Connections that were closed before they had their answer.
#[derive(Debug, Default)]
pub struct Closed {
    /// They took too long.
    pub late: AtomicU64,
    /// There were too many, and they were the oldest.
    pub crowded: AtomicU64,
}

/// A server, until it is dropped.
pub struct Server {
    address: SocketAddr,
    end: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `page` returns at `/metrics`.
    ///
    /// # Errors
    /// If the address is in use or not there.
    pub fn start(
        address: SocketAddr,
        closed: Arc<Closed>,
        page: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Server> {
        Server::patient(address, PATIENCE, closed, page)
    }

    fn patient(
        address: SocketAddr,
        patience: Duration,
        closed: Arc<Closed>,
        page: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (end, over) = UnixStream::pair()?;
        let clients = VecDeque::new();
        let work = Work { listener, over, page, patience, closed, clients };
        Ok(Server { address, end, thread: Some(std::thread::spawn(move || work.run())) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let woken = self.end.write_all(b"end").is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

/// What the server's thread has.
struct Work<P> {
    listener: TcpListener,
    /// Readable when it is to end.
    over: UnixStream,
    page: P,
    patience: Duration,
    closed: Arc<Closed>,
    /// Oldest first.
    clients: VecDeque<Client>,
}

impl<P: Fn() -> String> Work<P> {
    fn run(mut self) {
        loop {
            match self.turn() {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    errln!("homing daemon: /metrics: {error}");
                    // Descriptors may have run out: here is one.
                    self.close_oldest();
                    std::thread::sleep(NAP);
                }
            }
        }
    }

    /// Waits until something happens and does what can be done without waiting. True if it is to end.
    fn turn(&mut self) -> io::Result<bool> {
        let fixed = [(self.over.as_fd(), For::Reading), (self.listener.as_fd(), For::Reading)];
        let clients = self.clients.iter().map(|client| (client.stream.as_fd(), client.waits_for()));
        let sockets: Vec<_> = fixed.into_iter().chain(clients).collect();
        // With no client it waits for one.
        let until = self.clients.front().map(|oldest| oldest.until);
        let limit = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let ready = ready(&sockets, limit)?;
        if ready.contains(&0) {
            return Ok(true);
        }
        // Later ones first: their places stay what they were.
        for place in ready.iter().rev().filter_map(|place| place.checked_sub(2)) {
            if self.clients[place].go_on(&self.page).is_over() {
                self.clients.remove(place);
            }
        }
        while self.clients.front().is_some_and(|oldest| oldest.until <= Instant::now()) {
            self.clients.pop_front();
            self.closed.late.fetch_add(1, Ordering::Relaxed);
        }
        if ready.contains(&1) {
            self.accept()?;
        }
        Ok(false)
    }

    fn accept(&mut self) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // It went away before it was accepted.
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) =>
                {
                    continue
                }
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            let mut client = Client::new(stream, Instant::now() + self.patience);
            // Most have said all by now.
            if !client.go_on(&self.page).is_over() {
                if self.clients.len() >= MOST {
                    self.close_oldest();
                }
                self.clients.push_back(client);
            }
        }
        Ok(())
    }

    fn close_oldest(&mut self) {
        let closed = u64::from(self.clients.pop_front().is_some());
        self.closed.crowded.fetch_add(closed, Ordering::Relaxed);
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// Once the request is there.
    answer: Option<Vec<u8>>,
    /// Bytes of it that have been sent.
    sent: usize,
}

/// Whether a connection is still needed.
#[derive(PartialEq)]
enum Stage {
    /// It waits for its client.
    Waits,
    /// It has its answer, or has gone: that is its own trouble.
    Over,
}

impl Stage {
    fn is_over(&self) -> bool {
        *self == Stage::Over
    }
}

impl Client {
    fn new(stream: TcpStream, until: Instant) -> Client {
        Client { stream, until, request: Vec::new(), answer: None, sent: 0 }
    }

    fn waits_for(&self) -> For {
        if self.answer.is_some() {
            For::Writing
        } else {
            For::Reading
        }
    }

    /// Reads and writes what can be without waiting.
    fn go_on(&mut self, page: &impl Fn() -> String) -> Stage {
        match self.read(page).and_then(|()| self.write()) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Stage::Waits
            }
            _ => Stage::Over,
        }
    }

    fn read(&mut self, page: &impl Fn() -> String) -> io::Result<()> {
        let mut buffer = [0; 1024];
        while self.answer.is_none() {
            let count = self.stream.read(&mut buffer)?;
            self.request.extend_from_slice(&buffer[..count]);
            self.answer = match parse(&self.request) {
                Parsed::Head(head) => Some(answer(Some(head), page)),
                Parsed::Part if count > 0 && self.request.len() <= LONGEST => None,
                _ => Some(answer(None, page)),
            };
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let answer = self.answer.as_deref().unwrap_or_default();
        while self.sent < answer.len() {
            self.sent += self.stream.write(&answer[self.sent..])?;
        }
        Ok(())
    }
}

/// The answer to a request's method and path; to what is no request without them.
fn answer(head: Option<(String, String)>, page: &impl Fn() -> String) -> Vec<u8> {
    let (status, body) = match head.as_ref().map(|(method, path)| (method.as_str(), path.as_str())) {
        None => ("400 Bad Request", "not a request\n".into()),
        Some(("GET" | "HEAD", "/metrics")) => ("200 OK", page()),
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", "only GET\n".into()),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head_only = head.is_some_and(|(method, _)| method == "HEAD");
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: \
        {}\r\n{allow}Connection: close\r\n\r\n{}",
        body.len(),
        if head_only { "" } else { &body }
    );
    text.into_bytes()
}

enum Parsed {
    /// Method and path.
    Head((String, String)),
    /// More is to come.
    Part,
    Bad,
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
            Parsed::Head((request.method.unwrap_or_default().into(), path.into()))
        }
        Ok(httparse::Status::Partial) => Parsed::Part,
        Err(_) => Parsed::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn serve(patience: Duration, page: impl Fn() -> String + Send + 'static) -> (Server, Arc<Closed>) {
        let closed = Arc::new(Closed::default());
        let address = "127.0.0.1:0".parse().unwrap();
        (Server::patient(address, patience, Arc::clone(&closed), page).unwrap(), closed)
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(request).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn it_answers_and_survives_nonsense_and_ends() {
        let server = serve(LONG, || "up 1\n".into()).0;
        let answer = ask(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
        assert!(answer.contains("Content-Length: 5\r\n"));
        assert!(ask(&server, b"HEAD /metrics?x=1 HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(&server, b"GET / HTTP/1.1\r\n\r\n").contains(" 404 "));
        assert!(ask(&server, b"POST /metrics HTTP/1.1\r\n\r\n").contains(" 405 "));
        for bad in [&b"\x00\xff\r\n\r\n"[..], b"GET", b""] {
            assert!(ask(&server, bad).contains(" 400 "), "{bad:?}");
        }
        assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").contains(" 200 "), "still there");
        let address = server.address();
        assert!(Server::start(address, Arc::default(), String::new).is_err(), "in use");
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "gone");
    }

    #[test]
    fn clients_that_say_nothing_keep_nobody_waiting() {
        let (server, closed) = serve(LONG, || "up 1\n".into());
        let idle: Vec<TcpStream> =
            (0..3 * MOST).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        // Were they served one after another, nobody would live to see the end.
        for _ in 0..30 {
            assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").ends_with("up 1\n"));
        }
        let crowded = closed.crowded.load(Ordering::Relaxed);
        assert!(crowded >= 2 * MOST as u64, "{crowded} were closed: at most {MOST} at a time");
        assert_eq!((&idle[0]).read(&mut [0; 1]).unwrap_or(0), 0, "the oldest is closed");
        assert_eq!(closed.late.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_client_that_takes_too_long_is_closed_and_counted() {
        let (server, closed) = serve(Duration::from_millis(20), || "up 1\n".into());
        let mut idle = TcpStream::connect(server.address()).unwrap();
        assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0);
        drop(server);
        assert_eq!(closed.late.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_long_page_goes_to_a_client_that_reads_slowly_while_others_are_served() {
        let page = "homing 1\n".repeat(1 << 20);
        let length = page.len();
        let (server, closed) = serve(LONG, move || page.clone());
        let mut slow = TcpStream::connect(server.address()).unwrap();
        slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        slow.read_exact(&mut [0; 9]).unwrap();
        assert!(ask(&server, b"GET /metrics HTTP/1.1\r\n\r\n").len() > length);
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).unwrap();
        assert!(rest.len() + 9 > length && rest.ends_with(b"homing 1\n"));
        assert_eq!(closed.late.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_request_may_come_in_pieces() {
        let server = serve(LONG, || "up 1\n".into()).0;
        let mut client = TcpStream::connect(server.address()).unwrap();
        for piece in ["GET /met", "rics HTTP/1.1\r\n", "\r\n"] {
            client.write_all(piece.as_bytes()).unwrap();
            assert!(ask(&server, b"HEAD /metrics HTTP/1.1\r\n\r\n").contains(" 200 "));
        }
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("up 1\n"), "{answer}");
    }
}
