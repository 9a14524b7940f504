//! Clients that mean no good, or are only slow: each gets a clear status or the end of its connection, and others go on.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use varvite::context::hash::to_text;
use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::os::OsDisk;
use varvite_explore::Limits;

use crate::world::World;

fn short() -> Limits {
    let moment = Duration::from_millis(400);
    Limits {
        connections: 8,
        head: moment,
        idle: moment,
        lifetime: Duration::from_millis(1_500),
        ..Limits::default()
    }
}

/// Whether the other side ends the connection within two seconds, whatever it says before.
fn ends(mut stream: TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let (start, mut all) = (Instant::now(), Vec::new());
    match stream.read_to_end(&mut all) {
        Ok(_) => true,
        // Reset counts as ended, and a time that ran out does not.
        Err(error) => {
            error.kind() == std::io::ErrorKind::ConnectionReset
                && start.elapsed() < Duration::from_secs(3)
        }
    }
}

#[test]
fn what_is_malformed_or_too_large_has_a_status() {
    let world = World::new(Limits::default());
    let host = world.address.to_string();
    let ask = |request: String| world.raw(request.as_bytes()).status;
    let get = |target: &str| {
        ask(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))
    };
    for (expected, target) in [
        (404, "/../../etc/passwd".to_owned()),
        (404, "/%2e%2e/%2e%2e/etc/passwd".to_owned()),
        (404, "/assets/../source.txt".to_owned()),
        (404, "//explorer.js".to_owned()),
        (404, "/explorer.js/".to_owned()),
        (404, "/api/".to_owned()),
        (404, "/api/../metrics".to_owned()),
        (400, "/api/tree?path=%".to_owned()),
        (400, "/api/tree?path=a&path=b".to_owned()),
        (400, "/api/tree?unknown=1".to_owned()),
        (400, "/api/tree?limit=1001".to_owned()),
        (400, "/api/tree?limit=-1".to_owned()),
        (400, "/api/tree?store=18446744073709551616".to_owned()),
        (404, "/api/tree?store=18446744073709551615".to_owned()),
        (400, "/api/tree?commit=%ff".to_owned()),
        (400, "/api/tree?format=xml".to_owned()),
        (400, format!("/api/tree?path={}", "a/".repeat(65))),
        (400, format!("/api/tree?path={}", "a".repeat(9_000))),
    ] {
        assert_eq!(get(&target), expected, "{}", &target[..target.len().min(80)]);
    }
    // A path that no store has, however strange.
    assert_eq!(get("/api/tree?path=..%2f..%2fetc/passwd"), 404);
    assert_eq!(get("/api/tree?offset=18446744073709551615"), 200);
    let many = |count: usize| "x: y\r\n".repeat(count);
    let long = "a".repeat(40_000);
    for (expected, request) in [
        (400, "nonsense\r\n\r\n".to_owned()),
        (400, "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned()),
        (
            405,
            format!(
                "POST /api HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc"
            ),
        ),
        (405, format!("DELETE / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")),
        (421, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned()),
        (431, format!("GET / HTTP/1.1\r\nhost: {host}\r\n{}\r\n", many(100))),
        (431, format!("GET / HTTP/1.1\r\nhost: {host}\r\nx: {long}\r\n\r\n")),
        (400, format!("GET / HTTP/1.1\r\nhost: {host}\r\ncontent-length: x\r\n\r\n")),
    ] {
        assert_eq!(ask(request.clone()), expected, "{}", &request[..request.len().min(60)]);
    }
    let status = ask(format!("GET /{long} HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    assert!([400, 414, 431].contains(&status), "{status}");
    assert_eq!(get("/api/overview"), 200);
}

#[test]
fn no_mutation_of_a_request_stops_the_server() {
    let moment = Duration::from_millis(40);
    let world = World::new(Limits { head: moment, idle: moment, ..Limits::default() });
    let good = format!(
        "GET /api/tree?path=odd/%ff&limit=3 HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        world.address
    );
    let mut state = 9_u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let marks = b"\r\n :/?%&=\0\xff\x7f0HTPG";
    for round in 0..150 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            match below(3) {
                0 => bytes[at] = marks[below(marks.len())],
                1 => bytes.insert(at, marks[below(marks.len())]),
                _ => drop(bytes.remove(at)),
            }
        }
        let answer = world.raw(&bytes);
        let known = [0, 200, 400, 403, 404, 405, 408, 414, 421, 431, 505];
        assert!(
            known.contains(&answer.status),
            "{round}: {} to {}",
            answer.head,
            String::from_utf8_lossy(&bytes)
        );
    }
    assert_eq!(world.get("/api").status, 200);
}

#[test]
fn another_sites_page_is_refused() {
    let world = World::new(Limits::default());
    let port = world.address.port();
    let ask = |host: &str, more: &str, target: &str| {
        world
            .raw(
                format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n{more}connection: close\r\n\r\n")
                    .as_bytes(),
            )
            .status
    };
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")]
    {
        assert_eq!(ask(&host, "", "/api"), 200, "{host}");
    }
    // A name of theirs that they had lead here, and our address on another port.
    for host in [
        format!("evil.example:{port}"),
        "127.0.0.1:1".to_owned(),
        "127.0.0.1".to_owned(),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("10.0.0.1:{port}"),
        String::new(),
    ] {
        assert_eq!(ask(&host, "", "/api"), 421, "{host}");
    }
    let own = format!("127.0.0.1:{port}");
    assert_eq!(ask(&own, "", &format!("http://evil.example:{port}/api")), 421);
    assert_eq!(ask(&own, &format!("host: evil.example:{port}\r\n"), "/api"), 421);
    assert_eq!(ask(&own, "sec-fetch-site: cross-site\r\n", "/api/overview"), 403);
    assert_eq!(ask(&own, "sec-fetch-site: same-site\r\n", "/explorer.js"), 403);
    assert_eq!(ask(&own, "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n", "/"), 200);
    assert_eq!(ask(&own, "sec-fetch-site: same-origin\r\n", "/api/overview"), 200);
    let answer = world.get("/api/overview");
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
}

#[test]
fn slow_silent_and_half_open_clients_hold_nothing_for_long() {
    let world = World::new(short());
    let host = world.address.to_string();
    // Says nothing; begins and says no more; sends a letter now and then; has closed its half.
    let silent = world.connect();
    let mut begun = world.connect();
    begun.write_all(b"GET / HT").unwrap();
    let mut half = world.connect();
    half.write_all(format!("GET /api HTTP/1.1\r\nhost: {host}\r\n").as_bytes()).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut trickle = world.connect();
    let mut kept = world.connect();
    kept.write_all(format!("GET /api HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).unwrap();
    let start = Instant::now();
    for letter in format!("GET /api HTTP/1.1\r\nhost: {host}\r\nx: {}", "y".repeat(200)).bytes() {
        if trickle.write_all(&[letter]).is_err() || start.elapsed() > Duration::from_secs(2) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for (name, stream) in
        [("silent", silent), ("begun", begun), ("half", half), ("trickle", trickle), ("kept", kept)]
    {
        assert!(ends(stream), "{name} is still held");
    }
    assert_eq!(world.get("/api").status, 200);
}

/// A page that is left open asks for years, and what it asked for just then it is given.
#[test]
fn a_request_under_way_when_a_connection_is_old_is_answered() {
    let world = World::new(Limits { lifetime: Duration::from_millis(200), ..Limits::default() });
    let host = world.address.to_string();
    let mut stream = world.connect();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(format!("GET /api HTTP/1.1\r\nhost: {host}\r\n").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    stream.write_all(b"\r\n").unwrap();
    let (start, mut said) = (Instant::now(), String::new());
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 ") && said.trim_end().ends_with('}'), "{said}");
    // And no more: the next one is asked for on another connection.
    assert!(start.elapsed() < Duration::from_secs(2));
    // Nobody holds a connection by asking again and again.
    let mut stream = world.connect();
    let (start, ask) = (Instant::now(), format!("GET /api HTTP/1.1\r\nhost: {host}\r\n\r\n"));
    while start.elapsed() < Duration::from_secs(3) && stream.write_all(ask.as_bytes()).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
        let _ = stream.set_nonblocking(true);
        let mut answers = [0; 8_192];
        if matches!(stream.read(&mut answers), Ok(0)) {
            break;
        }
        let _ = stream.set_nonblocking(false);
    }
    assert!(start.elapsed() < Duration::from_secs(3), "it is still served");
}

#[test]
fn one_who_asks_much_and_reads_nothing_is_let_go() {
    let world = World::new(short());
    let host = world.address.to_string();
    let mut stream = world.connect();
    let request = format!("GET /explorer.js HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(50);
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = stream.write_all(request.as_bytes());
    std::thread::sleep(Duration::from_millis(1_800));
    // What is in the buffers of the system may still come, and then the end.
    assert!(ends(stream));
}

/// What was made for clients that do not take it is bounded, and others are told so.
#[test]
fn answers_that_nobody_takes_have_a_bound_together() {
    let world = World::new(Limits { outgoing_bytes: 20 << 20, ..Limits::default() });
    let folder = world.folder.path().join("chain");
    let mut store = Store::open(OsDisk::new(folder).unwrap(), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    // More than the buffers of the system take for each.
    tree.add(&["big"], &vec![7; 9 << 20]).unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    store.close().unwrap();
    let target = format!("/api/proof/file?path=big&commit={}", to_text(&commit));
    let ask = || {
        let mut stream = world.connect();
        let request = format!("GET {target} HTTP/1.1\r\nhost: {}\r\n\r\n", world.address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (String::from_utf8(status.to_vec()).unwrap(), stream)
    };
    let held: Vec<_> = (0..6).map(|_| ask()).collect();
    let with = |status: &str| held.iter().filter(|it| it.0.ends_with(status)).count();
    assert_eq!((with(" 200"), with(" 503")), (2, 4));
    // What is short is answered meanwhile, and all of it when they have gone.
    assert_eq!(world.get("/api/overview").status, 200);
    let said = world.get(&target);
    assert_eq!((said.status, &said.json()["error"]["kind"]), (503, &"Busy".into()));
    drop(held);
    let start = Instant::now();
    let whole = loop {
        let answer = world.get(&target);
        if answer.status == 200 || start.elapsed() > Duration::from_secs(10) {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let length = whole.header("content-length").unwrap().parse::<usize>().unwrap();
    assert!((whole.status, whole.body.len()) == (200, length) && length > 9 << 20, "{length}");
}

#[test]
fn too_many_are_told_so_and_places_become_free() {
    let world = World::new(short());
    let held: Vec<_> = (0..8).map(|_| world.connect()).collect();
    std::thread::sleep(Duration::from_millis(50));
    let mut more = world.connect();
    let mut said = String::new();
    more.read_to_string(&mut said).unwrap();
    assert!(
        said.starts_with("HTTP/1.1 503 ")
            && said.ends_with("too many connections: close some of them\n"),
        "{said}"
    );
    drop(held);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(world.get("/api").status, 200);
}

#[test]
fn work_that_takes_long_is_cut_and_says_so() {
    let world = World::new(Limits { work: Duration::ZERO, ..Limits::default() });
    let said = world.json("/api/weights");
    assert_eq!((said["children"].as_array().unwrap().len(), &said["next"]), (1, &1.into()));
    let said = world.json("/api/diff");
    assert_eq!((&said["is_cut"], said["changes"].as_array().unwrap().len()), (&true.into(), 1));
    assert_eq!(world.json("/api/tree?path=accounts")["children"].as_array().unwrap().len(), 1);
}

#[test]
fn a_thousand_requests_at_once_are_answered_or_refused() {
    let world = World::new(Limits { connections: 16, waiting: 4, ..Limits::default() });
    let answered: Vec<u16> = std::thread::scope(|scope| {
        let ask = || (0..40).map(|_| world.get("/api/weights").status).collect::<Vec<_>>();
        let threads: Vec<_> = (0..25).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(answered.len(), 1_000);
    // 0 is a connection that was reset while the refusal was under way.
    assert!(answered.iter().all(|status| [200, 503, 0].contains(status)), "{answered:?}");
    assert!(answered.contains(&200));
    assert_eq!(world.get("/api").status, 200);
}
