//! A described piece of a file: what it is, which bytes it takes, what its fields say.
//!
//! An outline is made of damaged files too: what cannot be decoded carries a note instead of fields.
//! Its `Display` is an indented tree; a program may walk the same fields.

use std::fmt;
use std::ops::Range;

/// A piece of a file and the pieces in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// What it is.
    pub label: String,
    /// Its bytes in the file.
    pub span: Range<u64>,
    /// What it says, as names and printed values.
    pub fields: Vec<(String, String)>,
    /// Why it could not be decoded, if so.
    pub damage: Option<String>,
    /// The pieces in it, in the order of the file.
    pub children: Vec<Outline>,
}

impl Outline {
    /// A piece without fields or pieces.
    #[must_use]
    pub fn new(label: impl Into<String>, span: Range<u64>) -> Self {
        Outline { label: label.into(), span, ..Outline::default() }
    }

    /// The same piece with one more field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.fields.push((name.into(), value.to_string()));
        self
    }

    /// The same piece with a note of what is wrong with it.
    #[must_use]
    pub fn damaged(mut self, damage: impl fmt::Display) -> Self {
        self.damage = Some(damage.to_string());
        self
    }

    /// The same piece with one more piece in it.
    #[must_use]
    pub fn child(mut self, child: Outline) -> Self {
        self.children.push(child);
        self
    }

    /// How many pieces, this one included, are damaged.
    #[must_use]
    pub fn damage_count(&self) -> usize {
        let here = usize::from(self.damage.is_some());
        here + self.children.iter().map(Outline::damage_count).sum::<usize>()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:1$}{2}", "", 2 * depth, self.label)?;
        write!(f, " [{}..{}]", self.span.start, self.span.end)?;
        for (name, value) in &self.fields {
            write!(f, " {name}={value}")?;
        }
        if let Some(damage) = &self.damage {
            write!(f, " DAMAGED: {damage}")?;
        }
        self.children.iter().try_for_each(|child| {
            f.write_str("\n")?;
            child.write(f, depth + 1)
        })
    }
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_prints_as_a_tree() {
        let page = Outline::new("page 1", 4096..8192).field("entries", 42);
        let lost = Outline::new("page 2", 8192..9000).damaged("cut off");
        let file = Outline::new("segment", 0..9000).child(page).child(lost);
        let text = "segment [0..9000]\n  page 1 [4096..8192] entries=42\n  \
                    page 2 [8192..9000] DAMAGED: cut off";
        assert_eq!(file.to_string(), text);
        assert_eq!(file.damage_count(), 1);
    }
}
