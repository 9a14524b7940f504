//! `varvite table shell` and `varvite context shell`: the commands of one face on one store, line by line.
//!
//! A line is what stands behind `varvite table`, without the store: `get colours apple`. Each opens the store
//! anew, so that it sees what other processes do and keeps nothing from them.

mod sql;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Context, Editor, Helper, Highlighter, Hinter, Validator};
use varvite::Kind::Corrupt;
use varvite::context::Kind;
use varvite::{Error, Result, SessionOptions, Verify};

use super::table::state::State;
use crate::advice;
use crate::exit::{self, Outcome, Verdict};
use crate::input;
use crate::print::Output;
use crate::print::records;
use crate::store::{context, tables};
use crate::text::Notation;

/// Keys and names that are offered at once.
const OFFERED: usize = 50;
/// Bytes of a line that is piped in, at most: the longest value that fits one update, in hexadecimal.
const LINE_BYTES_MAX: usize = 33 << 20;
/// Lines that are kept for another time.
const HISTORY: usize = 1000;

/// Which commands there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// `varvite table`.
    Table,
    /// `varvite context`.
    Context,
}

impl Face {
    fn name(self) -> &'static str {
        match self {
            Face::Table => "table",
            Face::Context => "context",
        }
    }
}

/// The program: its commands, and what runs one that `words` say, printed so unless they say otherwise.
pub struct Program {
    pub commands: clap::Command,
    pub run: fn(words: &[OsString], name: String, otherwise: Output) -> u8,
}

impl Program {
    /// The commands of a face.
    fn of(&self, face: Face) -> clap::Command {
        let face = self.commands.find_subcommand(face.name());
        face.expect("the program has both faces").clone()
    }
}

/// Runs lines until there are no more.
pub fn run(face: Face, folder: &context::Folder, output: Output, program: &Program) -> Outcome {
    // A store that is none is told at once.
    match face {
        Face::Table => drop(tables::open_read_only(&folder.store, SessionOptions::default())?),
        Face::Context => drop(folder.open()?),
    }
    let session = Lines { face, folder, output, program };
    if io::stdin().is_terminal() { session.typed() } else { session.piped() }
}

/// A shell that takes lines.
struct Lines<'a> {
    face: Face,
    folder: &'a context::Folder,
    output: Output,
    program: &'a Program,
}

impl Lines<'_> {
    fn piped(&self) -> Outcome {
        let (mut greatest, mut number, mut bytes) = (0, 0_u64, Vec::new());
        loop {
            number += 1;
            bytes.clear();
            // Not locked meanwhile: a command may read what follows, as `load T` does.
            let place = ("standard input", number);
            let read =
                input::line_up_to(LINE_BYTES_MAX, &mut io::stdin().lock(), place, &mut bytes);
            // What is left of a line that is too long is no command.
            if read? == 0 {
                break;
            }
            let line = std::str::from_utf8(&bytes);
            let line = line.map_err(|_| {
                Error::new(Corrupt, format!("line {number} of standard input is not UTF-8"))
            })?;
            let Some(code) = self.line(line.trim_end_matches(['\n', '\r'])) else { break };
            greatest = greatest.max(code);
            if input::is_taken() {
                // What is left, if anything, is data, no lines: it would be run for commands.
                break;
            }
        }
        records::begin(self.output, format!("{} shell", self.face.name()));
        Ok(Verdict::of(greatest))
    }

    fn typed(&self) -> Outcome {
        let failed = |error: &ReadlineError| Error::invalid(format!("the terminal: {error}"));
        let config = Config::builder().max_history_size(HISTORY).map_err(|error| failed(&error))?;
        let config = config.completion_type(CompletionType::List).build();
        let mut editor: Editor<Offers, FileHistory> =
            Editor::with_config(config).map_err(|error| failed(&error))?;
        editor.set_helper(Some(Offers {
            face: self.face,
            folder: self.folder.clone(),
            commands: self.program.of(self.face),
        }));
        let history = history();
        if let Some(history) = &history {
            // The first time there is none.
            let _ = editor.load_history(history);
        }
        let prompt = format!("{}> ", self.folder.store.display());
        loop {
            match editor.readline(&prompt) {
                Ok(line) => {
                    // A line that cannot be kept is run all the same.
                    let _ = editor.add_history_entry(&line);
                    if self.line(&line).is_none() {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(&error).into()),
            }
        }
        if let Some(history) = &history {
            let _ = editor.save_history(history);
        }
        records::begin(self.output, format!("{} shell", self.face.name()));
        Ok(Verdict::Yes)
    }

    /// Runs a line; its exit code, `None` when it ends the shell.
    fn line(&self, line: &str) -> Option<u8> {
        let Some(mut words) = split(line) else {
            complain!("error: a quotation mark is not closed: {}", line.trim());
            return Some(Verdict::Failed as u8);
        };
        // As in other shells: `.tables`, `.quit`.
        let bare = words.first().and_then(|word| word.strip_prefix('.')).map(str::to_owned);
        let is_bare = bare.is_some();
        if let Some(bare) = bare {
            words[0] = bare;
        }
        match words.first().map(String::as_str) {
            None => return Some(0),
            Some("exit" | "quit" | "q" | "\\q") => return None,
            Some("read") if is_bare => {
                let shell = match self.face {
                    Face::Table => advice::TABLE_SHELL,
                    Face::Context => advice::CONTEXT_SHELL,
                };
                complain!("error: {shell} runs the lines of a file: `< FILE` behind it");
                return Some(Verdict::Failed as u8);
            }
            // In short; `help get` says all of one.
            Some("shell") => words = vec!["-h".to_owned()],
            Some("help") if words.len() == 1 => words = vec!["-h".to_owned()],
            Some(_) => {}
        }
        let first = flags_before(&words);
        let meant = if self.face == Face::Table { sql::meant(&words[first..]) } else { None };
        if let Some(command) = meant {
            records::begin(self.output, format!("{} shell", self.face.name()));
            let besides = self.called_like_sql(&words[first..]).unwrap_or_default();
            return Some(exit::not_spoken(sql::NOT_SPOKEN, &format!("{command}{besides}")));
        }
        let commands = self.program.of(self.face);
        let count = command_words(&commands, &words[first..]);
        let at = first + count;
        let name = format!("{} {}", self.face.name(), words[first..at].join(" "));
        // What stands behind `--` is no flag, whatever it looks like.
        let flags: Vec<&str> =
            words.iter().map(String::as_str).take_while(|word| *word != "--").collect();
        let reached =
            words[first..at].iter().try_fold(&commands, |above, word| above.find_subcommand(word));
        // A family of commands: which of them is not said.
        let is_family = reached.is_some_and(clap::Command::has_subcommands);
        let is_help = is_family || flags.iter().any(|word| ["--help", "-h"].contains(word));
        let has_format = flags.iter().any(|word| is_format(word));
        let mut all: Vec<OsString> = vec!["varvite".into(), self.face.name().into()];
        if self.output != Output::Table && !has_format {
            all.push("--format".into());
            all.push(self.output.name().into());
        }
        all.extend(words.iter().map(OsString::from));
        if !is_help {
            let place = all.len() - words.len() + at;
            let given = reached.map_or_else(Vec::new, |command| self.given(command, &flags));
            all.splice(place..place, given.into_iter().chain([self.store_word()]));
        }
        Some((self.program.run)(&all, name, self.output))
    }

    /// How a table of the store is reached that is called like the word of SQL behind the command.
    fn called_like_sql(&self, words: &[String]) -> Option<String> {
        let [command, name, ..] = words else { return None };
        if !["into", "from", "table"].contains(&&**name) {
            return None;
        }
        // Whoever cannot be helped types on.
        let names = super::table::state::names(&self.folder.store).ok()?;
        names.contains(name).then(|| {
            let command = command.to_lowercase();
            format!("; of the table that is called {name}: `{command} -- {name} …`")
        })
    }

    /// What the shell was told of the store, as far as `command` takes it and its line does not say it.
    fn given(&self, command: &clap::Command, flags: &[&str]) -> Vec<OsString> {
        let is_said = |flag: &str| flags.iter().any(|word| word.starts_with(flag));
        let takes = |name: &str| command.get_arguments().any(|it| it.get_long() == Some(name));
        let mut words = Vec::new();
        for (name, value) in self.folder.foreign.flags() {
            let flag = format!("--{name}");
            if takes(name) && !is_said(&flag) {
                words.push(flag.into());
                words.extend(value);
            }
        }
        words
    }

    /// The store as an argument, which is no flag.
    fn store_word(&self) -> OsString {
        let store = &self.folder.store;
        let is_like_a_flag = store.as_os_str().as_encoded_bytes().starts_with(b"-");
        if is_like_a_flag { Path::new(".").join(store).into() } else { store.into() }
    }
}

fn is_format(word: &str) -> bool {
    word == "--format" || word.starts_with("--format=")
}

/// How many of the words are flags that may stand before a command.
fn flags_before(words: &[String]) -> usize {
    let mut count = 0;
    while let Some(word) = words.get(count) {
        count += match &**word {
            "--quiet" | "-q" => 1,
            "--format" => 2,
            word if is_format(word) => 1,
            _ => break,
        };
    }
    count.min(words.len())
}

/// How many of the words name a command.
fn command_words(commands: &clap::Command, words: &[String]) -> usize {
    let below = words.first().and_then(|word| commands.find_subcommand(word));
    below.map_or(0, |below| 1 + command_words(below, &words[1..]))
}

/// The words of a line; what is in quotes is one, in which two of them are one, as in SQL, and a backslash is itself. As
/// there, a line may end with semicolons. `None` when a quotation mark is not closed.
fn split(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.trim_end().trim_end_matches(';').chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => {
                if characters.next_if_eq(&open).is_none() {
                    quote = None;
                } else if let Some(word) = &mut word {
                    word.push(open);
                }
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Where lines are kept for another time; nowhere when nobody says where the home is.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
    let folder = state.or_else(home)?.join("varvite");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

/// What the Tab key offers: commands, tables, keys; branches, steps of paths.
#[derive(Helper, Hinter, Highlighter, Validator)]
struct Offers {
    face: Face,
    folder: context::Folder,
    commands: clap::Command,
}

impl Completer for Offers {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        // Within quotation marks nothing is known to begin.
        let words = split(&before[..start]).unwrap_or_default();
        // Whoever cannot be helped types on.
        let mut offers = self.offers(&words, &before[start..]).unwrap_or_default();
        // The next word begins, but for a directory, which goes on.
        if let [only] = &mut offers[..]
            && !only.ends_with('/')
        {
            only.push(' ');
        }
        Ok((start, offers))
    }
}

impl Offers {
    /// What may stand behind `words` and begins with `start`.
    fn offers(&self, words: &[String], start: &str) -> Result<Vec<String>> {
        let mut commands = &self.commands;
        let count = command_words(commands, words);
        for word in &words[..count] {
            commands = commands.find_subcommand(word).expect("it was found just now");
        }
        if count == words.len() && commands.has_subcommands() {
            let names = commands.get_subcommands().map(|command| command.get_name().to_owned());
            return Ok(beginning(names.chain(["exit".to_owned()]), start));
        }
        let arguments: Vec<_> =
            words[count..].iter().filter(|word| !word.starts_with('-')).collect();
        match (self.face, &arguments[..]) {
            (Face::Table, []) => {
                let session =
                    tables::open_read_only(&self.folder.store, SessionOptions::default())?;
                let state = State::of(&session, None)?;
                Ok(beginning(state.tables.into_iter().map(|row| row.name), start))
            }
            (Face::Table, [table, ..]) => self.keys(table, start),
            (Face::Context, []) => {
                let store = self.folder.open()?;
                let branches = store.branches().into_iter();
                let names = branches.map(|(name, _)| Notation::Text.show(&name));
                Ok(beginning(names.chain(["last".to_owned()]), start))
            }
            (Face::Context, [commit, ..]) => self.steps(commit, start),
        }
    }

    fn keys(&self, table: &str, start: &str) -> Result<Vec<String>> {
        let session = tables::open_read_only(&self.folder.store, SessionOptions::default())?;
        let table = if tables::is_live(&session)? {
            tables::live_table_to_look(&session, table, "")?
        } else {
            tables::read(&session, None, Verify::Quick)?.take(table)?
        };
        let prefix = Notation::Text.parse("key", start)?;
        let mut cursor = table.cursor(Bound::Included(&prefix[..]), Bound::Unbounded)?;
        let mut keys = Vec::new();
        while keys.len() < OFFERED
            && let Some(key) = cursor.next_key()?.filter(|key| key.starts_with(&prefix))
        {
            keys.push(quoted(Notation::Text.show(key)));
        }
        Ok(keys)
    }

    fn steps(&self, commit: &str, start: &str) -> Result<Vec<String>> {
        let store = self.folder.open()?;
        let tree = store.checkout(&context::commit(&store, commit)?)?;
        let (folder, _) = start.rsplit_once('/').unwrap_or_default();
        let path = Notation::Text.path(folder)?;
        let children = tree.list(&path, 0, OFFERED as u64)?.into_iter();
        let names = children.map(|(name, child)| {
            let name = Notation::Text.show_step(&name);
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if child.kind() == Kind::Directory { name + "/" } else { name }
        });
        Ok(beginning(names, start))
    }
}

fn beginning(names: impl Iterator<Item = String>, start: &str) -> Vec<String> {
    names.filter(|name| name.starts_with(start)).map(quoted).collect()
}

/// A word as it is typed.
fn quoted(word: String) -> String {
    if !word.contains([' ', '"', '\'']) {
        return word;
    }
    match (word.contains('\''), word.contains('"')) {
        (false, _) => format!("'{word}'"),
        (true, false) => format!("\"{word}\""),
        // No quote is right for both: one of them is written as its byte.
        (true, true) => format!("'{}'", word.replace('\'', "\\x27")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_they_are_meant() {
        assert_eq!(
            split("  get t 'a key'  \\x00\"b c\" '' ").unwrap(),
            ["get", "t", "a key", "\\x00b c", ""]
        );
        assert_eq!(split("   ").unwrap(), Vec::<String>::new());
        assert_eq!(split("put t k 'it''s';").unwrap(), ["put", "t", "k", "it's"]);
        assert_eq!(split("get t 'a;' ; ").unwrap(), ["get", "t", "a;"]);
        assert_eq!(split("'' ''''").unwrap(), ["", "'"]);
        assert_eq!((split("get 'a"), split("it's")), (None, None));
        assert_eq!(split(&quoted("it's".to_owned())).unwrap(), ["it's"]);
        assert_eq!(split(&quoted("two words".to_owned())).unwrap(), ["two words"]);
        let both = split(&quoted("it's \"x\"".to_owned())).unwrap();
        assert_eq!(Notation::Text.parse("key", &both[0]).unwrap(), b"it's \"x\"");
    }

    /// A few commands of the program.
    fn commands() -> clap::Command {
        let snapshot = clap::Command::new("snapshot").subcommand(clap::Command::new("verify"));
        let names = ["get", "delete-range"].map(clap::Command::new);
        clap::Command::new("table").subcommands(names).subcommand(snapshot)
    }

    #[test]
    fn the_words_of_commands_are_counted() {
        let count = |line: &str| command_words(&commands(), &split(line).unwrap());
        assert_eq!(count("get t k"), 1);
        assert_eq!(count("snapshot verify s"), 2);
        assert_eq!(count("nothing"), 0);
    }

    #[test]
    fn tab_offers_commands_tables_and_keys() {
        let folder = tempfile::TempDir::new().unwrap();
        let store = folder.path().join("s");
        let session = tables::create(&store, SessionOptions::default()).unwrap();
        let mut table = session.create_table("fruit", varvite::TableOptions::default()).unwrap();
        let mut batch = varvite::Batch::new();
        batch.insert(b"apple", b"1").insert(b"apple pie", b"2").insert(b"pear", b"3");
        table.update(&batch).unwrap();
        let content = varvite::SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("one", content).unwrap();
        drop(table);
        session.close().unwrap();
        let offers =
            Offers { face: Face::Table, folder: context::Folder::of(&store), commands: commands() };
        let offered =
            |line: &str, start: &str| offers.offers(&split(line).unwrap(), start).unwrap();
        assert_eq!(offered("", "delete-"), ["delete-range"]);
        assert_eq!(offered("snapshot", "ver"), ["verify"]);
        assert_eq!(offered("get", "f"), ["fruit"]);
        assert_eq!(offered("get fruit", "app"), ["apple", "'apple pie'"]);
        assert!(offers.offers(&split("get none").unwrap(), "a").is_err());
    }
}
