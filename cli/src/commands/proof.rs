//! `varvite proof`: parts of a context that anybody can check who knows a root hash.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use varvite::context::{Configuration, Kind, Tree, TreeHash, hash};
use varvite::proof::{self, Encoding, Kinded, Proof, Read, Shown};
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::input;
use crate::print::{self, Format, records};
use crate::store::context::{Folder, commit};
use crate::system::files;
use crate::text::{self, Notation};

/// Make, check and show proofs of what a context holds
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a proof of what is at some paths, or that nothing is there
    Make(Make),
    /// Check a proof against a root hash, and say what it proves of some paths
    Check(Check),
    /// Show what a proof reveals and what it hides
    Show(Show),
}

/// How to write a proof.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Octez' first encoding
    V1,
    /// Octez' second encoding, the smallest
    V2,
    /// Text
    Json,
}

impl From<Form> for Encoding {
    fn from(form: Form) -> Encoding {
        match form {
            Form::V1 => Encoding::V1,
            Form::V2 => Encoding::V2,
            Form::Json => Encoding::Json,
        }
    }
}

/// Of which kind of tree a proof is: a piece of a directory has the same hash in both, and its names
/// belong into other buckets.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shape {
    /// The context of the chain: 32 buckets an inode
    Tezos,
    /// Two buckets an inode, as `context create --binary` makes it
    TezosBinary,
}

impl From<Shape> for Configuration {
    fn from(shape: Shape) -> Configuration {
        match shape {
            Shape::Tezos => Configuration::TEZOS,
            Shape::TezosBinary => Configuration::TEZOS_BINARY,
        }
    }
}

/// What the one who checks knows of the tree; a proof that says otherwise is refused.
#[derive(Debug, Args)]
struct Told {
    /// The configuration of the tree that the proof must be of: the proof's own word for it is not taken
    #[arg(long, value_enum)]
    configuration: Shape,
}

#[derive(Debug, Args)]
pub struct Make {
    #[command(flatten)]
    folder: Folder,
    /// Hash of a commit, a branch, or "last"
    commit: String,
    /// Paths, steps joined by "/"
    #[arg(required_unless_present_any = ["put", "remove"])]
    paths: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    /// Make a stream proof: its pieces in the order in which they are looked at
    #[arg(long)]
    stream: bool,
    /// How to write it
    #[arg(long, value_enum, default_value = "v2")]
    encoding: Form,
    /// The file to write, and a report to standard output; without it the proof goes there
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Steps and values are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// What a proof is of beside reading: the side that checks it gives the same.
#[derive(Debug, Args)]
struct Changes {
    /// Then remove this; may be repeated
    #[arg(long, value_name = "PATH")]
    remove: Vec<String>,
    /// Then put this value there; may be repeated
    #[arg(long, num_args = 2, value_names = ["PATH", "VALUE"])]
    put: Vec<String>,
}

/// Reads of paths, and changes after them: the function that a proof is of.
struct Task {
    paths: Vec<Vec<Vec<u8>>>,
    removed: Vec<Vec<Vec<u8>>>,
    put: Vec<(Vec<Vec<u8>>, Vec<u8>)>,
}

impl Task {
    fn new(notation: Notation, paths: &[String], changes: &Changes) -> Result<Task> {
        let all = |paths: &[String]| -> Result<Vec<_>> {
            paths.iter().map(|path| notation.path(path)).collect()
        };
        let put = changes.put.as_chunks::<2>().0.iter();
        let put = put
            .map(|[path, value]| Ok((notation.path(path)?, notation.parse("value", value)?)))
            .collect::<Result<_>>()?;
        Ok(Task { paths: all(paths)?, removed: all(&changes.remove)?, put })
    }

    /// How many changes there are.
    fn count(&self) -> usize {
        self.removed.len() + self.put.len()
    }

    fn changes(&self) -> bool {
        self.count() > 0
    }

    /// Looks at every path, removes, puts.
    fn run(&self, tree: &mut Tree) -> Result<Vec<Read>> {
        let found = self.paths.iter().map(|path| proof::read(tree, path)).collect::<Result<_>>()?;
        for path in &self.removed {
            tree.remove(path)?;
        }
        for (path, value) in &self.put {
            tree.add(path, value)?;
        }
        Ok(found)
    }
}

#[derive(Debug, Args)]
pub struct Check {
    /// The proof, in any encoding
    file: PathBuf,
    /// Hash of the tree that the proof must be of, as `proof make` and `context log --format json` give it; not a commit's
    #[arg(long)]
    root: String,
    #[command(flatten)]
    told: Told,
    /// Hash of the tree that the changes must lead to, without changes the root
    #[arg(long)]
    after: Option<String>,
    /// Paths, steps joined by "/"
    #[arg(required_unless_present_any = ["put", "remove"])]
    paths: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    /// Steps and values are hexadecimal
    #[arg(long)]
    hex: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The proof, in any encoding
    file: PathBuf,
    #[command(flatten)]
    told: Told,
    /// Paths to show at most
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Steps and values are printed in hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Runs the command.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Make(arguments) => make(&arguments, format),
        Command::Check(arguments) => check(&arguments, format),
        Command::Show(arguments) => show(&arguments, format),
    }
}

/// How `--configuration` is told which of the two.
fn name(configuration: Configuration) -> &'static str {
    if configuration == Configuration::TEZOS_BINARY { "tezos-binary" } else { "tezos" }
}

/// The value of a finding, its name, and whether something is there.
fn describe(notation: Notation, read: &Read) -> (Option<String>, &'static str, bool) {
    match read {
        Read::Value(value) => (Some(notation.show(value)), "value", true),
        Read::Directory => (None, "directory", true),
        Read::Absent => (None, "absent", false),
        Read::Hidden => (None, "hidden", false),
    }
}

fn make(arguments: &Make, format: Format) -> Outcome {
    let store = arguments.folder.open()?;
    let configuration = store.configuration();
    if ![Configuration::TEZOS, Configuration::TEZOS_BINARY].contains(&configuration) {
        return Err(Error::invalid(
            "the store's configuration is neither of the two that the version of a proof names: \
             make the proof with the library, where who checks it says the configuration",
        )
        .into());
    }
    let notation = Notation::new(arguments.hex);
    let task = Task::new(notation, &arguments.paths, &arguments.changes)?;
    let commit = commit(&store, &arguments.commit)?;
    let tree = store.checkout(&commit)?;
    let (recording, found) = proof::record(&tree, |tree| task.run(tree))?;
    let made = if arguments.stream { recording.stream_proof()? } else { recording.tree_proof()? };
    let bytes = made.encode(arguments.encoding.into())?;
    let Some(file) = &arguments.output else {
        let mut out = print::out();
        out.write_all(&bytes)?;
        return Ok(Verdict::Yes);
    };
    files::write_new(file, &bytes)?;
    let root = hash::to_text(&made.before.hash);
    let after = hash::to_text(&made.after.hash);
    if format == Format::Json {
        print::json(&json!({
            "commit": hash::to_text(&commit), "root": root, "after": after,
            "configuration": name(configuration), "bytes": bytes.len(),
            "paths": found.iter().map(|read| describe(notation, read).1).collect::<Vec<_>>(),
        }))?;
    } else {
        let table = print::record(&[
            ("commit", hash::to_text(&commit)),
            ("root, which `proof check` needs", root),
            ("configuration, which it needs too", name(configuration).to_owned()),
            ("root after the changes", after),
            ("bytes", print::count(bytes.len() as u64)),
        ]);
        print::line(&table.to_string())?;
    }
    Ok(Verdict::Yes)
}

/// The proof in a file, its encoding and size.
fn load(path: &Path, configuration: Configuration) -> Result<(Proof, Encoding, u64)> {
    let name = path.display().to_string();
    let bytes = input::read(path, &name)?;
    let (encoding, proof) =
        proof::decode_any(&bytes, configuration).map_err(|error| error.context(&name))?;
    Ok((proof, encoding, bytes.len() as u64))
}

/// Runs the task on the proof: what it finds, and the hash of the tree after it, if that was proven. Only
/// reads need not be all that the proof is of, unless the tree after is asked for.
fn checked(arguments: &Check, task: &Task) -> Result<(Vec<Read>, Option<TreeHash>)> {
    let root = Kinded::directory(arguments.root.parse()?);
    let configuration = arguments.told.configuration.into();
    let (proof, ..) = load(&arguments.file, configuration)?;
    let verified = || {
        if !task.changes() && arguments.after.is_none() {
            return Ok((task.run(&mut proof.open(configuration, root)?)?, None));
        }
        let found = proof.verify(configuration, root, |tree| task.run(tree))?;
        let proven = proof.after.hash;
        let asked = arguments.after.as_deref().map(str::parse::<TreeHash>).transpose()?;
        let Some(after) = asked.filter(|asked| *asked != proven) else {
            return Ok((found, Some(proven)));
        };
        Err(Error::new(
            varvite::Kind::Corrupt,
            format!(
                "the changes lead to {}, not to {}: either they or the hash are wrong",
                hash::to_text(&proven),
                hash::to_text(&after)
            ),
        ))
    };
    verified().map_err(|error| {
        if proof.before == root {
            return error;
        }
        error.context(
            "--root is the hash of a tree; `context log --format json` has that of each commit",
        )
    })
}

fn check(arguments: &Check, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let task = Task::new(notation, &arguments.paths, &arguments.changes)?;
    let (found, after) = checked(arguments, &task)?;
    if format == Format::Json {
        return check_json(arguments, &task, &found, after.as_ref());
    }
    let rows: Vec<_> = found.iter().map(|read| describe(notation, read)).collect();
    let verdict = Verdict::found(rows.iter().all(|(_, _, there)| *there));
    if !rows.is_empty() {
        let mut table = print::table(&["path", "is", "value"]);
        for (path, (value, what, _)) in arguments.paths.iter().zip(rows) {
            table.add_row(vec![path.clone(), what.to_owned(), value.unwrap_or_default()]);
        }
        print::line(&table.to_string())?;
    }
    if let Some(after) = after {
        let changes = match task.count() {
            0 => "reading leaves".to_owned(),
            1 => "1 change leads from".to_owned(),
            count => format!("{count} changes lead from"),
        };
        let to = if task.changes() { "to" } else { "as" };
        let after = hash::to_text(&after);
        print::line(&format!("proven: {changes} {} {to} {after}", arguments.root))?;
    }
    Ok(verdict)
}

/// The columns of a CSV of a check, whatever is found and asked.
const CHECKED: [&str; 12] = [
    "path",
    "path_text",
    "path_hex",
    "is",
    "value",
    "value_text",
    "value_hex",
    "found",
    "why",
    "root",
    "changes",
    "after",
];

/// The same for a program: a record for each path, and one more for what the changes were proven to lead to.
fn check_json(arguments: &Check, task: &Task, found: &[Read], after: Option<&TreeHash>) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let verdict = Verdict::found(found.iter().all(|read| describe(notation, read).2));
    let mut all: Vec<Value> = Vec::new();
    for ((path, steps), read) in arguments.paths.iter().zip(&task.paths).zip(found) {
        let (value, what, there) = describe(notation, read);
        let mut said = json!({});
        text::put_path(&mut said, steps);
        // As it was typed, from before there was a list of its steps.
        said["path"] = path.clone().into();
        said["is"] = what.into();
        said["value"] = value.into();
        if let Read::Value(value) = read {
            text::put_both(&mut said, "value", value);
        }
        said["found"] = there.into();
        if !there {
            let hidden = "the proof does not show what is there, or whether anything is";
            let absent = "nothing is there, which the proof shows";
            said["why"] = if what == "hidden" { hidden } else { absent }.into();
        }
        all.push(said);
    }
    if let Some(after) = after {
        let after = hash::to_text(after);
        all.push(json!({ "root": arguments.root, "changes": task.count(), "after": after }));
    }
    records::columns(&CHECKED)?;
    print::json(&all)?;
    Ok(verdict)
}

fn kinded(kinded: Kinded) -> String {
    let kind = if kinded.kind == Kind::Value { "value" } else { "directory" };
    format!("{} ({kind})", hash::to_text(&kinded.hash))
}

/// What is shown at a path, and more about it.
fn row(notation: Notation, shown: &Shown) -> (&'static str, String) {
    match shown {
        Shown::Value(value) => ("value", notation.show(value)),
        Shown::HiddenValue(hash) => ("hidden value", hash::to_text(hash)),
        Shown::Directory { entries: 1, shown: 1 } => ("directory", "1 entry".to_owned()),
        Shown::Directory { entries, shown } if entries == shown => {
            ("directory", format!("{} entries", print::count(*entries)))
        }
        Shown::Directory { entries, shown } => {
            ("directory", format!("{} of {} entries", print::count(*shown), print::count(*entries)))
        }
        Shown::HiddenDirectory(hash) => ("hidden directory", hash::to_text(hash)),
    }
}

fn show(arguments: &Show, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let configuration = arguments.told.configuration.into();
    let (proof, encoding, bytes) = load(&arguments.file, configuration)?;
    let summary = proof.summary(configuration)?;
    let shown = proof.shown(configuration, arguments.limit.saturating_add(1))?;
    let encoding = match encoding {
        Encoding::V1 => "V1",
        Encoding::V2 => "V2",
        Encoding::Irmin => "Irmin",
        Encoding::Json => "JSON",
    };
    let form = if proof.is_stream() { "stream" } else { "tree" };
    let path = |path: &[Vec<u8>]| {
        path.iter().map(|step| notation.show_step(step)).collect::<Vec<_>>().join("/")
    };
    let listed = shown.iter().take(arguments.limit);
    if format == Format::Json {
        let listed: Vec<Value> = listed
            .map(|(steps, shown)| {
                let (is, about) = row(Notation::Hex, shown);
                let mut said = json!({});
                text::put_path(&mut said, steps);
                said["is"] = is.into();
                said["about"] = about.into();
                if let Shown::Value(value) = shown {
                    text::put_both(&mut said, "value", value);
                }
                said
            })
            .collect();
        print::json(&json!({
            "encoding": encoding, "bytes": bytes, "form": form, "version": proof.version,
            "configuration": name(configuration), "branching": configuration.entries(),
            "before": kinded(proof.before), "after": kinded(proof.after),
            "values": summary.values, "value_bytes": summary.value_bytes,
            "hidden_values": summary.hidden_values, "directories": summary.directories,
            "names": summary.names, "hidden_directories": summary.hidden_directories,
            "hidden_pieces": summary.hidden_pieces, "paths": listed,
        }))?;
        return Ok(Verdict::Yes);
    }
    let table = print::record(&[
        ("encoding", encoding.to_owned()),
        ("bytes", print::count(bytes)),
        ("form", form.to_owned()),
        ("configuration", name(configuration).to_owned()),
        ("before", kinded(proof.before)),
        ("after", kinded(proof.after)),
        ("values", print::count(summary.values)),
        ("bytes of values", print::count(summary.value_bytes)),
        ("hidden values", print::count(summary.hidden_values)),
        ("directories", print::count(summary.directories)),
        ("names", print::count(summary.names)),
        ("hidden directories", print::count(summary.hidden_directories)),
        ("hidden pieces of directories", print::count(summary.hidden_pieces)),
    ]);
    print::line(&table.to_string())?;
    let mut table = print::table(&["path", "is", "value, entries or hash"]);
    for (steps, shown) in listed {
        let (what, about) = row(notation, shown);
        table.add_row(vec![format!("/{}", path(steps)), what.to_owned(), about]);
    }
    print::line(&table.to_string())?;
    if shown.len() > arguments.limit {
        print::line("and more: --limit shows more")?;
    }
    Ok(Verdict::Yes)
}
