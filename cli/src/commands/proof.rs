//! `varvite proof`: parts of a context that anybody can check who knows a root hash.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use varvite::context::{Configuration, Kind, Tree, hash};
use varvite::proof::{self, Encoding, Kinded, Proof, Read, Shown};
use varvite::{Error, Result};

use crate::context_store::{Folder, commit};
use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::print::{self, Format};
use crate::text::Notation;

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

#[derive(Debug, Args)]
pub struct Make {
    #[command(flatten)]
    folder: Folder,
    /// Hash of a commit, a branch, or "last"
    commit: String,
    /// Paths, steps joined by "/"
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make a stream proof: its pieces in the order in which they are looked at
    #[arg(long)]
    stream: bool,
    /// How to write it
    #[arg(long, value_enum, default_value = "v2")]
    encoding: Form,
    /// The file to write, and a report to standard output; without it the proof goes there
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// Steps are hexadecimal
    #[arg(long)]
    hex: bool,
}

#[derive(Debug, Args)]
pub struct Check {
    /// The proof, in any encoding
    file: PathBuf,
    /// Hash of the tree that the proof must be of, as `proof make` and `context log` give it
    #[arg(long)]
    root: String,
    /// Paths, steps joined by "/"
    #[arg(required = true)]
    paths: Vec<String>,
    /// Steps and values are hexadecimal
    #[arg(long)]
    hex: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The proof, in any encoding
    file: PathBuf,
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

/// Looks at every path, as `check` does.
fn read_all(tree: &Tree, paths: &[Vec<Vec<u8>>]) -> Result<Vec<Read>> {
    paths.iter().map(|path| proof::read(tree, path)).collect()
}

fn parse_all(notation: Notation, paths: &[String]) -> Result<Vec<Vec<Vec<u8>>>> {
    paths.iter().map(|path| notation.path(path)).collect()
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
    let paths = parse_all(notation, &arguments.paths)?;
    let commit = commit(&store, &arguments.commit)?;
    let tree = store.checkout(&commit)?;
    let (recording, found) = proof::record(&tree, |tree| read_all(tree, &paths))?;
    let made = if arguments.stream { recording.stream_proof()? } else { recording.tree_proof()? };
    let bytes = made.encode(arguments.encoding.into())?;
    let Some(output) = &arguments.output else {
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        return Ok(Verdict::Yes);
    };
    std::fs::write(output, &bytes)
        .map_err(|error| Error::io("write", &output.display().to_string(), error))?;
    let root = hash::to_text(&made.before.hash);
    if format == Format::Json {
        print::json(&json!({
            "commit": hash::to_text(&commit), "root": root, "bytes": bytes.len(),
            "paths": found.iter().map(|read| describe(notation, read).1).collect::<Vec<_>>(),
        }))?;
    } else {
        let table = print::record(&[
            ("commit", hash::to_text(&commit)),
            ("root, which `proof check` needs", root),
            ("bytes", print::count(bytes.len() as u64)),
        ]);
        print::line(&table.to_string())?;
    }
    Ok(Verdict::Yes)
}

/// The proof in a file, its encoding and size.
fn load(path: &Path) -> Result<(Proof, Encoding, u64)> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Error::io("read", &name, error))?;
    let (encoding, proof) = proof::decode_any(&bytes).map_err(|error| error.context(&name))?;
    Ok((proof, encoding, bytes.len() as u64))
}

fn check(arguments: &Check, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let paths = parse_all(notation, &arguments.paths)?;
    let root = hash::from_text(&arguments.root)?;
    let (proof, ..) = load(&arguments.file)?;
    let tree = proof.open(proof.configuration(), Kinded::directory(root))?;
    let found = read_all(&tree, &paths)?;
    let rows: Vec<_> = found.iter().map(|read| describe(notation, read)).collect();
    let verdict = Verdict::of(rows.iter().all(|(_, _, there)| *there));
    if format == Format::Json {
        let all: Vec<Value> = (arguments.paths.iter().zip(&rows))
            .map(|(path, (value, what, _))| json!({"path": path, "is": what, "value": value}))
            .collect();
        print::json(&all)?;
        return Ok(verdict);
    }
    let mut table = print::table(&["path", "is", "value"]);
    for (path, (value, what, _)) in arguments.paths.iter().zip(rows) {
        table.add_row(vec![path.clone(), what.to_owned(), value.unwrap_or_default()]);
    }
    print::line(&table.to_string())?;
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
    let (proof, encoding, bytes) = load(&arguments.file)?;
    let configuration = proof.configuration();
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
        path.iter().map(|step| notation.show(step)).collect::<Vec<_>>().join("/")
    };
    let listed = shown.iter().take(arguments.limit);
    if format == Format::Json {
        let listed: Vec<Value> = listed
            .map(|(steps, shown)| {
                let path: Vec<_> = steps.iter().map(|step| hex::encode(step)).collect();
                let (is, about) = row(Notation::Hex, shown);
                json!({"path": path, "is": is, "about": about})
            })
            .collect();
        print::json(&json!({
            "encoding": encoding, "bytes": bytes, "form": form, "version": proof.version,
            "branching": configuration.entries(),
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
        ("branching", configuration.entries().to_string()),
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
