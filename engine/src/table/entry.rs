//! (placeholder until merged from bytes)
/// kind
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// i
    Insert = 0,
    /// d
    Delete = 1,
    /// u
    Upsert = 2,
}
/// entry
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// k
    pub kind: EntryKind,
    /// k
    pub key: &'a [u8],
    /// v
    pub value: &'a [u8],
}
