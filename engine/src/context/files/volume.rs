//! Chunks in the lower folder, on a disk of its own: whole, byte for byte as they were.
//!
//! A chunk says of itself which store, number and history it is of, and the control file has the checksum of
//! its last batch. A file has its name only once it is whole and synced, so what is found under such a name and
//! is another chunk is somebody's: it is never written over. Format document: `docs/format/pack.md`.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use super::chunk::{Opening, Seal, chunk_end};
use super::chunk_files::{self, Chunk, Files};
use super::control::{Control, Row, State};
use super::paths::{self, whose};
use crate::cache::Cache;
use crate::disk::{Access, Disk, File, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, Position};
use crate::file::exclusive;
use crate::file::replace::{self, NotRenamed, Replacement};
use crate::format::header::{self, FileKind, Header};

/// Bytes that are copied at a time.
const WINDOW: u64 = 256 << 10;

/// What is advised of a chunk there that is damaged, and nowhere else.
const DAMAGE_ADVICE: &str =
    "put it back from a copy, or have `varvite repair` make a new store of what is left";

/// Held in a lower folder that cannot be locked itself, by whoever moves chunks there.
const LOCK: &str = "chunks.tmp.lock";
const HOLDER: &str = "a store that moves chunks";

/// Takes the right to move chunks in the folder of `disk`: two copies of a store that move the same chunk at once
/// would take each other's half for the whole. `Locked` when another has it; none where nothing can be locked.
pub(crate) fn lock(disk: &Arc<dyn Disk>) -> Result<Option<Box<dyn Lock>>> {
    let taken = match disk.lock_directory("") {
        Ok(None) => exclusive::lock_in_passing(disk, LOCK, HOLDER).map(Some),
        taken => taken,
    };
    match taken {
        Err(error) if error.kind() == Kind::Locked => {
            Err(error.context("another store moves chunks there, try again later"))
        }
        // Some file systems lock nothing: then one store in one folder is the operator's care.
        Err(error) if locks_nothing(&error) => Ok(None),
        taken => taken,
    }
}

/// Whether the system says that it has no locks there, or none of this process, rather than that this one failed.
fn locks_nothing(error: &Error) -> bool {
    /// `ENOLCK`, which has no kind of its own.
    const NO_LOCKS: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    let said = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    said.is_some_and(|said| {
        // Where nothing can be written, nothing is moved to.
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, Unsupported};
        matches!(said.kind(), PermissionDenied | ReadOnlyFilesystem | Unsupported)
            || cfg!(unix) && said.raw_os_error() == Some(NO_LOCKS)
    })
}

/// Removes what a killed move or attachment of `store` has left in the lower folder, whose lock is held.
pub(crate) fn remove_leftovers(lower: &dyn Disk, store: u64) -> Result<()> {
    let is_ours = |name: &str| {
        paths::parse_chunk(name).is_some() && expect_unfinished_own(lower, store, name).is_ok()
    };
    replace::remove_leftovers(lower, "", is_ours).map(drop)
}

/// `Invalid` when the folder of `disk` is that of a store, whose chunks are its own: the same store under another path
/// too.
pub(crate) fn expect_no_store(disk: &dyn Disk) -> Result<()> {
    if disk.exists(paths::CONTROL)? || disk.exists(paths::LOCK)? {
        return Err(Error::invalid(format!(
            "{} is the folder of a store, which no lower layer may be in: give a folder of its own",
            disk.root()
        )));
    }
    Ok(())
}

/// `Locked` when the lower folder is no longer the one that was locked: another was put in its place, or another disk.
pub(crate) fn expect_alone(lower: &dyn Disk, alone: Option<&dyn Lock>) -> Result<()> {
    alone.map_or(Ok(()), Lock::check).map_err(|error| {
        let root = lower.root();
        Error::new(
            Kind::Locked,
            format!(
                "{root} is not the folder any more that it was when chunks began to move, as when another disk is mounted \
                 there: see that it has the chunks of this store, and try again: {error}"
            ),
        )
    })
}

/// Why a chunk was not copied.
pub(crate) struct NotCopied {
    pub(crate) error: Error,
    /// Whether the copy may have its name, which a power cut may take away again.
    pub(crate) may_be_there: bool,
}

impl From<Error> for NotCopied {
    fn from(error: Error) -> NotCopied {
        NotCopied { error, may_be_there: false }
    }
}

/// Copies `from` to the folder of `disk`, where it will be `to`, and reads the copy to its end before it has a
/// name: durable when this returns. A file that is there must be the same chunk. `Corrupt` when a byte of it is
/// not as it was written.
pub(crate) fn copy(
    files: &Files,
    from: &Arc<Chunk>,
    to: &Chunk,
    disk: &Arc<dyn Disk>,
) -> std::result::Result<(), NotCopied> {
    // Where it is there, its name may not be durable after a sync that failed: it is written anew.
    if let Err(error) = to.open(&**disk, files.store())
        && error.kind() != Kind::Missing
    {
        let (path, root) = (&to.path, disk.root());
        let error = match error.kind() {
            Kind::Corrupt if is_own_and_damaged(&**disk, to, files.store())? => {
                match files.lower().filter(|_| from.is_lower()) {
                    Some(below) => damaged_above(error, files, from, below.root()),
                    None => left_damaged(error, root),
                }
            }
            Kind::Corrupt | Kind::Invalid => Error::new(
                error.kind(),
                format!(
                    "{path} in {root} is not the chunk that is to be moved there, but one of another store or of another copy \
                     of this one, or damaged: it stays, and may be the only one that its owner has; give this store a folder \
                     of its own, or move the file to where it belongs"
                ),
            ),
            // Where open files keep their names it is that chunk, which somebody reads.
            _ => error,
        };
        return Err(error.into());
    }
    expect_unfinished_own(&**disk, files.store(), &to.path)?;
    let below = files.lower().filter(|_| from.is_lower());
    let advised = |error: Error| match below {
        Some(_) if error.kind() == Kind::Corrupt => error.advised(DAMAGE_ADVICE),
        _ => error,
    };
    let source = files.get(from).map_err(advised)?;
    let copied = written(&*source, from.end(), disk, &to.path).and_then(|replacement| {
        scan(&**replacement.file(), from, |_, _| Ok(()))?;
        Ok(replacement)
    });
    let mut replacement = copied.map_err(|error| match (error.kind(), below) {
        // It is the copy that was read, of which nothing is left.
        (Kind::Corrupt, Some(below)) => advised(error.with_file(&from.path))
            .context(format_args!("the lower folder {}", below.root())),
        (Kind::Corrupt, None) => error.with_file(&from.path),
        _ => error,
    })?;
    replacement.sync()?;
    replacement.rename().map_err(|NotRenamed { error, is_unchanged }| NotCopied {
        error,
        may_be_there: !is_unchanged,
    })?;
    disk.sync_directory("").map_err(|error| NotCopied { error, may_be_there: true })
}

/// Writes `chunk`, which lies in the folder of `disk`, anew under its name, and calls `each` with its batches: durable when
/// this returns. Whoever wrote it may have had a sync fail, of it or of its name, which no later one makes good.
/// `Corrupt` when a byte of it is not as it was written; then the old file stays.
pub(crate) fn renew(
    files: &Files,
    disk: &Arc<dyn Disk>,
    chunk: &Arc<Chunk>,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<()> {
    expect_unfinished_own(&**disk, files.store(), &chunk.path)?;
    // Opened for this alone: some file systems give nobody the name of a file that is open.
    let source = chunk_files::open_lower(files.lower(), chunk, files.store())?;
    let replacement = written(&*source, chunk.end(), disk, &chunk.path)?;
    drop(source);
    scan(&**replacement.file(), chunk, each)?;
    replacement.finish()
}

/// `Invalid` when there is what another store has not finished under one of the names of this file in work, which that would take
/// the place of.
fn expect_unfinished_own(disk: &dyn Disk, store: u64, path: &str) -> Result<()> {
    let mut unfinished = replace::SUFFIXES.iter().map(|suffix| format!("{path}{suffix}"));
    match unfinished.find(|name| whose::is_of_another_store(disk, store, name)) {
        Some(name) => Err(Error::invalid(whose::told(disk, &name))),
        None => Ok(()),
    }
}

/// A copy of the first `end` bytes of `source`, which may get the name `path`.
fn written(source: &dyn File, end: u64, disk: &Arc<dyn Disk>, path: &str) -> Result<Replacement> {
    let replacement = Replacement::begin(disk, path, Access::Buffered)?;
    let file = replacement.file();
    let mut bytes = vec![0; WINDOW.min(end) as usize];
    let mut place = 0;
    while place < end {
        let count = WINDOW.min(end - place);
        let bytes = &mut bytes[..count as usize];
        source.read_exact_at(place, bytes)?;
        file.write_at(place, bytes)?;
        place += count;
    }
    Ok(replacement)
}

/// A chunk that was found in a lower folder, whole at both of its ends.
pub(crate) struct FoundChunk {
    pub(crate) opening: Opening,
    pub(crate) seal: Seal,
    /// What a control file says of it.
    pub(crate) row: Row,
    pub(crate) chunk: Arc<Chunk>,
}

impl FoundChunk {
    /// Whether the chunk that begins so comes after it.
    pub(crate) fn is_before(&self, next: &Opening) -> bool {
        (next.number, next.base) == (self.row.number + 1, self.row.base + self.row.length)
            && next.chain == self.row.chain
    }
}

/// Looks for chunk `number` in the lower folder of `files`. `Invalid` when what is there is another store's, `Corrupt`
/// when it is not whole.
pub(crate) fn find(
    files: &Files,
    cache: &Cache,
    epoch: u64,
    number: u64,
) -> Result<Option<FoundChunk>> {
    let store = files.store();
    let Some(lower) = files.lower() else { return Ok(None) };
    let path = paths::chunk(epoch, number);
    let Some(file) = chunk_files::open_if_there(&**lower, &path)? else { return Ok(None) };
    let identity = paths::chunk_identity(store, epoch, number);
    let opening = match chunk_files::look_in(&*file, &path, store, identity)? {
        chunk_files::Found::Chunk(opening)
            if (opening.epoch, opening.number) == (epoch, number) =>
        {
            opening
        }
        _ => {
            let place = Position::start().offset;
            return Err(Error::corrupt(&path, place, "the opening of the chunk", "another batch"));
        }
    };
    let length = file.len()?;
    let (seal, chain) = chunk_files::seal_of(&*file, &path, identity, length)?;
    chunk_end(opening.base, length).ok_or_else(|| {
        let last = length.saturating_sub(Seal::BATCH);
        Error::corrupt(&path, last, "the end of the chunk", "other bytes")
    })?;
    let row = Row { number, count: 1, base: opening.base, length, chain, state: State::Lower };
    let chunk = Arc::new(Chunk::collected(cache, store, epoch, &row));
    Ok(Some(FoundChunk { opening, seal, row, chunk }))
}

/// Epoch and number of the chunks that the folder of `disk` has, in order. None where the folder is that of a store.
fn chunks_in(disk: &dyn Disk) -> Result<Vec<(u64, u64)>> {
    let names = disk.list("")?;
    if names.iter().any(|name| [paths::CONTROL, paths::LOCK].contains(&&**name)) {
        return Ok(Vec::new());
    }
    let chunks = names.iter().filter_map(|name| paths::parse_chunk(name));
    let mut chunks: Vec<(u64, u64)> = chunks
        .filter_map(|(epoch, number, generation)| generation.is_none().then_some((epoch, number)))
        .collect();
    chunks.sort_unstable();
    Ok(chunks)
}

/// The store of the first and the last of `chunks`; none where both are damaged so that they do not say. `Invalid` where
/// they are of two.
fn store_of_all(disk: &dyn Disk, chunks: &[(u64, u64)]) -> Result<Option<u64>> {
    let mut ends = chunks.iter().map(|(epoch, number)| store_of(disk, *epoch, *number));
    // One whose beginning is damaged does not say whose it is.
    let is_known =
        |store: &Result<u64>| !matches!(store, Err(error) if error.kind() == Kind::Corrupt);
    let Some(store) = ends.by_ref().find(is_known) else { return Ok(None) };
    let store = store?;
    if let Some(other) = ends.rev().find(is_known)
        && other? != store
    {
        return Err(Error::invalid(format!(
            "{} has chunks of several stores: give each a folder of its own",
            disk.root()
        )));
    }
    Ok(Some(store))
}

/// The chunks that the folder of `disk` has: store, epoch, and their numbers in order. None where there is none, or where
/// the folder is that of a store. `Invalid` where they are of several stores, or of before and after a clearing: no
/// name of a file says which history is meant.
pub(crate) fn list(disk: &dyn Disk) -> Result<Option<(u64, u64, Vec<u64>)>> {
    let (chunks, root) = (chunks_in(disk)?, disk.root());
    let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else { return Ok(None) };
    if first.0 != last.0 {
        return Err(Error::invalid(format!(
            "{root} has {} and {}, of before and after the store was cleared, which are two histories: move the \
             chunks of one to a folder of their own",
            paths::chunk(first.0, first.1),
            paths::chunk(last.0, last.1)
        )));
    }
    let epoch = last.0;
    let Some(store) = store_of_all(disk, &chunks)? else {
        return store_of(disk, epoch, last.1).map(|_| None);
    };
    Ok(Some((store, epoch, chunks.into_iter().map(|chunk| chunk.1).collect())))
}

/// The store that the chunk says it is of.
fn store_of(disk: &dyn Disk, epoch: u64, number: u64) -> Result<u64> {
    let path = paths::chunk(epoch, number);
    let file = disk.open(&path, Mode::Read, Access::Buffered)?;
    let mut bytes = [0; header::LENGTH];
    let found = file.read_at(0, &mut bytes)?;
    Header::expect(&path, &bytes[..found], FileKind::Pack).map(|header| header.store)
}

/// Whether the folder of `disk` has chunk `number` of `epoch`, and it says that it is of `store`.
pub(crate) fn is_of(disk: &dyn Disk, store: u64, epoch: u64, number: u64) -> bool {
    store_of(disk, epoch, number).is_ok_and(|found| found == store)
}

/// The store whose chunks the folder of `disk` has, whatever their epoch; none where none says so. `Invalid` where there
/// are several.
pub(crate) fn owner(disk: &dyn Disk) -> Result<Option<u64>> {
    store_of_all(disk, &chunks_in(disk)?)
}

/// `Invalid` when the folder of `disk` has chunks of another store than that of `control`, of another copy, or of other epochs
/// alone: those that are moved there would hide that history. A folder that has both already is one that a store counts on.
pub(crate) fn expect_room(disk: &dyn Disk, control: &Control, cache: &Cache) -> Result<()> {
    let (chunks, root, epoch) = (chunks_in(disk)?, disk.root(), control.epoch);
    if let Some((at, _)) = chunks.last()
        && !chunks.iter().any(|chunk| chunk.0 == epoch)
    {
        return Err(Error::invalid(format!(
            "{root} has chunks of epoch {at}, of before or after the store was cleared, and those of epoch {epoch} are another \
             history: give another folder, or remove what is there if nobody needs it"
        )));
    }
    expect_own(disk, control.store)?;
    expect_no_copy(disk, control, cache)
}

/// `Invalid` when the folder of `disk` has another chunk than the store under the name of one that is above: another copy of
/// the store, which went on by itself, or the same before it was put back, has moved it there, and it is not written over.
pub(crate) fn expect_no_copy(disk: &dyn Disk, control: &Control, cache: &Cache) -> Result<()> {
    expect_none_of_copy(disk, (&chunks_in(disk)?, false), control, cache)
}

/// The same where the folder has `chunks`. `Corrupt` for one that is the store's own and damaged, unless it `passes` these.
fn expect_none_of_copy(
    disk: &dyn Disk,
    (chunks, passes): (&[(u64, u64)], bool),
    control: &Control,
    cache: &Cache,
) -> Result<()> {
    let (store, epoch, place) = (control.store, control.epoch, control.checkpoint);
    for (_, number) in chunks.iter().copied().filter(|chunk| chunk.0 == epoch) {
        let row = control.row(number).filter(|row| row.number == number);
        let Some(row) = row.filter(|row| row.state == State::Whole) else { continue };
        let chunk = Chunk::collected(cache, store, epoch, &Row { state: State::Lower, ..*row });
        let is_same = if number != control.last().number {
            chunk.open(disk, store).map(|_| true)
        } else if number == place.chunk && place.before > 0 {
            let file = disk.open(&chunk.path, Mode::Read, Access::Buffered)?;
            let found = append::position_after(&*file, chunk.identity, place.before);
            found.map(|found| found == Some(place.position))
        } else {
            Ok(true)
        };
        match is_same {
            Ok(true) => {}
            Err(error) if !matches!(error.kind(), Kind::Corrupt | Kind::Invalid) => {
                return Err(error);
            }
            Err(error)
                if error.kind() == Kind::Corrupt && is_own_and_damaged(disk, &chunk, store)? =>
            {
                if !passes {
                    return Err(left_damaged(error, disk.root()));
                }
            }
            _ => {
                let what = format!(
                    "in {} is not the chunk that the store has of that name, but one of another copy of it, or damaged: give \
                     another folder; what is there may be all that the copy has of it",
                    disk.root()
                );
                return Err(Error::of_file(Kind::Invalid, &chunk.path, what));
            }
        }
    }
    Ok(())
}

/// A chunk in the folder of `disk` that shows that another copy of the store of `control` moves chunks there too; none where all
/// may be the store's.
pub(crate) fn of_copy(disk: &dyn Disk, control: &Control, cache: &Cache) -> Result<Option<String>> {
    let newest = control.last().number;
    let mut chunks = chunks_in(disk)?;
    let further = chunks.iter().filter(|chunk| chunk.0 == control.epoch && chunk.1 > newest);
    // Another store's is no copy's.
    let mut further = further
        .map(|chunk| paths::chunk(chunk.0, chunk.1))
        .filter(|path| !whose::is_of_another_store(disk, control.store, path));
    if let Some(path) = further.next() {
        return Ok(Some(path));
    }
    // Where one went on by itself the newest differ.
    chunks.reverse();
    match expect_none_of_copy(disk, (&chunks, true), control, cache) {
        Err(error) if error.kind() == Kind::Invalid => Ok(error.file().map(str::to_owned)),
        outcome => outcome.map(|()| None),
    }
}

/// `Invalid` when the folder of `disk` has not the chunk that was moved last: no folder would have all. `Corrupt` when that is
/// damaged at either of its ends, which are read. One of that name says by its end what came before it, so that of a copy which
/// went on by itself is another.
pub(crate) fn expect_last(disk: &dyn Disk, control: &Control, cache: &Cache) -> Result<()> {
    let Some(row) = control.chunks.iter().rfind(|row| row.state.is_lower()) else { return Ok(()) };
    // Opened anew: the folder need not be the one in which it was read before.
    let row = Row { state: State::Lower, ..*row };
    let chunk = Chunk::collected(cache, control.store, control.epoch, &row);
    let (path, root) = (&chunk.path, disk.root());
    let Err(error) = chunk.open_at_ends(disk, control.store) else { return Ok(()) };
    Err(match error.kind() {
        Kind::Missing => Error::invalid(format!(
            "{path} was moved to another folder and is not in {root}: give the folder that has the chunks of this store, \
             which may be on a disk that is not mounted"
        )),
        Kind::Corrupt if is_own_and_damaged(disk, &chunk, control.store)? => error
            .advised(DAMAGE_ADVICE)
            .context(format_args!("no chunk moves: the last one in the lower folder {root} says that it is the right one")),
        Kind::Corrupt | Kind::Invalid => Error::invalid(format!(
            "{path} in {root} is not the chunk that the store has moved, but one of another store or of another copy of it: \
             give the folder that has the chunks of this store"
        )),
        _ => error.context(format_args!("the lower folder {root}")),
    })
}

/// Of a damaged file above in the way of `from`, which comes back from the lower folder `root`.
fn damaged_above(error: Error, files: &Files, from: &Arc<Chunk>, root: &str) -> Error {
    let is_whole = files.get(from).and_then(|source| scan(&*source, from, |_, _| Ok(())));
    error.advised(&match is_whole {
        Ok(()) => {
            format!("remove it, or set it aside: all of that chunk is in the lower folder {root}")
        }
        // Each of the two may have what the other lacks.
        Err(_) => format!(
            "keep it: that chunk is not whole in the lower folder {root} either; {DAMAGE_ADVICE}"
        ),
    })
}

/// Of a chunk in the lower folder `root` that the store has itself, as one that came back while somebody read it.
fn left_damaged(error: Error, root: &str) -> Error {
    error
        .advised(
            "set it aside, or remove it where no copy of the store moves chunks there, which may have no other: the store \
             itself has that chunk above",
        )
        .context(format_args!("the lower folder {root}"))
}

/// Whether what has the name of `chunk`, which is not as it should be, says that it is that all the same, and no copy has made
/// it.
fn is_own_and_damaged(disk: &dyn Disk, chunk: &Chunk, store: u64) -> Result<bool> {
    Ok(!whose::is_others(disk, store, &chunk.path)? && !chunk.is_of_copy(disk, store)?)
}

/// `Invalid` when the folder of `disk` has chunks of another store than `store`.
pub(crate) fn expect_own(disk: &dyn Disk, store: u64) -> Result<()> {
    if owner(disk)?.is_some_and(|found| found != store) {
        return Err(Error::invalid(format!(
            "the chunks in {} belong to another store: give a folder of its own",
            disk.root()
        )));
    }
    Ok(())
}

/// Reads `file`, which should be all of `chunk`, a whole one that has ended. `Corrupt` when a byte of it is not as it
/// was written.
pub(crate) fn scan(
    file: &dyn File,
    chunk: &Chunk,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<()> {
    let found = append::scan(file, chunk.identity, Position::start(), each)?.end;
    if found.offset != chunk.end() || Some(found.chain) != chunk.sealed() {
        let expected = format!("batches up to byte {}", chunk.end());
        return Err(Error::corrupt(&chunk.path, found.offset, expected, "another end"));
    }
    Ok(())
}
