//! `/metrics` over HTTP/1.1, for this machine only: one request a connection, small, and with a time limit.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request that is read.
const LONGEST: usize = 8192;

/// The longest that a client may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server, until it is dropped.
pub struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves what `page` returns at `/metrics`.
    ///
    /// # Errors
    /// If the address is in use or not there.
    pub fn start(address: SocketAddr, page: impl Fn() -> String + Send + 'static) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                match client {
                    // A client that goes away or says nothing is its own trouble.
                    Ok(client) => drop(answer(client, &page)),
                    Err(error) => {
                        errln!("homing daemon: /metrics: {error}");
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            }
        });
        Ok(Server { address, over, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It waits for a client: this is the last one.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(mut client: TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    let head = loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > LONGEST {
            break None;
        }
        client.set_read_timeout(Some(left))?;
        let count = client.read(&mut buffer)?;
        request.extend_from_slice(&buffer[..count]);
        match parse(&request) {
            Parsed::Head(head) => break Some(head),
            Parsed::Part if count > 0 => {}
            _ => break None,
        }
    };
    let (status, body) = match head.as_ref().map(|(method, path)| (method.as_str(), path.as_str())) {
        None => ("400 Bad Request", "not a request\n".into()),
        Some(("GET" | "HEAD", "/metrics")) => ("200 OK", page()),
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "only /metrics is here\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", "only GET\n".into()),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head_only = head.is_some_and(|(method, _)| method == "HEAD");
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n{}",
        body.len(),
        if head_only { "" } else { &body }
    );
    client.write_all(text.as_bytes())
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
        let server = Server::start("127.0.0.1:0".parse().unwrap(), || "up 1\n".into()).unwrap();
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
        assert!(Server::start(address, String::new).is_err(), "in use");
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "gone");
    }
}
