//! `include/varvite.h` is made from the sources; the test compares.
//!
//! `VARVITE_WRITE_HEADER=1 cargo test -p varvite-c header` writes it anew.

use std::path::Path;

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, Language, Style};

/// What the header is made of, in the order in which it is read.
const SOURCES: [&str; 29] = [
    "status",
    "types",
    "args",
    "arena",
    "recorder",
    "table/operator",
    "table/observer",
    "table/options",
    "table/session",
    "table/update",
    "table/lookup",
    "table/cursor",
    "table/iterator",
    "table/snapshot",
    "table/live",
    "table/follow",
    "table/copies",
    "table/stream",
    "table/shared",
    "table/scrub",
    "context/options",
    "context/store",
    "context/collect",
    "context/file",
    "context/reader",
    "context/branch",
    "context/tree",
    "context/walk",
    "context/merge",
];
const LAST: [&str; 2] = ["context/proof", "context/irmin"];

const PREAMBLE: &str = include_str!("preamble.h");

pub fn generate(root: &Path) -> String {
    let config = Config {
        language: Language::C,
        style: Style::Both,
        header: Some(PREAMBLE.trim_end().to_owned()),
        include_guard: Some("VARVITE_H".to_owned()),
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned(), "string.h".to_owned()],
        cpp_compat: true,
        documentation_style: DocumentationStyle::C99,
        documentation_length: DocumentationLength::Full,
        line_length: 100,
        tab_width: 4,
        usize_is_size_t: true,
        trailer: Some(include_str!("closing.h").trim_end().to_owned()),
        ..Config::default()
    };
    let mut builder = Builder::new().with_config(config);
    for source in SOURCES.iter().chain(&LAST) {
        builder = builder.with_src(root.join(format!("src/{source}.rs")));
    }
    let mut out = Vec::new();
    builder.generate().expect("the sources parse").write(&mut out);
    String::from_utf8(out).expect("a header is text")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/varvite.h");
    let made = generate(root);
    if std::env::var_os("VARVITE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(found.lines()).position(|(made, found)| made != found);
    assert!(
        made == found,
        "include/varvite.h is not what the sources say, from line {differs:?} on: run \
         VARVITE_WRITE_HEADER=1 cargo test -p varvite-c header"
    );
}
