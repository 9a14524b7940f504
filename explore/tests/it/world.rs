//! Stores, a server of them, and a client that sends what it likes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use varvite_explore::{Explorer, Limits, Source};

use crate::stores;

/// A context of three commits and a store of one table, shown.
pub struct World {
    pub folder: tempfile::TempDir,
    pub address: SocketAddr,
    pub commits: Vec<String>,
    stop: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl World {
    pub fn new(limits: Limits) -> World {
        World::with_traces(limits, |_| Vec::new())
    }

    pub fn with_traces(limits: Limits, traces: fn(&Path) -> Vec<PathBuf>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("chain"), folder.path().join("ledger"));
        let commits = stores::context(&one);
        stores::tables(&two);
        let sources = stores::sources(&one, &two);
        let traces = traces(folder.path());
        World::showing(folder, commits, sources, traces, limits)
    }

    /// A server of these, which are in `folder`.
    pub fn showing(
        folder: tempfile::TempDir,
        commits: Vec<String>,
        sources: Vec<Source>,
        traces: Vec<PathBuf>,
        limits: Limits,
    ) -> World {
        let explorer =
            Explorer::bind("127.0.0.1:0".parse().unwrap(), sources, traces, limits).unwrap();
        let address = explorer.address();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let server =
            std::thread::spawn(move || explorer.serve(|| stopped.load(Ordering::Relaxed)).unwrap());
        World { folder, address, commits, stop, server: Some(server) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads until the other side closes.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // One that is refused early may close before all was sent.
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let end = all.windows(4).position(|it| it == b"\r\n\r\n").map_or(all.len(), |at| at + 4);
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        Answer { status, head, body: all[end..].to_vec() }
    }

    pub fn get(&self, target: &str) -> Answer {
        self.raw(
            format!("GET {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)
                .as_bytes(),
        )
    }

    /// The JSON of what must be found.
    pub fn json(&self, target: &str) -> Value {
        let mut answer = self.get(target);
        // What is still being made is there a little later.
        for _ in 0..600 {
            if answer.status != 503 {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            answer = self.get(target);
        }
        assert_eq!(answer.status, 200, "{target}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.server.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
    }
}
