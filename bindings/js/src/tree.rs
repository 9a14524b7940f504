//! Trees: states of a context, of a store or of a proof.

use js_sys::{Array, Function};
use varvite::context::{self, Depth, Kind, Order};
use wasm_bindgen::convert::TryFromJsValue;
use wasm_bindgen::prelude::*;

use crate::fault::{Outcome, Raised, Throw, invalid};
use crate::input::{Given, bytes, count, object, path, tell};
use crate::options::configuration;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A child of a directory. */
export interface Child { name: Uint8Array; kind: "value" | "directory"; tree: Tree }
/** How deep a fold goes below where it begins: 0 is there. */
export interface FoldOptions { depth?: number; order?: "sorted" | "stored" }
"#;

/// A state of a context: a tree of values. Closed by `free()`, or when nothing refers to it any more.
#[wasm_bindgen]
pub struct Tree(pub(crate) context::Tree);

pub fn kind(kind: Kind) -> JsValue {
    match kind {
        Kind::Value => "value".into(),
        Kind::Directory => "directory".into(),
    }
}

fn told_path(path: &[Vec<u8>]) -> JsValue {
    path.iter().map(|step| tell(Some(step))).collect::<Array>().into()
}

#[wasm_bindgen]
impl Tree {
    /// An empty tree of no store.
    #[wasm_bindgen(constructor)]
    pub fn empty(
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<Tree> {
        Ok(Tree(context::Tree::empty(configuration(&shape)?)))
    }

    /// A tree that is one value.
    #[wasm_bindgen(js_name = ofValue)]
    pub fn of_value(
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Configuration")] shape: JsValue,
    ) -> Outcome<Tree> {
        Ok(Tree(context::Tree::of_value(configuration(&shape)?, &bytes(&value, "value")?)))
    }

    /// The same state, independent from now on. O(1).
    pub fn duplicate(&self) -> Tree {
        Tree(self.0.clone())
    }

    /// The value at a path; undefined when nothing is there, or a directory.
    #[wasm_bindgen(unchecked_return_type = "Uint8Array | undefined")]
    pub fn find(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
    ) -> Outcome<JsValue> {
        Ok(tell(self.0.find(&path(&at)?).throw()?.as_deref()))
    }

    /// Whether a value is at a path.
    pub fn mem(&self, #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue) -> Outcome<bool> {
        self.0.mem(&path(&at)?).throw()
    }

    /// Whether anything is at a path, a value or a directory.
    #[wasm_bindgen(js_name = memTree)]
    pub fn mem_tree(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
    ) -> Outcome<bool> {
        self.0.mem_tree(&path(&at)?).throw()
    }

    /// What is at a path, as a tree of its own; undefined when nothing is.
    #[wasm_bindgen(js_name = findTree)]
    pub fn find_tree(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
    ) -> Outcome<Option<Tree>> {
        Ok(self.0.find_tree(&path(&at)?).throw()?.map(Tree))
    }

    /// Binds a path to a value; a directory there is replaced.
    pub fn add(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
        #[wasm_bindgen(unchecked_param_type = "Bytes")] value: JsValue,
    ) -> Outcome {
        self.0.add(&path(&at)?, &bytes(&value, "value")?).throw()
    }

    /// Binds a path to a tree, sharing all of it; an empty one removes what is there.
    #[wasm_bindgen(js_name = addTree)]
    pub fn add_tree(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
        tree: &Tree,
    ) -> Outcome {
        self.0.add_tree(&path(&at)?, &tree.0).throw()
    }

    /// Removes what is at a path; nothing happens when nothing is.
    pub fn remove(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
    ) -> Outcome {
        self.0.remove(&path(&at)?).throw()
    }

    /// How many children the directory at a path has; 0 for a value or nothing.
    pub fn length(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Path")] at: JsValue,
    ) -> Outcome<f64> {
        Ok(self.0.length(&path(&at)?).throw()? as f64)
    }

    /// Up to `length` children of the directory at a path after the first `offset`, in stored order.
    #[wasm_bindgen(unchecked_return_type = "Child[]")]
    pub fn list(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Path")] at: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] offset: JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "number")] length: JsValue,
    ) -> Outcome<JsValue> {
        let (offset, length) = (count(&offset, "offset")?, count(&length, "length")?);
        let children =
            self.0.list(&path(&at)?, offset.unwrap_or(0), length.unwrap_or(u64::MAX)).throw()?;
        let told = children.into_iter().map(|(name, tree)| {
            object(&[
                ("name", tell(Some(&name))),
                ("kind", kind(tree.kind())),
                ("tree", Tree(tree).into()),
            ])
        });
        Ok(told.collect::<Array>().into())
    }

    /// Calls `each` with the path below `at` and the tree of everything there, a directory before its children. The
    /// tree is the program's own.
    pub fn fold(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Path")] at: JsValue,
        #[wasm_bindgen(unchecked_param_type = "(path: Uint8Array[], tree: Tree) => void")]
        each: Function,
        #[wasm_bindgen(unchecked_optional_param_type = "FoldOptions")] options: JsValue,
    ) -> Outcome {
        let given = Given::of(&options, &["depth", "order"])?;
        let orders = [("sorted", Order::Sorted), ("stored", Order::Undefined)];
        let order = given.choose("order", &orders)?.unwrap_or(Order::Sorted);
        let depth =
            given.count("depth")?.map(|it| Depth::Eq(usize::try_from(it).unwrap_or(usize::MAX)));
        let mut raised = Raised::default();
        let outcome = self.0.fold(&path(&at)?, depth, order, |path, tree| {
            let tree = Tree(tree.clone()).into();
            raised.keep(each.call2(&JsValue::UNDEFINED, &told_path(path), &tree)).map(drop)
        });
        raised.outcome(outcome)
    }

    /// The hash of the tree: of its directory, or of the value that it is.
    pub fn hash(&self) -> Outcome<Vec<u8>> {
        let hash = self.0.hash().throw()?;
        Ok(hash.as_ref().to_vec())
    }

    /// Whether both are the same state, by their hashes.
    pub fn equal(&self, other: &Tree) -> Outcome<bool> {
        self.0.equal(&other.0).throw()
    }

    /// Whether the tree is a value or a directory.
    #[wasm_bindgen(getter, unchecked_return_type = "\"value\" | \"directory\"")]
    pub fn kind(&self) -> JsValue {
        kind(self.0.kind())
    }

    /// The value that the tree is; undefined for a directory.
    #[wasm_bindgen(getter, unchecked_return_type = "Uint8Array | undefined")]
    pub fn value(&self) -> Outcome<JsValue> {
        Ok(tell(self.0.to_value().throw()?.as_deref()))
    }

    /// Whether the tree is a directory without entries.
    #[wasm_bindgen(getter, js_name = isEmpty)]
    pub fn is_empty(&self) -> Outcome<bool> {
        self.0.is_empty().throw()
    }
}

/// Lends `tree` to a function of the program, and takes it back with what the function changed.
pub fn lend(
    tree: &mut context::Tree,
    raised: &mut Raised,
    work: &Function,
) -> varvite::Result<JsValue> {
    let stand_in = context::Tree::empty(tree.configuration());
    let lent: JsValue = Tree(std::mem::replace(tree, stand_in)).into();
    let answer = work.call1(&JsValue::UNDEFINED, &lent);
    let taken = Tree::try_from_js_value(lent).map_err(|_| {
        invalid(
            "the function freed the tree that it was given: it is freed when the function returns",
        )
    });
    // What the function threw matters more than what it freed.
    let answer = raised.keep(answer)?;
    *tree = raised.keep(taken)?.0;
    Ok(answer)
}
