//! A disk that tells of every call before it is made, and knows whether its lock is held.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use varvite::disk::{Access, Completion, Disk, File, Linked, Lock, Mode, Queue, Read, SerialQueue};
use varvite::{Error, Kind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open(Mode),
    Rename,
    Remove,
    List,
    CreateDirectory,
    Exists,
    SyncDirectory,
    Lock,
    Link,
    Read,
    Write,
    Sync,
    SetLen,
    Preallocate,
    Len,
    /// A read given to a queue, which does it when it is asked for a completion.
    Submit,
    /// A queue is made.
    Queue,
}

impl Call {
    /// Whether it changes what is on the disk, or makes a change durable.
    pub fn changes(self) -> bool {
        let reads = [Call::Open(Mode::Read), Call::List, Call::Exists, Call::Read, Call::Len];
        !reads.contains(&self) && ![Call::Submit, Call::Queue].contains(&self)
    }
}

type Hook = Arc<dyn Fn(Call, &str) + Send + Sync>;

/// Whether a write to the file at a path, which was done, is said to have failed.
type Fails = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Told of each file's reads, of its path, where and how many bytes; whether it fails.
type Reads = Arc<dyn Fn(&str, u64, usize) -> bool + Send + Sync>;

pub struct HookedDisk {
    inner: Arc<dyn Disk>,
    before: Hook,
    fails: Option<Fails>,
    reads: Option<Reads>,
    /// Asked of each file that is to be removed whether that fails.
    removals: Option<Fails>,
    /// Asked of each file that is to be opened, and each folder that is to be listed.
    looks: Option<Fails>,
    locked: Arc<AtomicBool>,
    /// Whether what was opened to read cannot be synced, as on NTFS.
    is_strict: bool,
}

impl HookedDisk {
    pub fn new(
        inner: Arc<dyn Disk>,
        before: impl Fn(Call, &str) + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        Self::with_lock(inner, Arc::default(), before)
    }

    /// `locked` says whether the lock is held.
    pub fn with_lock(
        inner: Arc<dyn Disk>,
        locked: Arc<AtomicBool>,
        before: impl Fn(Call, &str) + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        let (before, is_strict) = (Arc::new(before), false);
        Arc::new(HookedDisk {
            inner,
            before,
            fails: None,
            reads: None,
            removals: None,
            looks: None,
            locked,
            is_strict,
        })
    }

    /// A file that was opened by [`Mode::Read`] refuses to be synced, as those of NTFS do.
    pub fn strict(inner: Arc<dyn Disk>) -> Arc<HookedDisk> {
        let (before, locked) = (Arc::new(|_: Call, _: &str| {}), Arc::default());
        let (fails, reads, removals) = (None, None, None);
        Arc::new(HookedDisk {
            inner,
            before,
            fails,
            reads,
            removals,
            looks: None,
            locked,
            is_strict: true,
        })
    }

    /// `reads` is told of each file's reads: its path, and how many bytes.
    pub fn counting_reads(
        inner: Arc<dyn Disk>,
        reads: impl Fn(&str, usize) + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        Self::failing_reads(inner, move |path, _, bytes| {
            reads(path, bytes);
            false
        })
    }

    /// `fails` is asked of each file's reads whether they fail: of its path, where and how many bytes.
    pub fn failing_reads(
        inner: Arc<dyn Disk>,
        fails: impl Fn(&str, u64, usize) -> bool + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        let (before, locked) = (Arc::new(|_: Call, _: &str| {}), Arc::default());
        let reads: Option<Reads> = Some(Arc::new(fails));
        let (fails, removals) = (None, None);
        Arc::new(HookedDisk {
            inner,
            before,
            fails,
            reads,
            removals,
            looks: None,
            locked,
            is_strict: false,
        })
    }

    /// After each write `fails` is asked whether to say that it failed; its bytes are there then.
    pub fn failing_writes(
        inner: Arc<dyn Disk>,
        fails: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        let (before, locked) = (Arc::new(|_: Call, _: &str| {}), Arc::default());
        let fails: Option<Fails> = Some(Arc::new(fails));
        let (reads, removals) = (None, None);
        Arc::new(HookedDisk {
            inner,
            before,
            fails,
            reads,
            removals,
            looks: None,
            locked,
            is_strict: false,
        })
    }

    /// A file of which `fails` says so cannot be opened, nor can such a folder be listed.
    pub fn refusing(
        inner: Arc<dyn Disk>,
        fails: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        let (before, locked) = (Arc::new(|_: Call, _: &str| {}), Arc::default());
        let looks: Option<Fails> = Some(Arc::new(fails));
        let (fails, reads, removals, is_strict) = (None, None, None, false);
        Arc::new(HookedDisk { inner, before, fails, reads, removals, looks, locked, is_strict })
    }

    fn look(&self, action: &str, path: &str) -> Result<()> {
        if self.looks.as_ref().is_some_and(|fails| fails(path)) {
            return Err(Error::io(action, path, std::io::ErrorKind::PermissionDenied.into()));
        }
        Ok(())
    }

    /// A file of which `fails` says so cannot be removed.
    pub fn failing_removals(
        inner: Arc<dyn Disk>,
        fails: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        let (before, locked) = (Arc::new(|_: Call, _: &str| {}), Arc::default());
        let (fails, reads, removals): (_, _, Option<Fails>) = (None, None, Some(Arc::new(fails)));
        Arc::new(HookedDisk {
            inner,
            before,
            fails,
            reads,
            removals,
            looks: None,
            locked,
            is_strict: false,
        })
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedDisk")
    }
}

#[derive(Debug)]
struct HookedLock {
    inner: Box<dyn Lock>,
    locked: Arc<AtomicBool>,
}

impl Lock for HookedLock {
    fn check(&self) -> Result<()> {
        self.inner.check()
    }
}

impl Drop for HookedLock {
    fn drop(&mut self) {
        self.locked.store(false, SeqCst);
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        (self.before)(Call::Open(mode), path);
        self.look("open", path)?;
        let inner = self.inner.open(path, mode, access)?;
        let (before, fails) = (Arc::clone(&self.before), self.fails.clone());
        let refuses_sync = self.is_strict && mode == Mode::Read;
        Ok(Arc::new(HookedFile { inner, before, fails, reads: self.reads.clone(), refuses_sync }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        (self.before)(Call::Rename, from);
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        (self.before)(Call::Remove, path);
        if self.removals.as_ref().is_some_and(|fails| fails(path)) {
            let refused = std::io::ErrorKind::PermissionDenied.into();
            return Err(Error::io("remove", path, refused));
        }
        self.inner.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        (self.before)(Call::List, directory);
        self.look("list", directory)?;
        self.inner.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        (self.before)(Call::CreateDirectory, path);
        self.inner.create_directory(path)
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        (self.before)(Call::Remove, path);
        self.inner.remove_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        (self.before)(Call::Exists, path);
        self.inner.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        (self.before)(Call::SyncDirectory, path);
        self.inner.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        (self.before)(Call::Lock, path);
        let inner = self.inner.lock(path, holder)?;
        self.locked.store(true, SeqCst);
        Ok(Box::new(HookedLock { inner, locked: Arc::clone(&self.locked) }))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        (self.before)(Call::Link, from);
        self.inner.link_or_copy(from, to)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        (self.before)(Call::Queue, "");
        let before = Arc::clone(&self.before);
        Ok(Box::new(HookedQueue { inner: SerialQueue::new(depth), before }))
    }

    fn entropy(&self) -> Result<u64> {
        self.inner.entropy()
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

struct HookedQueue {
    inner: SerialQueue,
    before: Hook,
}

impl fmt::Debug for HookedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedQueue")
    }
}

impl Queue for HookedQueue {
    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn pending(&self) -> usize {
        self.inner.pending()
    }

    fn submit(&mut self, read: Read) -> Result<()> {
        (self.before)(Call::Submit, read.file.path());
        self.inner.submit(read)
    }

    fn complete(&mut self) -> Result<Option<Completion>> {
        self.inner.complete()
    }
}

struct HookedFile {
    inner: Arc<dyn File>,
    before: Hook,
    fails: Option<Fails>,
    reads: Option<Reads>,
    refuses_sync: bool,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HookedFile({})", self.inner.path())
    }
}

impl HookedFile {
    fn tell(&self, call: Call) {
        (self.before)(call, self.inner.path());
    }
}

impl File for HookedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.tell(Call::Read);
        if let Some(reads) = &self.reads
            && reads(self.inner.path(), offset, buffer.len())
        {
            return Err(Error::new(Kind::Io, "as ordered"));
        }
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.tell(Call::Write);
        self.inner.write_at(offset, bytes)?;
        match &self.fails {
            Some(fails) if fails(self.inner.path()) => Err(Error::new(Kind::Io, "as ordered")),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> Result<()> {
        self.tell(Call::Sync);
        if self.refuses_sync {
            return Err(Error::new(Kind::Io, "access is denied: it was opened to read"));
        }
        self.inner.sync()
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.tell(Call::SetLen);
        self.inner.set_len(length_bytes)
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.tell(Call::Preallocate);
        self.inner.preallocate(length_bytes)
    }

    fn len(&self) -> Result<u64> {
        self.tell(Call::Len);
        self.inner.len()
    }

    fn path(&self) -> &str {
        self.inner.path()
    }

    fn access(&self) -> Access {
        self.inner.access()
    }
}
