//! Requests of any bytes to the explorer, in this process; the body is that of the fuzz target `request`.

use std::sync::OnceLock;

use varvite_explore::{Explorer, Limits};

use crate::stores;

/// What stands for the address that a browser would name.
const HOST: &[u8] = b"{host}";

/// What is answered at all: 503 where work was cut short, and 410 of what a collection took.
const KNOWN: [u16; 14] = [200, 304, 400, 403, 404, 405, 408, 410, 414, 421, 431, 501, 503, 505];

/// A server of stores that are the same each time; their folder stays as long as the process.
fn explorer() -> &'static Explorer {
    static EXPLORER: OnceLock<(tempfile::TempDir, Explorer)> = OnceLock::new();
    let (_, explorer) = EXPLORER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("chain"), folder.path().join("ledger"));
        stores::context(&one);
        stores::tables(&two);
        let traces = stores::recorded(folder.path());
        let sources = stores::sources(&one, &two);
        let address = "127.0.0.1:0".parse().unwrap();
        let explorer = Explorer::bind(address, sources, traces, Limits::default()).unwrap();
        (folder, explorer)
    });
    explorer
}

/// The request as it is sent: bytes that begin with a slash are what is asked for, others are all that is sent.
fn whole(bytes: &[u8]) -> Vec<u8> {
    let asked = bytes.first() == Some(&b'/');
    let (before, after) = if asked {
        ("GET ", " HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
    } else {
        ("", "")
    };
    let (mut sent, address) = (Vec::new(), explorer().address().to_string());
    let mut left = [before.as_bytes(), bytes, after.as_bytes()].concat();
    while let Some(at) = left.windows(HOST.len()).position(|it| it == HOST) {
        sent.extend_from_slice(&left[..at]);
        sent.extend_from_slice(address.as_bytes());
        left.drain(..at + HOST.len());
    }
    sent.extend_from_slice(&left);
    sent
}

/// Each request is answered in HTTP or not at all, with a status that says why, and with the headers of every answer.
pub fn request(bytes: &[u8]) {
    let said = explorer().answered(&whole(bytes));
    if said.is_empty() {
        return;
    }
    assert!(said.len() <= 64 << 20, "{} bytes", said.len());
    let end = said.windows(4).position(|it| it == b"\r\n\r\n").expect("the head ends");
    let head = std::str::from_utf8(&said[..end]).expect("the head is text").to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(KNOWN.contains(&status), "{head}");
    // What is no request hyper answers by itself, without a body.
    let is_ours = head.contains("\ncontent-type: ");
    if is_ours {
        assert!(head.contains("\ncontent-security-policy: default-src 'none'"), "{head}");
        assert!(head.contains("\nx-content-type-options: nosniff"), "{head}");
    }
    assert!(!head.contains("\naccess-control-"), "{head}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(bytes: &[u8]) -> String {
        request(bytes);
        String::from_utf8_lossy(&explorer().answered(&whole(bytes))).into_owned()
    }

    #[test]
    fn requests_are_answered_without_a_connection_as_with_one() {
        let said = answered(b"/api/overview");
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("\"chain\""), "{said}");
        let two = b"GET /api HTTP/1.1\r\nhost: {host}\r\n\r\nGET /metrics HTTP/1.1\r\nhost: {host}\r\n\r\n";
        assert_eq!(answered(two).matches("HTTP/1.1 200 OK").count(), 2);
        assert!(answered(b"/api/tree?limit=x").starts_with("HTTP/1.1 400 "));
        assert!(answered(b"GET / HTTP/1.1\r\nhost: evil\r\n\r\n").starts_with("HTTP/1.1 421 "));
        assert!(answered(b"/../../etc/passwd").starts_with("HTTP/1.1 404 "));
        assert_eq!(answered(b"GET / HT"), "", "it is still waited for the rest");
    }

    #[test]
    fn no_mutation_of_a_request_panics() {
        let paths = [
            "/",
            "/explorer.js",
            "/metrics",
            "/api",
            "/api/schema",
            "/api/overview?format=csv",
            "/api/pulse?store=1",
            "/api/commits?limit=2&offset=1",
            "/api/tree?path=odd/%ff&limit=3",
            "/api/tree?path=accounts&offset=299",
            "/api/diff?path=accounts&limit=5",
            "/api/proof?path=odd&encoding=v2",
            "/api/proof/file?path=block&encoding=json",
            "/api/weights?path=accounts",
            "/api/levels?store=1&table=coins&probes=10",
            "/api/space/chunks?format=csv",
            "/api/sharing?last=2&pieces=3",
            "/api/collection",
            "/api/trace?trace=1",
            "/api/trace/activity?trace=0&format=csv",
            "/api/trace/commits?trace=0&from=3&to=9",
            "/api/compare?traces=0,1",
        ];
        let whole = "GET /api/tree?path=odd/%ff HTTP/1.1\r\nhost: {host}\r\nsec-fetch-site: same-origin\r\n\r\n";
        let mut state = 11_u64;
        let mut below = |bound: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let marks = b"\r\n :/?%&=,\0\xff\x7f0HTPG";
        for round in 0..1_500 {
            let seed = if round % 4 == 3 { whole } else { paths[round / 4 % paths.len()] };
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..below(4) {
                let at = below(bytes.len());
                match below(4) {
                    0 => bytes[at] = marks[below(marks.len())],
                    1 => bytes.insert(at, marks[below(marks.len())]),
                    2 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.extend_from_within(at..),
                }
            }
            request(&bytes);
        }
    }
}
