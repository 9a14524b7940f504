//! Proofs in JSON: what is read of a text takes at most four times its size, whatever it says.

use varvite::context::{Configuration, Tree};
use varvite::proof::{self, Encoding, Proof};

use crate::allocations;

/// For what goes with the depth of a text, not with its length.
const LEVELS_BYTES: usize = 256 << 10;

/// Reads `text`, and holds what that takes against the size of the text.
#[track_caller]
fn bounded(what: &str, text: &[u8], configuration: Configuration) -> Option<Proof> {
    let read = || Proof::decode(text, Encoding::Json, configuration);
    let (read, most) = allocations::most(read);
    assert!(
        most <= 4 * text.len() + LEVELS_BYTES,
        "{what}: {most} bytes for {} are {:.1} times as much",
        text.len(),
        most as f64 / text.len() as f64
    );
    read.ok()
}

#[test]
fn proofs_of_whole_trees_take_less_than_four_times_their_text() {
    for configuration in [Configuration::TEZOS, Configuration::TEZOS_BINARY] {
        for value in [&b""[..], &[7; 40]] {
            let mut tree = Tree::empty(configuration);
            for number in 0..30_000 {
                tree.add(&[format!("{}", number % 250), format!("{number}")], value).unwrap();
            }
            let look = |tree: &mut Tree| {
                for number in 0..10_000 {
                    tree.find(&[format!("{}", number % 250), format!("{number}")])?;
                }
                Ok(())
            };
            let (recording, ()) = proof::record(&tree, look).unwrap();
            for made in [recording.tree_proof().unwrap(), recording.stream_proof().unwrap()] {
                let text = made.encode(Encoding::Json).unwrap();
                assert!(text.len() > 1 << 18);
                assert_eq!(bounded("an honest proof", &text, configuration).unwrap(), made);
                // With blanks, as programs show it, and as far as it came.
                let spread = String::from_utf8(text.clone()).unwrap().replace(',', ",\n   ");
                assert!(bounded("a spread one", spread.as_bytes(), configuration).is_some());
                for part in [text.len() / 3, text.len() - 1] {
                    assert!(bounded("a cut one", &text[..part], configuration).is_none());
                }
            }
        }
    }
}

#[test]
fn texts_made_to_take_memory_take_no_more() {
    let hash = "0".repeat(64);
    let head =
        format!(r#"{{"version":0,"before":["node","{hash}"],"after":["node","{hash}"],"state":"#);
    let open_list = format!(r#"{head}{{"node":["#);
    let inode = format!(r#"{head}{{"inode":{{"length":1,"proofs":["#);
    let extender = format!(r#"{head}{{"extender":{{"length":1,"segments":["#);
    let stream = format!("{head}[");
    let level =
        |items: usize| format!("{}[\"\",{{\"node\":[", r#"["",{"contents":""}],"#.repeat(items));
    let texts = [
        (
            "small entries",
            open_list.clone(),
            r#"["",{"node":[]}],"#,
            200_000,
            r#"["",{"node":[]}]]}}"#,
        ),
        ("empty values", open_list.clone(), r#"["",{"contents":""}],"#, 200_000, ""),
        (
            "short values",
            open_list.clone(),
            r#"["61",{"contents":"61"}],"#,
            200_000,
            r#"["",{"node":[]}]]}}"#,
        ),
        ("small pieces", inode.clone(), r#"[0,{"inode_values":[]}],"#, 200_000, ""),
        ("small elements", stream.clone(), r#"{"node":[]},"#, 300_000, r#"{"node":[]}]}"#),
        ("small values", stream.clone(), r#"{"contents":""},"#, 300_000, ""),
        ("small inodes", stream, r#"{"inode":{"length":0,"proofs":[]}},"#, 100_000, ""),
        ("a long segment", extender, "0,", 1_000_000, "0]"),
        ("a level of few", open_list.clone(), &level(14), 500, ""),
        ("a level of many", open_list.clone(), &level(280), 400, ""),
        ("commas", open_list.clone(), ",", 2_000_000, ""),
        (
            "what is no item",
            format!("{open_list}[\"\",{{\"node\":[]}}],"),
            "aaaaaaaaaaaaaaaa,",
            200_000,
            "]",
        ),
        ("what is no item, nested", open_list.clone(), "[aaaaaaaaaaaaaaaa,", 200_000, ""),
        ("lists", String::new(), "[", 1_000_000, ""),
        ("lists in a list", "[".to_owned(), "[[]],", 500_000, ""),
        ("objects", String::new(), "{\"state\":", 200_000, ""),
        ("members", "{".to_owned(), "\"state\":[{\"node\":[]}],", 100_000, ""),
        ("quotes", open_list, "\"", 1_000_001, ""),
    ];
    for (what, head, piece, times, tail) in texts {
        let text = format!("{head}{}{tail}", piece.repeat(times));
        bounded(what, text.as_bytes(), Configuration::TEZOS);
    }
    // One value that is all of it.
    let value = format!(r#"{head}{{"contents":"{}"}}}}"#, "61".repeat(2 << 20));
    assert!(bounded("one value", value.as_bytes(), Configuration::TEZOS).is_some());
}
