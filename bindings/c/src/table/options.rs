//! What a program chooses: for a session, for a table, for opening.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::disk::Access;
use varvite::{
    Compression, Log, Lookups, OpenSnapshot, OpenTable, SessionOptions, TableOptions, Verify,
};

use super::observer::{Host, varvite_executor, varvite_observer};
use super::operator::operator;
use crate::args::{Out, Sized32, array, budget, choose, files, flag, optional, options, text};
use crate::handle::get;
use crate::recorder::recorder;
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::{varvite_cache, varvite_operator, varvite_recorder};

/// Nothing: what was not saved in a snapshot is gone when the session ends.
pub const VARVITE_LOG_NONE: u32 = 0;
/// An update outlives the process. A power cut may take the newest, never one without all later ones.
pub const VARVITE_LOG_WRITTEN: u32 = 1;
/// An update outlives a power cut.
pub const VARVITE_LOG_SYNCED: u32 = 2;

/// Lookups often find nothing: every level has a filter.
pub const VARVITE_LOOKUPS_MIXED: u32 = 0;
/// Lookups nearly always find a value: the last level has no filter.
pub const VARVITE_LOOKUPS_MOSTLY_HIT: u32 = 1;

/// Pages are stored as they are.
pub const VARVITE_COMPRESSION_NONE: u32 = 0;
/// Each page is compressed by LZ4 where that saves an eighth of it or more.
pub const VARVITE_COMPRESSION_FAST: u32 = 1;

/// Checks the manifest and every segment's footer; pages are checked when they are read.
pub const VARVITE_VERIFY_QUICK: u32 = 0;
/// Checks every byte of every file.
pub const VARVITE_VERIFY_FULL: u32 = 1;

/// How a session is opened. Begin with `varvite_session_options_default`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_session_options {
    /// Bytes of this struct, as the defaults say.
    pub size: u32,
    /// What is promised of updates: one of VARVITE_LOG_….
    pub log: u32,
    /// From what the identity of a new session follows; 0 has the disk draw it. Only tests give one.
    pub seed: u64,
    /// 1 to read past the system's page cache, best with a cache; else 0.
    pub direct: u32,
    /// How many page reads a lookup keeps in flight.
    pub queue_depth: u32,
    /// Memory of the session, in one number, if there is no `cache`: 0 leaves pages to the system.
    pub memory_bytes: u64,
    /// Bytes of pages at which a segment file ends.
    pub segment_bytes: u64,
    /// Bytes of a log file at which the next one begins.
    pub log_file_bytes: u64,
    /// A cache to share; or NULL.
    pub cache: *mut varvite_cache,
    /// Helps merges; or NULL.
    pub executor: *const varvite_executor,
    /// Gets timings; or NULL.
    pub observer: *const varvite_observer,
    /// The most segment and blob files that are open; 0: as many as the system lets the process have.
    pub max_open_files: u64,
    /// Writes down every call; or NULL.
    pub recorder: *mut varvite_recorder,
}

/// How a table is made. Begin with `varvite_table_options_default` or `varvite_table_options_utxo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_table_options {
    /// Bytes of this struct, as the defaults say.
    pub size: u32,
    /// Runs of a level that are merged into one of the next: 2 to 16.
    pub size_ratio: u32,
    /// Bytes of entries (key + value + 16 each) gathered in memory before a run is written.
    pub write_buffer_bytes: u64,
    /// Most bytes of filters that all levels together may take.
    pub filter_bytes_max: u64,
    /// Filter bits an entry above the last level: 0 (none) or 4 to 24.
    pub filter_bits: u32,
    /// What lookups find: one of VARVITE_LOOKUPS_….
    pub lookups: u32,
    /// Values of at least so many bytes (32 to 65,537) are stored once, beside the runs; 0: those above
    /// 64 KiB.
    pub blob_min_bytes: u32,
    /// Whether pages are compressed: VARVITE_COMPRESSION_NONE or VARVITE_COMPRESSION_FAST.
    pub compression: u32,
    /// How upserts join older values; NULL refuses upserts.
    pub merge_operator: *mut varvite_operator,
}

/// How a snapshot or a live table is opened. Begin with `varvite_open_options_default`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_open_options {
    /// Bytes of this struct, as the defaults say.
    pub size: u32,
    /// How much is checked first: one of VARVITE_VERIFY_….
    pub verify: u32,
    /// The label that a snapshot must have; NULL for any.
    pub label: *const c_char,
    /// Merge operators of the program's that its tables have; the built-in ones need not be given.
    pub operators: *const *mut varvite_operator,
    /// How many there are.
    pub operator_count: usize,
}

/// What comes with the options of a session and is the program's to get back, taken before anything can fail.
pub(crate) fn host(given: *const varvite_session_options) -> Host {
    let given = options(given).ok().flatten();
    given.map_or_else(Host::default, |it| Host::new(it.observer, it.executor))
}

pub(crate) fn session_options(
    given: *const varvite_session_options,
    mut host: Host,
) -> Outcome<SessionOptions> {
    let Some(given) = options(given)? else { return Ok(SessionOptions::default()) };
    // One that could not be read was not taken.
    optional(given.executor, "executor")?;
    optional(given.observer, "observer")?;
    let memory_bytes = budget(given.memory_bytes, "memory_bytes")?;
    let cache = if given.cache.is_null() {
        (memory_bytes > 0).then(|| Cache::new(memory_bytes))
    } else if given.memory_bytes > 0 {
        return Err(Fault::invalid(
            "memory_bytes is for a session without a cache: leave one at 0",
        ));
    } else {
        let held = get(given.cache)?;
        let cache = held.read()?;
        Some(Arc::clone(&*cache))
    };
    Ok(SessionOptions {
        seed: (given.seed != 0).then_some(given.seed),
        access: if flag(given.direct as c_int, "direct")? {
            Access::Direct
        } else {
            Access::Buffered
        },
        cache,
        queue_depth: given.queue_depth as usize,
        max_open_files: files(given.max_open_files),
        segment_bytes: given.segment_bytes,
        log: choose(given.log, &[Log::None, Log::Written, Log::Synced], "log")?,
        log_file_bytes: given.log_file_bytes,
        executor: host.executor()?,
        observer: host.observer()?,
        recorder: recorder(given.recorder)?,
    })
}

pub(crate) fn table_options(given: *const varvite_table_options) -> Outcome<TableOptions> {
    let Some(given) = options(given)? else { return Ok(TableOptions::default()) };
    let has_operator = !given.merge_operator.is_null();
    Ok(TableOptions {
        write_buffer_bytes: given.write_buffer_bytes,
        size_ratio: given.size_ratio,
        lookups: choose(given.lookups, &[Lookups::Mixed, Lookups::MostlyHit], "lookups")?,
        filter_bits: u8::try_from(given.filter_bits)
            .map_err(|_| Fault::invalid("filter_bits is more than 24"))?,
        filter_bytes_max: given.filter_bytes_max,
        blob_min_bytes: (given.blob_min_bytes != 0).then_some(given.blob_min_bytes),
        compression: choose(
            given.compression,
            &[Compression::None, Compression::Fast],
            "compression",
        )?,
        operator: has_operator.then(|| operator(given.merge_operator)).transpose()?,
    })
}

// SAFETY: numbers and pointers.
unsafe impl Sized32 for varvite_session_options {
    const NAME: &'static str = "session options";

    fn defaults() -> Self {
        let defaults = SessionOptions::default();
        varvite_session_options {
            size: size_of::<varvite_session_options>() as u32,
            log: VARVITE_LOG_NONE,
            seed: 0,
            direct: u32::from(defaults.access == Access::Direct),
            queue_depth: defaults.queue_depth as u32,
            memory_bytes: 0,
            segment_bytes: defaults.segment_bytes,
            log_file_bytes: defaults.log_file_bytes,
            cache: std::ptr::null_mut(),
            executor: std::ptr::null(),
            observer: std::ptr::null(),
            max_open_files: 0,
            recorder: std::ptr::null_mut(),
        }
    }
}

// SAFETY: numbers and pointers.
unsafe impl Sized32 for varvite_table_options {
    const NAME: &'static str = "table options";

    fn defaults() -> Self {
        tell_table(&TableOptions::default())
    }
}

// SAFETY: numbers and pointers.
unsafe impl Sized32 for varvite_open_options {
    const NAME: &'static str = "options";

    fn defaults() -> Self {
        varvite_open_options {
            size: size_of::<varvite_open_options>() as u32,
            verify: VARVITE_VERIFY_QUICK,
            label: std::ptr::null(),
            operators: std::ptr::null(),
            operator_count: 0,
        }
    }
}

pub(crate) fn verify(given: u32) -> Outcome<Verify> {
    choose(given, &[Verify::Quick, Verify::Full], "verify")
}

pub(crate) fn open_snapshot(given: *const varvite_open_options) -> Outcome<OpenSnapshot> {
    let Some(given) = options(given)? else { return Ok(OpenSnapshot::default()) };
    let label = (!given.label.is_null()).then(|| text(given.label, "label")).transpose()?;
    let operators = array(given.operators, given.operator_count, "operators")?;
    Ok(OpenSnapshot {
        verify: verify(given.verify)?,
        label: label.map(str::to_owned),
        operators: operators.iter().map(|it| operator(*it)).collect::<Outcome<_>>()?,
    })
}

pub(crate) fn open_table(given: *const varvite_open_options) -> Outcome<OpenTable> {
    let OpenSnapshot { verify, label, operators } = open_snapshot(given)?;
    if label.is_some() {
        return Err(Fault::invalid("a live table has no label: leave it NULL"));
    }
    Ok(OpenTable { verify, operators })
}

/// Sets the defaults of a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_options_default(
    options: *mut varvite_session_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        Out::new(options, "options")?.set(varvite_session_options::defaults());
        Ok(())
    })
}

fn tell_table(from: &TableOptions) -> varvite_table_options {
    varvite_table_options {
        size: size_of::<varvite_table_options>() as u32,
        size_ratio: from.size_ratio,
        write_buffer_bytes: from.write_buffer_bytes,
        filter_bytes_max: from.filter_bytes_max,
        filter_bits: u32::from(from.filter_bits),
        lookups: match from.lookups {
            Lookups::Mixed => VARVITE_LOOKUPS_MIXED,
            Lookups::MostlyHit => VARVITE_LOOKUPS_MOSTLY_HIT,
        },
        blob_min_bytes: from.blob_min_bytes.unwrap_or(0),
        compression: match from.compression {
            Compression::None => VARVITE_COMPRESSION_NONE,
            Compression::Fast => VARVITE_COMPRESSION_FAST,
        },
        merge_operator: std::ptr::null_mut(),
    }
}

fn set_table(options: *mut varvite_table_options, from: &TableOptions) -> Outcome {
    Out::new(options, "options")?.set(tell_table(from));
    Ok(())
}

/// Sets the defaults of a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_options_default(
    options: *mut varvite_table_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || set_table(options, &TableOptions::default()))
}

/// Sets the configuration for a UTxO set: outputs that are looked up are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_options_utxo(
    options: *mut varvite_table_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || set_table(options, &TableOptions::utxo()))
}

/// Changes the options so that a table keeps within `bytes` of memory, a cache counted apart.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_options_within_memory(
    bytes: u64,
    options: *mut varvite_table_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(options, "options")?;
        let chosen = table_options(options)?.within_memory(bytes);
        let Some(given) = self::options(options)? else { return Ok(()) };
        if (given.size as usize) < size_of::<varvite_table_options>() {
            return Err(Fault::invalid(
                "the options are of an older release: begin with this release's defaults",
            ));
        }
        place.set(varvite_table_options {
            merge_operator: given.merge_operator,
            ..tell_table(&chosen)
        });
        Ok(())
    })
}

/// Sets the defaults of opening.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_open_options_default(
    options: *mut varvite_open_options,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        Out::new(options, "options")?.set(varvite_open_options::defaults());
        Ok(())
    })
}
