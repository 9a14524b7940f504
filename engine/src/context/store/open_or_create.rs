//! A store, whether it is there already or not.

pub(super) mod discard;

use std::path::Path;
use std::sync::Arc;

use super::Store;
use crate::context::files::control::Control;
use crate::context::options::Options;
use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::{Error, Kind, Result};

impl Store {
    /// Opens the store in `folder` for writing, or makes it, with the folder and those above it, where there is
    /// none. What [`Store::open`] and [`Store::create`] cost and refuse; `Invalid` when the store that is there was made
    /// with another [`configuration`](Options::configuration) or [`index`](Options::index) than `options` say.
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Options, Store};
    /// # let temporary = tempfile::tempdir().expect("a folder for temporary files");
    /// # let folder = temporary.path().join("context");
    /// # for run in 0..2 {
    ///
    /// let mut store = Store::open_or_create(&folder, Options::default())?;
    /// if store.branch(b"main").is_none() {
    /// #   assert_eq!(run, 0);
    ///     let mut tree = store.empty_tree();
    ///     tree.add(&["version"], b"1")?;
    ///     let genesis = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "genesis"))?;
    ///     store.set_branch(b"main", &genesis)?;
    /// }
    /// # }
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn open_or_create(folder: impl AsRef<Path>, options: Options) -> Result<Store> {
        Self::open_or_create_on(OsDisk::create(folder.as_ref())?, options)
    }

    /// The same in the root folder of `disk`.
    #[expect(clippy::needless_pass_by_value, reason = "as the other openings take them")]
    pub fn open_or_create_on(disk: Arc<dyn Disk>, options: Options) -> Result<Store> {
        let open = |disk: Arc<dyn Disk>| {
            options.check()?;
            // Before anything is written to it.
            expect_made_with(&*disk, &options)?;
            Self::open(disk, options.clone())
        };
        match open(Arc::clone(&disk)) {
            Err(error) if error.kind() == Kind::Missing => {}
            opened => return opened,
        }
        match Self::create(Arc::clone(&disk), options.clone()) {
            // Another process has made it meanwhile.
            Err(error) if error.kind() == Kind::Exists => open(disk),
            created => created,
        }
    }
}

/// `Invalid` when the store on `disk` has other answers than one that is made with `options`, `Missing` without one.
fn expect_made_with(disk: &dyn Disk, options: &Options) -> Result<()> {
    let Control { configuration, index, .. } = Control::read(disk)?;
    if configuration == options.configuration && index == options.index {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the store in {} was made with {configuration:?} and the index {index:?}, and {:?} with {:?} is asked for: \
         give the options that it has, or choose another folder",
        disk.root(),
        options.configuration,
        options.index
    )))
}
