//! Column families: live tables with names of any letters.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use varvite::View;

use crate::error::Error;
use crate::options::Options;
use crate::prefixes::SliceTransform;

/// The column family that is always there.
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// A column family to open or to make.
pub struct ColumnFamilyDescriptor {
    pub(crate) name: String,
    pub(crate) options: Options,
}

impl ColumnFamilyDescriptor {
    /// The column family `name`, with `options` where it is made.
    pub fn new<S: Into<String>>(name: S, options: Options) -> Self {
        ColumnFamilyDescriptor { name: name.into(), options }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What is known of an open column family.
pub struct Family {
    /// Which one it is: its name may belong to another one later. Later ones have greater numbers.
    pub(crate) number: u64,
    name: String,
    pub(crate) table: String,
    pub(crate) prefix: Option<SliceTransform>,
    /// What older snapshots see of it: nothing. None when it was there at the opening.
    pub(crate) born: Option<View>,
    /// What it had when it was dropped.
    retired: RwLock<Option<View>>,
}

impl Family {
    pub(crate) fn new(
        name: &str,
        table: String,
        options: &Options,
        born: Option<View>,
    ) -> Arc<Family> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Arc::new(Family {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            table,
            prefix: options.prefix.clone(),
            born,
            retired: RwLock::default(),
        })
    }

    pub(crate) fn retired(&self) -> Option<View> {
        self.retired.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on it is what `view` shows; with none it is in use again.
    pub(crate) fn retire(&self, view: Option<View>) {
        *self.retired.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// The error of a write to it when it was dropped, or belongs to another database.
    pub(crate) fn gone(&self) -> Error {
        Error::invalid(format!(
            "Invalid column family specified in write batch: \"{}\" was dropped or is of another database; take a \
             new handle with cf_handle",
            self.name.escape_debug()
        ))
    }
}

/// A handle of a [`SingleThreaded`] database.
pub struct ColumnFamily(pub(crate) Arc<Family>);

/// A handle of a [`MultiThreaded`] database.
pub struct BoundColumnFamily<'a> {
    pub(crate) family: Arc<Family>,
    pub(crate) database: PhantomData<&'a ()>,
}

/// What [`DBCommon::cf_handle`](crate::DBCommon) gives.
#[cfg(not(feature = "multi-threaded-cf"))]
pub type ColumnFamilyRef<'a> = &'a ColumnFamily;

/// What [`DBCommon::cf_handle`](crate::DBCommon) gives.
#[cfg(feature = "multi-threaded-cf")]
pub type ColumnFamilyRef<'a> = Arc<BoundColumnFamily<'a>>;

/// A handle of either kind.
pub trait AsColumnFamilyRef {
    /// The column family.
    #[doc(hidden)]
    fn family(&self) -> &Arc<Family>;
}

impl AsColumnFamilyRef for ColumnFamily {
    fn family(&self) -> &Arc<Family> {
        &self.0
    }
}

impl AsColumnFamilyRef for &ColumnFamily {
    fn family(&self) -> &Arc<Family> {
        &self.0
    }
}

impl AsColumnFamilyRef for Arc<BoundColumnFamily<'_>> {
    fn family(&self) -> &Arc<Family> {
        &self.family
    }
}

/// How a database holds its column families.
pub trait ThreadMode {
    /// All of them.
    #[doc(hidden)]
    fn over(families: BTreeMap<String, Arc<Family>>) -> Self;
}

/// They come and go through `&mut`.
pub struct SingleThreaded {
    pub(crate) families: BTreeMap<String, ColumnFamily>,
}

/// They come and go through `&`.
pub struct MultiThreaded {
    pub(crate) families: RwLock<BTreeMap<String, Arc<Family>>>,
}

impl ThreadMode for SingleThreaded {
    fn over(families: BTreeMap<String, Arc<Family>>) -> Self {
        let families = families.into_iter().map(|(name, family)| (name, ColumnFamily(family)));
        SingleThreaded { families: families.collect() }
    }
}

impl ThreadMode for MultiThreaded {
    fn over(families: BTreeMap<String, Arc<Family>>) -> Self {
        MultiThreaded { families: RwLock::new(families) }
    }
}
