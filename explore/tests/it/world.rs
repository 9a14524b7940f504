//! Stores, a server of them, and a client that sends what it likes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::os::OsDisk;
use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions};
use varvite_explore::{Explorer, Limits, OpenTables, Opens, Source};

/// A step that no text is.
const ODD: &[u8] = b"\xff/\"<b>";

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

fn context(folder: &Path) -> Vec<String> {
    let mut store = Store::open_or_create(folder, Options::default()).unwrap();
    let mut commits = Vec::new();
    let mut tree = store.empty_tree();
    for block in 0..3_u8 {
        for account in 0..300 {
            if account % 3 == usize::from(block) || block == 0 {
                let name = format!("account-{account:04}");
                tree.add(&[b"accounts".as_slice(), name.as_bytes(), b"balance"], &[block; 8])
                    .unwrap();
            }
        }
        tree.add(&[b"odd".as_slice(), ODD], &[b'x'; 300]).unwrap();
        tree.add(&["block"], &[block]).unwrap();
        let parents: Vec<_> = store.last_commit().unwrap().into_iter().collect();
        let info = CommitInfo::new(&parents, i64::from(block), "tester", format!("block {block}"));
        let hash = store.commit(&mut tree, &info).unwrap();
        commits.push(varvite::context::hash::to_text(&hash));
    }
    store.set_branch(b"main", &store.last_commit().unwrap().unwrap()).unwrap();
    store.close().unwrap();
    commits
}

/// So that most entries are in runs, which have filters.
fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 64 << 10, ..TableOptions::default() }
}

fn tables(folder: &Path) {
    // Its log is short, so that most of the table is in its runs.
    let (log, log_file_bytes) = (Log::Written, 64 << 10);
    let options = SessionOptions { log, log_file_bytes, ..SessionOptions::default() };
    let session = Session::open_or_create(folder, options).unwrap();
    let mut table = session.open_or_create_table("coins", small()).unwrap();
    for start in 0..40_u32 {
        let mut batch = Batch::new();
        for number in start * 500..(start + 1) * 500 {
            batch.insert(&number.wrapping_mul(0x9e37_79b9).to_be_bytes(), &[7; 60]);
        }
        table.update(&batch).unwrap();
    }
    session.close().unwrap();
}

impl World {
    pub fn new(limits: Limits) -> World {
        World::with_traces(limits, |_| Vec::new())
    }

    pub fn with_traces(limits: Limits, traces: fn(&Path) -> Vec<std::path::PathBuf>) -> World {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("chain"), folder.path().join("ledger"));
        let commits = context(&one);
        tables(&two);
        let opens = |path: std::path::PathBuf| {
            move || Store::open_read_only(OsDisk::new(&path)?, Options::default())
        };
        let open_tables = |path: std::path::PathBuf| {
            move || {
                let session =
                    Session::open_read_only(OsDisk::new(&path)?, SessionOptions::default())?;
                let tables = session.open_all(&OpenTable::default())?;
                Ok(OpenTables { session, tables, place: "live".to_owned() })
            }
        };
        let source = |name: &str, kind, folder: &Path, opens| Source {
            name: name.to_owned(),
            folder: folder.to_owned(),
            kind,
            opens,
        };
        let sources = vec![
            source("chain", "context", &one, Opens::Context(Box::new(opens(one.clone())))),
            source("ledger", "tables", &two, Opens::Tables(Box::new(open_tables(two.clone())))),
        ];
        let traces = traces(folder.path());
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
