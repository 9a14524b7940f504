//! Keys and values as they go in and out.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varvite::Bytes;

/// Bytes that do not change. Up to 62 of them take no allocation; a clone of more copies them.
#[derive(Clone, Default)]
pub struct Slice(Bytes);

/// A key.
pub type UserKey = Slice;
/// A value.
pub type UserValue = Slice;
/// A key with its value.
pub type KvPair = (UserKey, UserValue);

impl Slice {
    /// No bytes.
    #[must_use]
    pub fn empty() -> Slice {
        Slice::default()
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Slice {
        Slice(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]>> PartialEq<T> for Slice {
    fn eq(&self, other: &T) -> bool {
        self.as_slice() == other.as_ref()
    }
}

impl PartialEq<Slice> for &[u8] {
    fn eq(&self, other: &Slice) -> bool {
        *self == other.as_slice()
    }
}

impl Eq for Slice {}

impl<T: AsRef<[u8]>> PartialOrd<T> for Slice {
    fn partial_cmp(&self, other: &T) -> Option<Ordering> {
        self.as_slice().partial_cmp(other.as_ref())
    }
}

impl PartialOrd<Slice> for &[u8] {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        (*self).partial_cmp(other.as_slice())
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl From<Bytes> for Slice {
    fn from(bytes: Bytes) -> Slice {
        Slice(bytes)
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Slice {
        Slice(bytes.into())
    }
}

impl From<String> for Slice {
    fn from(text: String) -> Slice {
        text.into_bytes().into()
    }
}

impl<const N: usize> From<[u8; N]> for Slice {
    fn from(bytes: [u8; N]) -> Slice {
        Slice::new(&bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Slice {
    fn from(bytes: &[u8; N]) -> Slice {
        Slice::new(bytes)
    }
}

impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice::new(bytes)
    }
}

impl From<&Vec<u8>> for Slice {
    fn from(bytes: &Vec<u8>) -> Slice {
        Slice::new(bytes)
    }
}

impl From<&str> for Slice {
    fn from(text: &str) -> Slice {
        Slice::new(text.as_bytes())
    }
}

impl From<&String> for Slice {
    fn from(text: &String) -> Slice {
        Slice::new(text.as_bytes())
    }
}

impl From<&Path> for Slice {
    fn from(path: &Path) -> Slice {
        Slice::new(path.as_os_str().as_encoded_bytes())
    }
}

impl From<PathBuf> for Slice {
    fn from(path: PathBuf) -> Slice {
        path.as_path().into()
    }
}

impl From<Arc<[u8]>> for Slice {
    fn from(bytes: Arc<[u8]>) -> Slice {
        Slice::new(&bytes)
    }
}

impl From<Arc<str>> for Slice {
    fn from(text: Arc<str>) -> Slice {
        Slice::new(text.as_bytes())
    }
}

impl FromIterator<u8> for Slice {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Slice {
        bytes.into_iter().collect::<Vec<_>>().into()
    }
}
