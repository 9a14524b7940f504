//! (stand-in until the real one is merged)
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
/// c
#[derive(Debug, Default)]
pub struct Cache(Mutex<HashMap<(u64, u32), Arc<[u8]>>>);
impl Cache {
    /// n
    pub fn new(_: u64) -> Arc<Self> {
        Arc::default()
    }
    /// g
    pub fn get(&self, file: u64, page: u32) -> Option<Arc<[u8]>> {
        self.0.lock().expect("x").get(&(file, page)).cloned()
    }
    /// i
    pub fn insert(&self, file: u64, page: u32, bytes: &[u8]) {
        self.0.lock().expect("x").insert((file, page), bytes.into());
    }
}
