//! Where files are: in memory, or in a pool of files that the program opened.

use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, Throw, invalid};
use crate::input::{bytes, count};
use crate::pool::{Files, PoolDisk, random};

/// A folder of files for one session or store.
#[wasm_bindgen]
pub struct Disk(Kind);

enum Kind {
    Memory(Arc<MemoryDisk>),
    Pool(Arc<PoolDisk>),
}

impl Disk {
    pub fn shared(&self) -> Arc<dyn varvite::disk::Disk> {
        match &self.0 {
            Kind::Memory(disk) => disk.clone(),
            Kind::Pool(disk) => disk.clone(),
        }
    }

    fn pool(&self) -> Outcome<&PoolDisk> {
        match &self.0 {
            Kind::Pool(disk) => Ok(disk),
            Kind::Memory(_) => Err(invalid("a disk in memory has no pool of files")),
        }
    }

    fn memory_disk(&self) -> Outcome<&MemoryDisk> {
        match &self.0 {
            Kind::Memory(disk) => Ok(disk),
            Kind::Pool(_) => Err(invalid("only the files of a disk in memory are shown")),
        }
    }
}

#[wasm_bindgen]
impl Disk {
    /// A disk in memory, which lasts as long as it is referred to. With a seed, the same operations give the same bytes.
    pub fn memory(
        #[wasm_bindgen(unchecked_optional_param_type = "number | bigint")] seed: JsValue,
    ) -> Outcome<Disk> {
        let seed = match count(&seed, "seed")? {
            Some(seed) => seed,
            None => random().throw()?,
        };
        Ok(Disk(Kind::Memory(MemoryDisk::seeded(seed))))
    }

    /// A disk over a pool of files that are open already, whose first two hold what the others are called. `name` stands
    /// in messages.
    pub fn over(
        #[wasm_bindgen(unchecked_param_type = "Pool")] pool: JsValue,
        name: &str,
    ) -> Outcome<Disk> {
        let disk = PoolDisk::open(Files::from(pool), name).throw()?;
        Ok(Disk(Kind::Pool(Arc::new(disk))))
    }

    /// How many files of the pool have no name.
    #[wasm_bindgen(getter, js_name = freeFiles)]
    pub fn free_files(&self) -> Outcome<usize> {
        self.pool()?.free_files().throw()
    }

    /// Lets go of the pool, whose files the program then closes. Sessions and stores on it are closed before.
    #[wasm_bindgen(js_name = release)]
    pub fn release(&self) -> Outcome {
        self.pool()?.release();
        Ok(())
    }

    /// The paths of the files of a disk in memory, sorted.
    pub fn files(&self) -> Outcome<Vec<String>> {
        Ok(self.memory_disk()?.files())
    }

    /// The bytes of a file of a disk in memory.
    #[wasm_bindgen(js_name = readFile)]
    pub fn read_file(&self, path: &str) -> Outcome<Vec<u8>> {
        self.memory_disk()?.bytes(path).throw()
    }

    /// Gives a file of a disk in memory these bytes, or makes it: for stores that a program fetched.
    #[wasm_bindgen(js_name = writeFile)]
    pub fn write_file(
        &self,
        path: &str,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] content: JsValue,
    ) -> Outcome {
        let content = bytes(&content, "content")?;
        let disk = self.memory_disk()?;
        let shared = self.shared();
        let mut folder = String::new();
        for step in path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev() {
            folder = if folder.is_empty() { step.to_owned() } else { format!("{folder}/{step}") };
            shared.create_directory(&folder).throw()?;
        }
        disk.replace(path, content).throw()
    }
}
