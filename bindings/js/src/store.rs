//! Context stores.

use js_sys::Array;
use varvite::context::{self, CommitHash, CommitInfo, Durability, Index, Keep, Options};
use wasm_bindgen::prelude::*;

use crate::disk::Disk;
use crate::fault::{Outcome, Throw, closed, invalid};
use crate::input::{
    EXACT_MAX, Given, array, bytes, count, hash, object, optional_bytes, seconds, tell,
};
use crate::options::configuration;
use crate::tree::Tree;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
export interface StoreOptions { configuration?: Configuration; index?: "minimal" | "always"; synced?: boolean; seed?: number | bigint; chunkBytes?: number; objectsBytes?: number; hashesBytes?: number; pagesBytes?: number; treeBytes?: number }
/** What a commit says besides its tree. A date is in seconds since 1970; one that no number has exactly is a bigint. */
export interface CommitInfo { parents?: HashLike[]; date?: number | bigint; author?: Bytes; message?: Bytes }
export interface Commit { hash: Uint8Array; tree: Uint8Array; parents: Uint8Array[]; date: number | bigint; author: Uint8Array; message: Uint8Array }
export interface CollectStatus { phase: string; chunksLeft: number; leftBytes: number; reclaimedBytes: number; collections: number; paused: boolean }
"#;

/// A context store: commits of trees.
#[wasm_bindgen]
pub struct Store(Option<context::Store>);

const OPTIONS: &[&str] = &[
    "configuration",
    "index",
    "synced",
    "seed",
    "chunkBytes",
    "objectsBytes",
    "hashesBytes",
    "pagesBytes",
    "treeBytes",
];

fn store_options(value: &JsValue) -> Outcome<Options> {
    let given = Given::of(value, OPTIONS)?;
    let mut options = Options {
        configuration: configuration(&given.get("configuration")?)?,
        ..Options::default()
    };
    let kinds = [("minimal", Index::Minimal), ("always", Index::Always)];
    if let Some(index) = given.choose("index", &kinds)? {
        options.index = index;
    }
    let synced = given.get("synced")?;
    match synced.as_bool() {
        Some(false) => options.durability = Durability::Written,
        None if !synced.is_undefined() && !synced.is_null() => {
            return Err(invalid("synced must be true or false"));
        }
        _ => {}
    }
    options.seed = given.count("seed")?;
    for (name, place) in [
        ("chunkBytes", &mut options.chunk_bytes),
        ("objectsBytes", &mut options.objects_bytes),
        ("hashesBytes", &mut options.hashes_bytes),
        ("pagesBytes", &mut options.pages_bytes),
        ("treeBytes", &mut options.tree_bytes),
    ] {
        if let Some(bytes) = given.count(name)? {
            *place = bytes;
        }
    }
    Ok(options)
}

fn commit_info(value: &JsValue) -> Outcome<CommitInfo> {
    let given = Given::of(value, &["parents", "date", "author", "message"])?;
    let parents = hashes(&given.get("parents")?)?;
    let date = seconds(&given.get("date")?, "date")?;
    let author = optional_bytes(&given.get("author")?, "author")?.unwrap_or_default();
    let message = optional_bytes(&given.get("message")?, "message")?.unwrap_or_default();
    Ok(CommitInfo::new(&parents, date, author, message))
}

fn hashes(value: &JsValue) -> Outcome<Vec<CommitHash>> {
    if value.is_undefined() || value.is_null() {
        return Ok(Vec::new());
    }
    array(value)?.iter().map(|it| Ok(hash(&it)?.into())).collect()
}

fn told(hashes: &[CommitHash]) -> JsValue {
    hashes.iter().map(|it| tell(Some(it.as_ref()))).collect::<Array>().into()
}

/// A number where that is exact, as all dates are that people write.
fn told_date(date: i64) -> JsValue {
    if (date as f64).abs() <= EXACT_MAX { (date as f64).into() } else { date.into() }
}

fn told_commit(from: &context::Commit) -> JsValue {
    object(&[
        ("hash", tell(Some(from.hash.as_ref()))),
        ("tree", tell(Some(from.tree.as_ref()))),
        ("parents", told(&from.parents)),
        ("date", told_date(from.date)),
        ("author", tell(Some(&from.author))),
        ("message", tell(Some(&from.message))),
    ])
}

type Opening =
    fn(std::sync::Arc<dyn varvite::disk::Disk>, Options) -> varvite::Result<context::Store>;

fn opened(disk: &Disk, options: &JsValue, open: Opening) -> Outcome<Store> {
    let options = store_options(options)?;
    open(disk.shared(), options).throw().map(|it| Store(Some(it)))
}

impl Store {
    fn look(&self) -> Outcome<&context::Store> {
        self.0.as_ref().ok_or_else(|| closed("store"))
    }

    fn change(&mut self) -> Outcome<&mut context::Store> {
        self.0.as_mut().ok_or_else(|| closed("store"))
    }
}

#[wasm_bindgen]
impl Store {
    /// Makes a store on an empty disk.
    pub fn create(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> Outcome<Store> {
        opened(disk, &options, context::Store::create)
    }

    /// Opens the store that the disk has.
    pub fn open(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> Outcome<Store> {
        opened(disk, &options, context::Store::open)
    }

    /// Opens the store that the disk has, or makes one.
    #[wasm_bindgen(js_name = openOrCreate)]
    pub fn open_or_create(
        disk: &Disk,
        #[wasm_bindgen(unchecked_optional_param_type = "StoreOptions")] options: JsValue,
    ) -> Outcome<Store> {
        opened(disk, &options, context::Store::open_or_create_on)
    }

    /// An empty working tree, which spills to the store's files what is too much for memory.
    #[wasm_bindgen(js_name = emptyTree)]
    pub fn empty_tree(&self) -> Outcome<Tree> {
        Ok(Tree(self.look()?.empty_tree()))
    }

    /// The tree of a commit, loaded as it is looked at.
    pub fn checkout(
        &self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome<Tree> {
        self.look()?.checkout(&hash(&commit)?.into()).throw().map(Tree)
    }

    /// Commits `tree`, which is then the committed one, and gives the commit's hash. After an error nothing is changed.
    pub fn commit(
        &mut self,
        tree: &mut Tree,
        #[wasm_bindgen(unchecked_optional_param_type = "CommitInfo")] info: JsValue,
    ) -> Outcome<Vec<u8>> {
        let info = commit_info(&info)?;
        let hash = self.change()?.commit(&mut tree.0, &info).throw()?;
        Ok(hash.as_ref().to_vec())
    }

    /// Whether a commit with this hash is here.
    pub fn exists(
        &self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome<bool> {
        self.look()?.exists(&hash(&commit)?.into()).throw()
    }

    /// What a commit says.
    #[wasm_bindgen(js_name = commitInfo, unchecked_return_type = "Commit")]
    pub fn commit_info(
        &self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome<JsValue> {
        Ok(told_commit(&self.look()?.commit_info(&hash(&commit)?.into()).throw()?))
    }

    /// The commit that the store took last; undefined in an empty store.
    #[wasm_bindgen(js_name = lastCommit)]
    pub fn last_commit(&self) -> Outcome<Option<Vec<u8>>> {
        Ok(self.look()?.last_commit().throw()?.map(|it| it.as_ref().to_vec()))
    }

    /// Up to `limit` commits, the newest first.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array[]")]
    pub fn log(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] limit: JsValue,
    ) -> Outcome<JsValue> {
        let limit = count(&limit, "the limit")?.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(told(&self.look()?.log(limit).throw()?))
    }

    /// Has a branch name a commit. A branch's name is 1 to 4,096 bytes.
    #[wasm_bindgen(js_name = setBranch)]
    pub fn set_branch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] name: JsValue,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome {
        let (name, commit) = (bytes(&name, "name of a branch")?, hash(&commit)?.into());
        self.change()?.set_branch(&name, &commit).throw()
    }

    /// The commit that a branch names; undefined when there is no such branch.
    pub fn branch(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] name: JsValue,
    ) -> Outcome<Option<Vec<u8>>> {
        Ok(self.look()?.branch(&bytes(&name, "name of a branch")?).map(|it| it.as_ref().to_vec()))
    }

    /// The branches, each `[name, commit]`.
    #[wasm_bindgen(unchecked_return_type = "[Uint8Array, Uint8Array][]")]
    pub fn branches(&self) -> Outcome<JsValue> {
        let pairs = self
            .look()?
            .branches()
            .into_iter()
            .map(|(name, commit)| Array::of2(&tell(Some(&name)), &tell(Some(commit.as_ref()))));
        Ok(pairs.collect::<Array>().into())
    }

    /// Removes a branch; its commits stay.
    #[wasm_bindgen(js_name = removeBranch)]
    pub fn remove_branch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] name: JsValue,
    ) -> Outcome {
        let name = bytes(&name, "name of a branch")?;
        self.change()?.remove_branch(&name).throw()
    }

    /// Begins to collect what only commits before this one reach, but for what branches and pins keep.
    pub fn collect(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] target: JsValue,
    ) -> Outcome {
        let target = hash(&target)?.into();
        self.change()?.collect(&target).throw()
    }

    /// Begins to collect what only commits before the newest `keep` reach. `false` when there is nothing to take.
    #[wasm_bindgen(js_name = collectKeeping)]
    pub fn collect_keeping(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "number")] keep: JsValue,
    ) -> Outcome<bool> {
        let newest = count(&keep, "the number of commits to keep")?
            .ok_or_else(|| invalid("say how many commits to keep"))?;
        self.change()?.collect_keeping(&Keep::Newest(newest)).throw()
    }

    /// Does some of a collection that was begun: about `credits` KiB read or written. `false` when it is at its end.
    #[wasm_bindgen(js_name = collectStep)]
    pub fn collect_step(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "number")] credits: JsValue,
    ) -> Outcome<bool> {
        let credits = count(&credits, "credits")?.unwrap_or(1000);
        self.change()?.collect_step(credits).throw()
    }

    /// How far a collection is.
    #[wasm_bindgen(js_name = collectStatus, unchecked_return_type = "CollectStatus")]
    pub fn collect_status(&self) -> Outcome<JsValue> {
        let it = self.look()?.collect_status().throw()?;
        Ok(object(&[
            ("phase", format!("{:?}", it.phase).to_ascii_lowercase().into()),
            ("chunksLeft", (it.chunks_left as f64).into()),
            ("leftBytes", (it.left_bytes as f64).into()),
            ("reclaimedBytes", (it.reclaimed_bytes as f64).into()),
            ("collections", (it.collections as f64).into()),
            ("paused", it.is_paused.into()),
        ]))
    }

    /// Lets steps do nothing until `collectResume`, also of whoever opens the store later.
    #[wasm_bindgen(js_name = collectPause)]
    pub fn collect_pause(&mut self) -> Outcome {
        self.change()?.collect_pause().throw()
    }

    /// Lets steps go on.
    #[wasm_bindgen(js_name = collectResume)]
    pub fn collect_resume(&mut self) -> Outcome {
        self.change()?.collect_resume().throw()
    }

    /// Ends a collection; whether one was under way. What is collected stays so.
    #[wasm_bindgen(js_name = collectCancel)]
    pub fn collect_cancel(&mut self) -> Outcome<bool> {
        self.change()?.collect_cancel().throw()
    }

    /// Pins every n-th commit that goes with no collection; how many were not pinned before.
    #[wasm_bindgen(js_name = pinEvery)]
    pub fn pin_every(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "number")] nth: JsValue,
    ) -> Outcome<f64> {
        let nth = count(&nth, "nth")?.unwrap_or(0);
        Ok(self.change()?.pin_every(nth).throw()? as f64)
    }

    /// The commits that are pinned, in the order in which the store took them.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array[]")]
    pub fn pins(&self) -> Outcome<JsValue> {
        Ok(told(&self.look()?.pins().throw()?))
    }

    /// Keeps a commit, whatever is collected.
    pub fn pin(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome {
        let commit = hash(&commit)?.into();
        self.change()?.pin(&commit).throw()
    }

    /// Lets a commit go that was pinned; whether it was.
    pub fn unpin(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "HashLike")] commit: JsValue,
    ) -> Outcome<bool> {
        let commit = hash(&commit)?.into();
        self.change()?.unpin(&commit).throw()
    }

    /// What the store has to say, a sentence each.
    pub fn warnings(&self) -> Outcome<Vec<String>> {
        Ok(self.look()?.warnings())
    }

    /// Closes the store; once more does nothing.
    pub fn close(&mut self) -> Outcome {
        self.0.take().map_or(Ok(()), |store| store.close().throw())
    }
}
