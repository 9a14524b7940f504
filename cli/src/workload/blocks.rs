//! Block workload files: a text format of blocks of operations, and what must come out.

use varvite::Kind::Corrupt;
use varvite::context::{CommitHash, TreeHash};
use varvite::{Error, Result};

use crate::hex;

/// One operation; paths are split already.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `r` and `m`: find a value.
    Find(Vec<&'a [u8]>),
    /// `l`: list a directory.
    List(Vec<&'a [u8]>),
    /// `i` and `u`: add a value.
    Add(Vec<&'a [u8]>, Vec<u8>),
    /// `d` and `D`: remove a value or a subtree.
    Remove(Vec<&'a [u8]>),
}

/// One block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Its number.
    pub id: u64,
    /// Part of the measured run, not of the set-up.
    pub measured: bool,
    /// In order.
    pub operations: Vec<Operation<'a>>,
    /// Seconds.
    pub date: i64,
    /// Of the commit.
    pub author: &'a str,
    /// Of the commit.
    pub message: &'a str,
}

/// Blocks of a file, one after the other.
#[derive(Debug)]
pub struct Blocks<'a> {
    name: &'a str,
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> Blocks<'a> {
    /// Of the file `name` with this text.
    pub fn new(name: &'a str, text: &'a str) -> Blocks<'a> {
        Blocks { name, lines: text.lines().enumerate() }
    }

    fn bad(&self, number: usize, what: &str) -> Error {
        Error::new(
            Corrupt,
            format!(
                "line {} of {}: {what}; the format is in docs/guide/context.md",
                number + 1,
                self.name
            ),
        )
    }

    /// The next block, without its setting if the file ends.
    pub fn next_block(&mut self) -> Result<Option<Block<'a>>> {
        let mut block: Option<Block<'a>> = None;
        while let Some((number, line)) = self.lines.next() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.splitn(3, ' ');
            let kind = fields.next().unwrap_or_default();
            let (first, second) = (fields.next(), fields.next());
            if kind == "B" {
                if block.is_some() {
                    return Err(self.bad(number, "a block begins before the one before it ended"));
                }
                let id = first.and_then(|id| id.parse().ok());
                let id = id.ok_or_else(|| self.bad(number, "the block has no number"))?;
                let measured = match second {
                    Some("S") => false,
                    Some("R") => true,
                    _ => return Err(self.bad(number, "the block is neither S nor R")),
                };
                let (operations, date, author, message) = (Vec::new(), 0, "", "");
                block = Some(Block { id, measured, operations, date, author, message });
                continue;
            }
            let mut current = block.take().ok_or_else(|| self.bad(number, "no block has begun"))?;
            let argument = first.ok_or_else(|| self.bad(number, "the line ends too early"))?;
            if kind == "C" {
                current.date = argument
                    .parse()
                    .map_err(|_| self.bad(number, "the date is not a number of seconds"))?;
                let rest = second.ok_or_else(|| self.bad(number, "the commit has no author"))?;
                (current.author, current.message) = rest.split_once(' ').unwrap_or((rest, ""));
                return Ok(Some(current));
            }
            let path: Vec<&[u8]> = argument.split('/').map(str::as_bytes).collect();
            current.operations.push(match (kind, second) {
                ("r" | "m", None) => Operation::Find(path),
                ("l", None) => Operation::List(path),
                ("d" | "D", None) => Operation::Remove(path),
                ("i" | "u", Some(value)) => {
                    let value = if value == "-" { Some(Vec::new()) } else { hex::decode(value) };
                    let value = value.ok_or_else(|| self.bad(number, "the value is not hex"))?;
                    Operation::Add(path, value)
                }
                _ => return Err(self.bad(number, "it is no operation of the format")),
            });
            block = Some(current);
        }
        match block {
            None => Ok(None),
            Some(block) => Err(Error::new(
                Corrupt,
                format!(
                    "{} ends within block {}: it is cut short, get it again",
                    self.name, block.id
                ),
            )),
        }
    }
}

/// What a block must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Commit hash.
    pub commit: CommitHash,
    /// Hash of the tree.
    pub root: TreeHash,
    /// Checksum of what was read.
    pub reads: u64,
}

/// Reads the file of expectations, a line a block in order.
pub fn expectations(name: &str, text: &str) -> Result<Vec<(u64, Expected)>> {
    let bad = |number: usize| {
        Error::new(
            Corrupt,
            format!(
                "line {} of {name} is not \"<id> <commit> <root> <checksum>\": give the .expect file of \
             the workload",
                number + 1
            ),
        )
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [id, commit, root, reads] = fields[..] else { return Err(bad(number)) };
            let id = id.parse().map_err(|_| bad(number))?;
            let reads = u64::from_str_radix(reads, 16).map_err(|_| bad(number))?;
            Ok((id, Expected { commit: commit.parse()?, root: root.parse()?, reads }))
        })
        .collect()
}

/// The checksum of a block's reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    fn byte(&mut self, byte: u8) {
        self.0 = (self.0.wrapping_mul(31).wrapping_add(u64::from(byte))) & ((1 << 62) - 1);
    }

    /// A find: the value, or that there is none.
    pub fn found(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else { return self.byte(0xfe) };
        for byte in value {
            self.byte(*byte);
        }
        self.byte(0xff);
    }

    /// A list: the names in byte order.
    pub fn listed(&mut self, names: &[Vec<u8>]) {
        for name in names {
            for byte in name {
                self.byte(*byte);
            }
            self.byte(0xfd);
        }
    }

    /// The sum.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_and_bad_lines_are_named() {
        let text = "# c\nB 0 S\ni a/b 00ff\nr a/b\nl a\nd a/b\nC 7 me the message\n";
        let mut blocks = Blocks::new("w", text);
        let block = blocks.next_block().unwrap().unwrap();
        assert_eq!((block.date, block.author, block.message), (7, "me", "the message"));
        assert_eq!(block.operations.len(), 4);
        assert_eq!(block.operations[0], Operation::Add(vec![b"a", b"b"], vec![0, 255]));
        assert!(blocks.next_block().unwrap().is_none());
        for (text, line) in [
            ("r a", "line 1 "),
            ("B 0 S\nx a", "line 2 "),
            ("B 0 S\n# c\ni a 0", "line 3 "),
            ("B 0 S\nB 1 S", "line 2 "),
            ("B 0 Q", "line 1 "),
            ("B 0 S\nr a", "cut short"),
        ] {
            let error = Blocks::new("w", text).next_block().unwrap_err();
            assert!(error.detail().contains(line), "{error}");
        }
    }
}
