//! Sessions: folders of tables.

use js_sys::Array;
use varvite::{
    Compression, Log, Lookups, OpenSnapshot, OpenTable, SessionOptions, SnapshotContent,
    TableOptions,
};
use wasm_bindgen::prelude::*;

use crate::batch::Batch;
use crate::disk::Disk;
use crate::fault::{Outcome, Throw, closed, invalid};
use crate::input::{Given, array, object, optional_bytes, text};
use crate::operator::{operator, operators, outside};
use crate::shared::Tables;
use crate::table::Table;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** What survives: nothing but snapshots ("none"), what was written ("written"), or every batch ("synced"). */
export interface SessionOptions { log?: "none" | "written" | "synced"; seed?: number | bigint; memoryBytes?: number; segmentBytes?: number; logFileBytes?: number }
export interface TableOptions { preset?: "default" | "utxo"; writeBufferBytes?: number; sizeRatio?: number; filterBits?: number; blobMinBytes?: number | null; operator?: "add-u64" | "max" | "append" | MergeOperator; compression?: "none" | "lz4"; lookups?: "mixed" | "mostly-hit" }
/** The operators of the program's own that the tables may have which are opened. */
export interface OpenOptions { operators?: MergeOperator[] }
export interface SnapshotInfo { name: string; label: string; sequence: number; tables: string[]; damage?: string }
"#;

/// A folder of tables with its snapshots and, if asked for, a log.
#[wasm_bindgen]
pub struct Session(Option<varvite::Session>);

const OPTIONS: &[&str] = &["log", "seed", "memoryBytes", "segmentBytes", "logFileBytes"];
const LOGS: &[(&str, Log)] =
    &[("none", Log::None), ("written", Log::Written), ("synced", Log::Synced)];

/// More than this for pages leaves too little of 32-bit addresses for the rest.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

fn session_options(value: &JsValue) -> Outcome<SessionOptions> {
    let given = Given::of(value, OPTIONS)?;
    let mut options = SessionOptions::default();
    if let Some(log) = given.choose("log", LOGS)? {
        options.log = log;
    }
    options.seed = given.count("seed")?;
    // Pages in a cache were verified when they came there.
    if let Some(bytes) = given.count("memoryBytes")?.filter(|it| *it > 0) {
        if bytes > MEMORY_BYTES_MAX {
            return Err(invalid(format!("memoryBytes is {bytes}: WebAssembly has 4 GiB in all")));
        }
        options.cache = Some(varvite::cache::Cache::new(bytes));
    }
    if let Some(bytes) = given.count("segmentBytes")? {
        options.segment_bytes = bytes;
    }
    if let Some(bytes) = given.count("logFileBytes")? {
        options.log_file_bytes = bytes;
    }
    Ok(options)
}

const TABLE_OPTIONS: &[&str] = &[
    "preset",
    "writeBufferBytes",
    "sizeRatio",
    "filterBits",
    "blobMinBytes",
    "operator",
    "compression",
    "lookups",
];

fn small<T: TryFrom<u64>>(given: &Given<'_>, name: &str) -> Outcome<Option<T>> {
    let Some(count) = given.count(name)? else { return Ok(None) };
    T::try_from(count).map(Some).map_err(|_| invalid(format!("{name} is too large: {count}")))
}

fn table_options(value: &JsValue) -> Outcome<TableOptions> {
    let given = Given::of(value, TABLE_OPTIONS)?;
    let is_utxo = given.choose("preset", &[("default", false), ("utxo", true)])? == Some(true);
    let mut options = if is_utxo { TableOptions::utxo() } else { TableOptions::default() };
    if let Some(bytes) = given.count("writeBufferBytes")? {
        options.write_buffer_bytes = bytes;
    }
    if let Some(ratio) = small(&given, "sizeRatio")? {
        options.size_ratio = ratio;
    }
    if let Some(bits) = small(&given, "filterBits")? {
        options.filter_bits = bits;
    }
    if given.get("blobMinBytes")?.is_null() {
        options.blob_min_bytes = None;
    } else if let Some(bytes) = small(&given, "blobMinBytes")? {
        options.blob_min_bytes = Some(bytes);
    }
    let joined = given.get("operator")?;
    if !joined.is_undefined() && !joined.is_null() {
        options.operator = Some(operator(&joined)?);
    }
    let kinds = [("none", Compression::None), ("lz4", Compression::Fast)];
    if let Some(compression) = given.choose("compression", &kinds)? {
        options.compression = compression;
    }
    let kinds = [("mixed", Lookups::Mixed), ("mostly-hit", Lookups::MostlyHit)];
    if let Some(lookups) = given.choose("lookups", &kinds)? {
        options.lookups = lookups;
    }
    Ok(options)
}

impl Session {
    fn open_now(&self) -> Outcome<&varvite::Session> {
        outside()?;
        self.0.as_ref().ok_or_else(|| closed("session"))
    }
}

type Opening = fn(
    std::sync::Arc<dyn varvite::disk::Disk>,
    SessionOptions,
) -> varvite::Result<varvite::Session>;

fn opened(disk: &Disk, options: &JsValue, open: Opening) -> Outcome<Session> {
    let options = session_options(options)?;
    open(disk.shared(), options).throw().map(|it| Session(Some(it)))
}

#[wasm_bindgen]
impl Session {
    /// Makes a session on an empty disk.
    pub fn create(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "SessionOptions")] options: JsValue,
    ) -> Outcome<Session> {
        opened(disk, &options, varvite::Session::create)
    }

    /// Opens the session that the disk has.
    pub fn open(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "SessionOptions")] options: JsValue,
    ) -> Outcome<Session> {
        opened(disk, &options, varvite::Session::open)
    }

    /// Opens the session that the disk has, or makes one.
    #[wasm_bindgen(js_name = openOrCreate)]
    pub fn open_or_create(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "SessionOptions")] options: JsValue,
    ) -> Outcome<Session> {
        opened(disk, &options, varvite::Session::open_or_create_on)
    }

    /// Makes a table.
    #[wasm_bindgen(js_name = createTable)]
    pub fn create_table(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "TableOptions")] options: JsValue,
    ) -> Outcome<Table> {
        let options = table_options(&options)?;
        self.open_now()?.create_table(name, options).throw().map(Table::new)
    }

    /// Opens a live table, which a session with a log has by its name.
    #[wasm_bindgen(js_name = openTable)]
    pub fn open_table(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "OpenOptions")] options: JsValue,
    ) -> Outcome<Table> {
        let options = OpenTable { operators: operators(&options)?, ..OpenTable::default() };
        self.open_now()?.open_table(name, &options).throw().map(Table::new)
    }

    /// Opens a live table, or makes it.
    #[wasm_bindgen(js_name = openOrCreateTable)]
    pub fn open_or_create_table(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "TableOptions")] options: JsValue,
    ) -> Outcome<Table> {
        let options = table_options(&options)?;
        self.open_now()?.open_or_create_table(name, options).throw().map(Table::new)
    }

    /// The names of the live tables.
    #[wasm_bindgen(js_name = liveTables)]
    pub fn live_tables(&self) -> Outcome<Vec<String>> {
        self.open_now()?.live_tables().throw()
    }

    /// Removes a live table for good.
    #[wasm_bindgen(js_name = deleteTable)]
    pub fn delete_table(&self, name: &str) -> Outcome {
        self.open_now()?.delete_table(name).throw()
    }

    /// Applies a batch to each of several tables, together: all or nothing. The pairs are `[table, batch]`, and a table
    /// is in one of them at most.
    pub fn update(
        &self,
        #[wasm_bindgen(unchecked_param_type = "[Table, Batch][]")] pairs: JsValue,
    ) -> Outcome {
        let session = self.open_now()?;
        let (mut tables, mut batches) = (Vec::new(), Vec::new());
        for pair in array(&pairs)?.iter() {
            let pair = array(&pair)?;
            tables.push(Table::handle(&pair.get(0))?);
            batches.push(Batch::handle(&pair.get(1))?);
        }
        let mut open = tables.iter().map(Table::change).collect::<Outcome<Vec<_>>>()?;
        let batches: Vec<_> = batches.iter().map(|it| it.0.borrow()).collect();
        let open = open.iter_mut().map(|it| &mut **it);
        let mut updates: Vec<_> = open.zip(batches.iter().map(|it| &**it)).collect();
        session.update(&mut updates).throw()
    }

    /// Puts tables behind one handle, for transactions over them. Their own handles are closed then; after an error they are
    /// open as before.
    pub fn share(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Table[]")] tables: JsValue,
    ) -> Outcome<Tables> {
        let session = self.open_now()?.clone();
        let tables =
            array(&tables)?.iter().map(|it| Table::handle(&it)).collect::<Outcome<Vec<_>>>()?;
        // Before any is taken: none may be given twice, and all must be there.
        let mut names = Vec::new();
        for table in &tables {
            let name = table.look()?.name().to_owned();
            if names.contains(&name) {
                return Err(invalid(format!("two tables are called {name:?}")));
            }
            names.push(name);
        }
        let taken = tables.iter().map(Table::take).collect::<Outcome<Vec<_>>>()?;
        match session.share(taken) {
            Ok(shared) => Ok(Tables::new(session, shared)),
            Err(refused) => {
                for (handle, table) in tables.iter().zip(refused.tables) {
                    handle.put_back(table);
                }
                Err(refused.error).throw()
            }
        }
    }

    /// Makes the log durable up to here, for a session with the log "written".
    #[wasm_bindgen(js_name = syncLog)]
    pub fn sync_log(&self) -> Outcome {
        self.open_now()?.sync_log().throw()
    }

    /// Saves tables as they are now, together, under a name, with a label and a payload of the program's.
    #[wasm_bindgen(js_name = saveSnapshot)]
    pub fn save_snapshot(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Table[]")] tables: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "{ label?: string; payload?: Bytes }")]
        options: JsValue,
    ) -> Outcome {
        let given = Given::of(&options, &["label", "payload"])?;
        let label = text(&given.get("label")?, "label")?;
        let payload = optional_bytes(&given.get("payload")?, "payload")?.unwrap_or_default();
        let tables =
            array(&tables)?.iter().map(|it| Table::handle(&it)).collect::<Outcome<Vec<_>>>()?;
        let open = tables.iter().map(Table::look).collect::<Outcome<Vec<_>>>()?;
        let open: Vec<&varvite::Table> = open.iter().map(|it| &**it).collect();
        let content = SnapshotContent { label: &label, payload: &payload, tables: &open };
        self.open_now()?.save_snapshot(name, content).throw()
    }

    /// The snapshots, the oldest first.
    #[wasm_bindgen(js_name = listSnapshots, unchecked_return_type = "SnapshotInfo[]")]
    pub fn list_snapshots(&self) -> Outcome<JsValue> {
        let found = self.open_now()?.list_snapshots().throw()?;
        let told = found.into_iter().map(|it| {
            let tables = it.tables.iter().map(|table| JsValue::from(&*table.name));
            object(&[
                ("name", it.name.into()),
                ("label", it.label.into()),
                ("sequence", (it.sequence as f64).into()),
                ("tables", tables.collect::<Array>().into()),
                ("damage", it.damage.map_or(JsValue::UNDEFINED, Into::into)),
            ])
        });
        Ok(told.collect::<Array>().into())
    }

    /// Opens one table of a snapshot, as a table of its own that goes on from there.
    #[wasm_bindgen(js_name = openSnapshot)]
    pub fn open_snapshot(
        &self,
        name: &str,
        table: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "OpenOptions")] options: JsValue,
    ) -> Outcome<Table> {
        let options = OpenSnapshot { operators: operators(&options)?, ..OpenSnapshot::default() };
        let mut snapshot = self.open_now()?.open_snapshot(name, &options).throw()?;
        snapshot.take(table).throw().map(Table::new)
    }

    /// The payload of a snapshot.
    #[wasm_bindgen(js_name = snapshotPayload)]
    pub fn snapshot_payload(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "OpenOptions")] options: JsValue,
    ) -> Outcome<Vec<u8>> {
        let options = OpenSnapshot { operators: operators(&options)?, ..OpenSnapshot::default() };
        Ok(self.open_now()?.open_snapshot(name, &options).throw()?.payload.clone())
    }

    /// Removes a snapshot.
    #[wasm_bindgen(js_name = deleteSnapshot)]
    pub fn delete_snapshot(&self, name: &str) -> Outcome {
        self.open_now()?.delete_snapshot(name).throw()
    }

    /// A table with what several have, merged at once; keys that several have are those of the first.
    pub fn union(
        &self,
        name: &str,
        #[wasm_bindgen(unchecked_param_type = "Table[]")] tables: JsValue,
    ) -> Outcome<Table> {
        let tables =
            array(&tables)?.iter().map(|it| Table::handle(&it)).collect::<Outcome<Vec<_>>>()?;
        let open = tables.iter().map(Table::look).collect::<Outcome<Vec<_>>>()?;
        let open: Vec<&varvite::Table> = open.iter().map(|it| &**it).collect();
        self.open_now()?.union(name, &open).throw().map(Table::new)
    }

    /// What the session has to say, a sentence each: a file that is lost, a log that was cut.
    pub fn warnings(&self) -> Outcome<Vec<String>> {
        Ok(self.open_now()?.warnings())
    }

    /// Closes the session, whose tables are closed before. Once more does nothing.
    pub fn close(&mut self) -> Outcome {
        outside()?;
        self.0.take().map_or(Ok(()), |session| session.close().throw())
    }
}
