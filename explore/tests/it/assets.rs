//! The pages that are checked in are those of the sources beside them.

use std::fs;
use std::path::Path;

use crate::world::World;

/// As `web/finish.js` has it: FNV-1a over names and contents.
fn of_sources(web: &Path) -> u64 {
    let fixed = ["index.html", "package-lock.json", "package.json", "vite.config.js", "finish.js"];
    let mut names: Vec<String> = fixed.iter().map(|name| (*name).to_owned()).collect();
    for entry in fs::read_dir(web.join("src")).unwrap() {
        names.push(format!("src/{}", entry.unwrap().file_name().into_string().unwrap()));
    }
    names.sort();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for name in names {
        let contents = fs::read(web.join(&name)).unwrap();
        for byte in [name.as_bytes(), b"\0", &contents].concat() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[test]
fn the_pages_are_those_of_their_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = fs::read_to_string(root.join("assets/source.txt")).unwrap();
    let sources = format!("{:016x}", of_sources(&root.join("web")));
    assert_eq!(
        built, sources,
        "explore/assets are older than explore/web: cd explore/web && npm ci && npm run build"
    );
}

#[test]
fn the_pages_name_nobody_else_and_say_whose_code_is_in_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let page = fs::read_to_string(root.join("index.html")).unwrap();
    assert!(!page.contains("http:") && !page.contains("https:"), "{page}");
    assert!(
        !page.contains("<style") && !page.contains(" style=") && !page.contains("onload"),
        "{page}"
    );
    let licences = fs::read_to_string(root.join("licences.txt")).unwrap();
    for name in ["svelte", "uplot", "d3-hierarchy"] {
        assert!(licences.contains(name), "{name}");
    }
    let bytes: u64 =
        fs::read_dir(&root).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 300_000, "the pages have {bytes} bytes");
}

#[test]
fn a_page_is_sent_once_and_then_only_its_tag() {
    let world = World::new(varvite_explore::Limits::default());
    let first = world.get("/");
    assert_eq!(first.status, 200);
    assert!(first.header("content-type").unwrap().starts_with("text/html"));
    let policy = first.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(first.header("x-content-type-options"), Some("nosniff"));
    let tag = first.header("etag").unwrap();
    let again = world.raw(
        format!(
            "GET / HTTP/1.1\r\nhost: {}\r\nif-none-match: {tag}\r\nconnection: close\r\n\r\n",
            world.address
        )
        .as_bytes(),
    );
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(world.get("/explorer.js").status, 200);
    assert_eq!(world.get("/ahead.js").status, 200);
    assert_eq!(world.get("/explorer.css").status, 200);
    assert_eq!(world.get("/licences.txt").status, 200);
}
