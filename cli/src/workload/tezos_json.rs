//! Whole contexts as nested JSON objects, and what the blocks that they belong to say.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use varvite::{Error, Result};

use crate::hex;

/// Every value of a context by its path.
pub type Content = BTreeMap<Vec<String>, Vec<u8>>;

/// `expected.json`.
#[derive(Debug, Deserialize)]
pub struct Expected {
    /// The value at `protocol` in every root, in hex.
    pub protocol_value_hex: String,
    /// The value at `test_chain` in every root, in hex.
    pub test_chain_value_hex: String,
    /// One for each context, in order.
    pub commits: Vec<ExpectedCommit>,
}

/// What one block says.
#[derive(Debug, Deserialize)]
pub struct ExpectedCommit {
    /// The block's level.
    pub level: u64,
    /// Name of the file with its context; `.gz` may follow.
    pub file: String,
    /// Hash of the subtree `data`.
    pub data_subtree_hash: String,
    /// Hash of the root.
    pub root_tree_hash: String,
    /// The commit's parent.
    pub parent_context_hash: String,
    /// The commit's date.
    pub timestamp: i64,
    /// The commit's author.
    pub author: String,
    /// The commit's message.
    pub message: String,
    /// The commit's hash, which stands in the block's header.
    pub context_hash: String,
}

/// Reads what is expected.
pub fn expected(path: &Path, text: &str) -> Result<Expected> {
    serde_json::from_str(text).map_err(|error| {
        Error::invalid(format!(
            "{} does not say what is expected ({error}): give a folder of Tezos contexts",
            path.display()
        ))
    })
}

/// Reads a context: objects are directories, strings are values in hex.
pub fn content(path: &Path, text: &str) -> Result<Content> {
    let bad = |what: &str| {
        Error::invalid(format!("{} {what}: give a context of nested objects", path.display()))
    };
    let root: Value =
        serde_json::from_str(text).map_err(|error| bad(&format!("is not JSON ({error})")))?;
    let mut content = Content::new();
    let mut stack = vec![(Vec::new(), &root)];
    while let Some((steps, value)) = stack.pop() {
        match value {
            Value::Object(children) => {
                for (name, child) in children {
                    let mut below: Vec<String> = steps.clone();
                    below.push(name.clone());
                    stack.push((below, child));
                }
            }
            Value::String(text) => {
                let bytes = hex::decode(text);
                let bytes = bytes.ok_or_else(|| bad(&format!("has {text:?}, which is not hex")))?;
                content.insert(steps, bytes);
            }
            other => return Err(bad(&format!("has {other}, neither object nor text"))),
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_objects_become_paths() {
        let path = Path::new("c.json");
        let content = content(path, r#"{"a":{"b":"00ff"},"c":""}"#).unwrap();
        assert_eq!(content[&vec!["a".to_owned(), "b".to_owned()]], [0, 255]);
        assert_eq!(content[&vec!["c".to_owned()]], Vec::<u8>::new());
        for bad in ["{", r#"{"a":1}"#, r#"{"a":"0"}"#] {
            assert!(super::content(path, bad).is_err());
        }
    }
}
