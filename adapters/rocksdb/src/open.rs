//! How databases are opened: which folder, which column families, for writing or not.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use varvite::{Kind, SessionOptions};
use varvite_adapters::{Store, Way, name_of, table_name};

use crate::column_family::{
    ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Family, ThreadMode,
};
use crate::db::{DBInner, DBWithThreadModeInner, Database};
use crate::error::{Error, ErrorKind};
use crate::options::Options;
use crate::shared::Shared;

/// The error of an opening: of a lock it says so as the peer does.
fn not_opened(path: &Path, error: varvite::Error) -> Error {
    let path = path.display();
    match error.kind() {
        Kind::Locked => {
            let text = format!("While lock file: {path}/LOCK: {error}");
            Error::new(ErrorKind::IOError, text)
        }
        Kind::Missing => {
            Error::invalid(format!("{path}: does not exist (create_if_missing is false): {error}"))
        }
        Kind::Exists => {
            Error::invalid(format!("{path}: exists (error_if_exists is true): {error}"))
        }
        _ => error.into(),
    }
}

/// The column families with the default one, which is always open.
fn with_default(
    mut descriptors: Vec<ColumnFamilyDescriptor>,
    options: &Options,
) -> Vec<ColumnFamilyDescriptor> {
    let is_default = |it: &ColumnFamilyDescriptor| it.name == DEFAULT_COLUMN_FAMILY_NAME;
    if !descriptors.iter().any(is_default) {
        let options = if descriptors.is_empty() { options.clone() } else { Options::default() };
        descriptors.push(ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options));
    }
    descriptors
}

/// Opens the tables of `descriptors`, and makes those that may be made.
fn open_families(
    store: &Store,
    descriptors: &[ColumnFamilyDescriptor],
    options: &Options,
    is_read_only: bool,
) -> Result<BTreeMap<String, Arc<Family>>, Error> {
    let there: Vec<String> = {
        let views = store.tables().views();
        views.iter().filter_map(|(table, _)| name_of(table)).collect()
    };
    // Of a store that was just made the default one is not there yet.
    let is_new = there.is_empty();
    let mut families = BTreeMap::new();
    for descriptor in descriptors {
        let name = &descriptor.name;
        let is_default = name == DEFAULT_COLUMN_FAMILY_NAME;
        let may_be_made = !is_read_only && (options.creates_families || is_default);
        if !there.contains(name) && !may_be_made {
            return Err(Error::invalid(format!("Column family not found: {name}")));
        }
        let table = table_name(name)?;
        families.insert(name.clone(), Family::new(name, table, &descriptor.options, None));
    }
    let is_unnamed = |name: &&String| !families.contains_key(*name);
    let unnamed: Vec<_> = there.iter().filter(is_unnamed).map(String::as_str).collect();
    if !is_read_only && !is_new && !unnamed.is_empty() {
        return Err(Error::invalid(format!("Column families not opened: {}", unnamed.join(", "))));
    }
    // Only now: an opening that is refused changes nothing.
    for descriptor in descriptors.iter().filter(|descriptor| !there.contains(&descriptor.name)) {
        store.create_table(&families[&descriptor.name].table, descriptor.options.table())?;
    }
    Ok(families)
}

/// Descriptors of column families of which only the names are given.
fn with_usual_options<N: AsRef<str>>(
    names: impl IntoIterator<Item = N>,
) -> impl Iterator<Item = ColumnFamilyDescriptor> {
    with_options(names.into_iter().map(|name| (name, Options::default())))
}

/// The same of those that have options of their own.
fn with_options<N: AsRef<str>>(
    cfs: impl IntoIterator<Item = (N, Options)>,
) -> impl Iterator<Item = ColumnFamilyDescriptor> {
    cfs.into_iter().map(|(name, options)| ColumnFamilyDescriptor::new(name.as_ref(), options))
}

impl<T: ThreadMode, D: DBInner> Database<T, D> {
    fn open_way(
        options: &Options,
        path: &Path,
        descriptors: Vec<ColumnFamilyDescriptor>,
        way: Way,
    ) -> Result<Self, Error> {
        let descriptors = with_default(descriptors, options);
        let is_read_only = way == Way::ReadOnly;
        let store = Store::open(path, way, options.session());
        let store = store.map_err(|error| not_opened(path, error))?;
        let families = open_families(&store, &descriptors, options, is_read_only)?;
        let default = Arc::clone(&families[DEFAULT_COLUMN_FAMILY_NAME]);
        let shared = Shared::new(store, &families, default, path.to_owned(), options, is_read_only);
        Ok(Database { shared, families: T::over(families), kind: PhantomData })
    }

    /// Opens the database in the folder `path`, which has the default column family alone.
    pub fn open<P: AsRef<Path>>(options: &Options, path: P) -> Result<Self, Error> {
        Self::open_cf(options, path, None::<&str>)
    }

    /// The same, made where there is none.
    pub fn open_default<P: AsRef<Path>>(path: P) -> Result<Self, Error> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, path)
    }

    /// Opens the database in the folder `path`. All column families that are there are to be named.
    pub fn open_cf<P, I, N>(options: &Options, path: P, cfs: I) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = N>,
        N: AsRef<str>,
    {
        Self::open_cf_descriptors(options, path, with_usual_options(cfs))
    }

    /// The same, with options of each.
    pub fn open_cf_with_opts<P, I, N>(options: &Options, path: P, cfs: I) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = (N, Options)>,
        N: AsRef<str>,
    {
        Self::open_cf_descriptors(options, path, with_options(cfs))
    }

    /// The same, with a descriptor of each.
    pub fn open_cf_descriptors<P, I>(options: &Options, path: P, cfs: I) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = ColumnFamilyDescriptor>,
    {
        let way = match (options.creates, options.must_be_new) {
            (true, true) => Way::Create,
            // An empty folder, or none, is refused as any other that has no database.
            (false, true) if Store::is_there(path.as_ref()) => {
                return Err(Error::invalid(format!(
                    "{}: exists (error_if_exists is true)",
                    path.as_ref().display()
                )));
            }
            (true, false) => Way::OpenOrCreate,
            (false, _) => Way::Open,
        };
        Self::open_way(options, path.as_ref(), cfs.into_iter().collect(), way)
    }

    /// The names of the column families of the database in the folder `path`.
    pub fn list_cf<P: AsRef<Path>>(_options: &Options, path: P) -> Result<Vec<String>, Error> {
        let path = path.as_ref();
        let store = Store::open(path, Way::ReadOnly, SessionOptions::default());
        let store = store.map_err(|error| not_opened(path, error))?;
        let views = store.tables().views();
        Ok(views.iter().filter_map(|(table, _)| name_of(table)).collect())
    }
}

impl<T: ThreadMode> Database<T, DBWithThreadModeInner> {
    /// Opens the database in the folder `path` as it is just now, beside whoever writes. As in the peer,
    /// `error_if_log_file_exists` changes nothing here.
    pub fn open_for_read_only<P: AsRef<Path>>(
        options: &Options,
        path: P,
        error_if_log_file_exists: bool,
    ) -> Result<Self, Error> {
        Self::open_cf_for_read_only(options, path, None::<&str>, error_if_log_file_exists)
    }

    /// The same, with some of its column families. Where there are any, `error_if_log_file_exists` has a database
    /// refused that has a log, as has every one that was ever written to.
    pub fn open_cf_for_read_only<P, I, N>(
        options: &Options,
        path: P,
        cfs: I,
        error_if_log_file_exists: bool,
    ) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = N>,
        N: AsRef<str>,
    {
        let cfs = with_usual_options(cfs);
        Self::open_cf_descriptors_read_only(options, path, cfs, error_if_log_file_exists)
    }

    /// The same, with options of each.
    pub fn open_cf_with_opts_for_read_only<P, I, N>(
        options: &Options,
        path: P,
        cfs: I,
        error_if_log_file_exists: bool,
    ) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = (N, Options)>,
        N: AsRef<str>,
    {
        let cfs = with_options(cfs);
        Self::open_cf_descriptors_read_only(options, path, cfs, error_if_log_file_exists)
    }

    /// The same, with a descriptor of each.
    pub fn open_cf_descriptors_read_only<P, I>(
        options: &Options,
        path: P,
        cfs: I,
        error_if_log_file_exists: bool,
    ) -> Result<Self, Error>
    where
        P: AsRef<Path>,
        I: IntoIterator<Item = ColumnFamilyDescriptor>,
    {
        let (path, cfs) = (path.as_ref(), cfs.into_iter().collect::<Vec<_>>());
        let is_refused = error_if_log_file_exists && !cfs.is_empty();
        let database = Self::open_way(options, path, cfs, Way::ReadOnly)?;
        if is_refused && Store::has_log(path) {
            return Err(Error::new(
                ErrorKind::Corruption,
                format!(
                    "{}: The db was opened in readonly mode with error_if_wal_file_exists flag but a WAL file already \
                     exists: without the flag it is read",
                    path.display()
                ),
            ));
        }
        Ok(database)
    }
}
