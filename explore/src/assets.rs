//! The pages, as they were built from `explore/web` and checked in.

/// A file of the pages.
#[derive(Debug)]
pub struct Asset {
    path: &'static str,
    pub kind: &'static str,
    pub bytes: &'static [u8],
    pub tag: &'static str,
}

macro_rules! asset {
    ($path:literal, $kind:literal, $file:literal) => {
        Asset {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("../assets/", $file)),
            // What a browser has of another build of this program is not ours.
            tag: concat!(
                "\"",
                env!("CARGO_PKG_VERSION"),
                "-",
                include_str!("../assets/source.txt"),
                "\""
            ),
        }
    };
}

static ASSETS: [Asset; 5] = [
    asset!("/", "text/html; charset=utf-8", "index.html"),
    asset!("/ahead.js", "text/javascript; charset=utf-8", "ahead.js"),
    asset!("/explorer.js", "text/javascript; charset=utf-8", "explorer.js"),
    asset!("/explorer.css", "text/css; charset=utf-8", "explorer.css"),
    asset!("/licences.txt", "text/plain; charset=utf-8", "licences.txt"),
];

/// The file at `path`, exactly: nothing is looked for in folders.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
