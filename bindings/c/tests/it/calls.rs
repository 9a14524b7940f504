//! How the Rust tests call C's functions.

use std::ffi::CString;
use std::ops::Bound;

use crate::model::table::Change;
use varvite_c::table::update::*;
use varvite_c::*;

/// What says that nothing is there.
pub const NOTHING: varvite_bytes = varvite_bytes { data: std::ptr::null(), length: 0 };

/// Calls a function, whose last argument is the error, and expects a status.
macro_rules! fails {
    ($status:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: an error is numbers, for which zeros are values.
        let mut error: varvite_c::varvite_error = unsafe { std::mem::zeroed() };
        // SAFETY: every pointer leads to what the function says, and lives until it returns.
        let status = unsafe { $function($($argument,)* &raw mut error) };
        $crate::calls::expect(stringify!($function), $status, status, &error);
    }};
}

/// Calls a function that must succeed.
macro_rules! ok {
    ($($call:tt)*) => { $crate::calls::fails!(varvite_c::VARVITE_OK, $($call)*) };
}

pub(crate) use {fails, ok};

#[track_caller]
pub fn expect(function: &str, expected: i32, found: i32, error: &varvite_error) {
    let sentence: Vec<u8> =
        error.sentence.iter().take_while(|it| **it != 0).map(|it| *it as u8).collect();
    let sentence = String::from_utf8(sentence).expect("sentences are UTF-8");
    assert_eq!(found, expected, "{function}: {sentence}");
    assert_eq!(error.kind, expected, "{function}");
}

/// A place for a handle.
pub fn slot<T>() -> *mut T {
    std::ptr::null_mut()
}

pub fn text(text: &str) -> CString {
    CString::new(text).expect("no NUL in it")
}

pub fn bytes(bytes: &[u8]) -> varvite_bytes {
    varvite_bytes { data: bytes.as_ptr(), length: bytes.len() }
}

pub fn key_of(number: u64) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// What an answer says.
pub fn read(found: &varvite_bytes) -> Option<Vec<u8>> {
    if found.data.is_null() {
        return None;
    }
    // SAFETY: the library said that so many bytes lie there, and nothing was called since.
    Some(unsafe { std::slice::from_raw_parts(found.data, found.length) }.to_vec())
}

pub fn bound(from: &Bound<Vec<u8>>) -> varvite_bound {
    match from {
        Bound::Unbounded => varvite_bound { kind: VARVITE_UNBOUNDED, key: NOTHING },
        Bound::Included(key) => varvite_bound { kind: VARVITE_INCLUDED, key: bytes(key) },
        Bound::Excluded(key) => varvite_bound { kind: VARVITE_EXCLUDED, key: bytes(key) },
    }
}

pub fn operation(change: &Change) -> varvite_operation {
    let held = std::ptr::null_mut();
    let (kind, key, value) = match change {
        Change::Insert(key, value) => (VARVITE_INSERT, key, bytes(value)),
        Change::Delete(key) => (VARVITE_DELETE, key, NOTHING),
        Change::Upsert(key, value) => (VARVITE_UPSERT, key, bytes(value)),
        Change::DeleteRange(from, before) => (VARVITE_DELETE_RANGE, from, bytes(before)),
        Change::DeletePrefix(prefix) => (VARVITE_DELETE_PREFIX, prefix, NOTHING),
    };
    varvite_operation { kind, key: bytes(key), value, held }
}

/// An arena that frees itself.
pub struct Arena(varvite_arena);

impl Default for Arena {
    fn default() -> Arena {
        let owner = std::ptr::null_mut();
        Arena(varvite_arena { items: std::ptr::null(), count: 0, owner })
    }
}

impl Arena {
    pub fn place(&mut self) -> *mut varvite_arena {
        &raw mut self.0
    }

    /// What it holds.
    pub fn read(&self) -> Vec<Option<Vec<u8>>> {
        if self.0.count == 0 {
            return Vec::new();
        }
        // SAFETY: the library filled it, and nothing was called since.
        unsafe { std::slice::from_raw_parts(self.0.items, self.0.count) }.iter().map(read).collect()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        ok!(varvite_arena_free(&raw mut self.0));
    }
}
