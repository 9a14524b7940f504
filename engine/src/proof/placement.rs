//! That the pieces that a proof shows fit together: lengths add up, and names lie where they belong.
//!
//! A root that an honest store made has no other pieces. A root that somebody made up may, and then a
//! name could be there and not be found.

use super::pool::{Class, Content, Pool};
use super::shape::wrong;
use crate::context::Configuration;
use crate::context::configuration::Bucket;
use crate::context::pieces::node::{Body, Branch, Leaf, Target};
use crate::error::Result;

/// Checks every piece that is shown, each once.
pub(super) fn check(pool: &Pool, configuration: Configuration) -> Result<()> {
    // The buckets on the way to each piece: the names in it allow only one such way. So each is looked at
    // once, however many others lead to it.
    let mut ways: Vec<Option<Vec<u16>>> = vec![None; pool.len()];
    for top in 0..pool.len() as u64 {
        if pool.key(top).class != Class::Directory {
            continue;
        }
        let mut stack = vec![(top, Vec::new())];
        while let Some((number, way)) = stack.pop() {
            let Some(Content::Node(node)) = pool.content(number) else { continue };
            match &ways[number as usize] {
                Some(known) if *known == way => continue,
                Some(_) => {
                    return Err(wrong(
                        "one piece in two places: a name in a bucket where it does not belong",
                    ));
                }
                None => ways[number as usize] = Some(way.clone()),
            }
            match &node.body {
                Body::Leaf { leaf, .. } => names(configuration, leaf, &way)?,
                Body::Branch(branch) => {
                    lengths(pool, branch)?;
                    for pointer in &branch.pointers {
                        if let Target::Stored(below) = pointer.target {
                            let mut way = way.clone();
                            way.push(pointer.bucket);
                            stack.push((below, way));
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Every name of a piece belongs into the buckets that lead to it.
fn names(configuration: Configuration, leaf: &Leaf, way: &[u16]) -> Result<()> {
    for index in 0..leaf.len() {
        let mut bucket = Bucket::new(configuration, leaf.name(index));
        if (0..).zip(way).any(|(depth, expected)| bucket.at(depth) != *expected) {
            return Err(wrong("a name in a bucket where it does not belong"));
        }
    }
    Ok(())
}

/// What is shown below a branch is not more than it says, nor less where nothing is hidden.
fn lengths(pool: &Pool, branch: &Branch) -> Result<()> {
    let (mut shown, mut hidden) = (0, 0);
    for pointer in &branch.pointers {
        if let Target::Stored(below) = pointer.target {
            match pool.content(below) {
                Some(content) => shown += content.count(),
                None => hidden += 1,
            }
        }
    }
    let fits = if hidden == 0 { shown == branch.count() } else { shown + hidden <= branch.count() };
    if !fits {
        return Err(wrong(format_args!(
            "an inode says that it has {} entries, and {shown} are shown with {hidden} buckets hidden",
            branch.count()
        )));
    }
    Ok(())
}
