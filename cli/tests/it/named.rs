//! Commands and flags that documents and transcripts name: each is one that the program has.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::binary::varvite;
use crate::exits::commands;

/// What follows the program's name and is no command: a format's first line, and what clap does by itself.
const OTHERS: [&str; 4] = ["dump 1", "dump 2", "help", "tables 1"];

/// The program's commands, and what their help says.
struct Program {
    commands: BTreeSet<String>,
    helps: RefCell<BTreeMap<String, String>>,
}

impl Program {
    fn new() -> Program {
        let mut all = BTreeSet::from(["man".to_owned()]);
        commands(&[], &mut all);
        Program { commands: all, helps: RefCell::default() }
    }

    fn help(&self, command: &str) -> String {
        let mut helps = self.helps.borrow_mut();
        let ask = || {
            let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
            varvite(&words).yes()
        };
        helps.entry(command.to_owned()).or_insert_with(ask).clone()
    }

    /// The commands that begin with `path`.
    fn below(&self, path: &str) -> Vec<&String> {
        let inside = format!("{path} ");
        let of_it = |command: &&String| *command == path || command.starts_with(&inside);
        self.commands.iter().filter(of_it).collect()
    }

    /// The commands that `words` begin with, as far as they are some: "table get|put STORE" are two.
    fn of(&self, words: &[&str]) -> Vec<String> {
        let mut paths = vec![String::new()];
        for word in words {
            let word = word.trim_end_matches([',', '.', ':', ';', ')']);
            let longer = paths.iter().flat_map(|path| {
                word.split('|').map(move |name| format!("{path} {name}").trim().to_owned())
            });
            let longer: Vec<_> = longer.collect();
            if longer.iter().any(|path| self.below(path).is_empty()) {
                break;
            }
            paths = longer;
        }
        paths.retain(|path| !path.is_empty());
        paths
    }

    /// Whether some command's name begins with this word.
    fn is_first(&self, word: &str) -> bool {
        !self.below(word).is_empty()
    }

    /// What is wrong with what stands behind the program's name.
    fn wrong(&self, typed: &str) -> Option<String> {
        let typed = typed.split("  #").next().unwrap_or_default().replace("\\|", "|");
        if typed.is_empty() || OTHERS.iter().any(|other| typed.starts_with(other)) {
            return None;
        }
        let words: Vec<_> = typed.split_whitespace().collect();
        let commands: Vec<_> = self.of(&words);
        // It runs another command, which follows the name of a file.
        if commands.first().is_some_and(|it| it == "trace record")
            && words.get(3).is_some_and(|it| self.is_first(it))
        {
            return self.wrong(&words[3..].join(" "));
        }
        if commands.is_empty() {
            let name = words.first().unwrap_or(&"");
            // Placeholders stand for any command.
            let is_any = name.starts_with(['<', '…', '-', '[']);
            return (!is_any).then(|| format!("there is no command `varvite {typed}`"));
        }
        // Behind the name of a group stands one of its commands, or what is none.
        let next = words.get(commands[0].split(' ').count());
        let is_name = |word: &&str| {
            !word.starts_with('-')
                && word.bytes().all(|it| it.is_ascii_lowercase() || b"-|".contains(&it))
        };
        if !self.commands.contains(&commands[0]) && next.is_some_and(is_name) {
            return Some(format!("there is no command `varvite {typed}`"));
        }
        let helps = commands.iter().flat_map(|path| self.below(path));
        let helps: String = helps.map(|command| self.help(command)).collect();
        flags(&typed)
            .into_iter()
            .find(|flag| !has(&helps, flag))
            .map(|flag| format!("`varvite {typed}`: none of {commands:?} takes {flag}"))
    }
}

impl Program {
    /// A flag without which what is typed is refused; a name alone is no more than that.
    fn lacks(&self, typed: &str) -> Option<String> {
        let words: Vec<_> = typed.split_whitespace().collect();
        let commands = self.of(&words);
        let [command] = &commands[..] else { return None };
        let behind = words.get(command.split(' ').count())?;
        if !self.commands.contains(command) || behind.starts_with('…') {
            return None;
        }
        let help = self.help(command);
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: "))?;
        let mut depth = 0;
        let required: String = usage
            .chars()
            .filter(|it| {
                depth += i32::from(*it == '[') - i32::from(*it == ']');
                depth == 0
            })
            .collect();
        let given = words.join(" ");
        let lacking = flags(&required).into_iter().find(|flag| !has(&given, flag))?;
        Some(format!("`varvite {typed}` is refused without {lacking}"))
    }
}

/// The flags in a text.
fn flags(text: &str) -> Vec<&str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '-'));
    words.filter(|word| word.len() > 2 && word.starts_with("--")).collect()
}

/// Whether `help` has the whole flag.
fn has(help: &str, flag: &str) -> bool {
    flags(help).contains(&flag)
}

/// What a document has the reader type: its blocks of commands, and commands within its sentences.
fn typed(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<&str> = None;
    for line in document.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
            continue;
        }
        match block {
            Some("" | "sh") => {
                let line = line.trim();
                let parts = line.split("varvite ").skip(1);
                let is_own = line.starts_with("varvite ") || line.contains("| varvite ");
                found.extend(parts.filter(|_| is_own).map(str::to_owned));
            }
            Some(_) => {}
            None => {
                let code = line.split('`').skip(1).step_by(2);
                let code = code.filter(|code| code.starts_with("varvite "));
                found.extend(code.flat_map(|it| it.split("varvite ").skip(1)).map(str::to_owned));
            }
        }
    }
    found
}

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_built =
            name.starts_with("target") || name == "node_modules" || name.starts_with('.');
        if path.is_dir() && !is_built {
            documents(&path, found);
        } else if path.extension().is_some_and(|it| it == "md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

#[test]
fn documents_name_commands_and_flags_that_there_are() {
    let (program, mut all) = (Program::new(), Vec::new());
    documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut all);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        if path.ends_with("docs/guide/cli.md") {
            // What its blocks say is whole; sentences leave out what was said.
            let blocks = text.split("```").skip(1).step_by(2);
            let lines = blocks.flat_map(|block| typed(&format!("```{block}```")));
            wrong.extend(lines.filter_map(|line| program.lacks(&line)));
        }
        for line in typed(&text) {
            count += 1;
            wrong.extend(program.wrong(&line).map(|what| format!("{}: {what}", path.display())));
        }
    }
    assert!(count > 200, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whoever is refused is told of flags of that command, or of another by its name.
#[test]
fn transcripts_advise_what_can_be_typed() {
    let program = Program::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for run in text.split("\n$ varvite ").skip(1) {
            let (line, said) = run.split_once('\n').unwrap();
            let words: Vec<_> = line.split(' ').collect();
            let commands = program.of(&words);
            let Some(command) = commands.last() else { continue };
            let said =
                said.lines().filter(|line| line.contains("error: ") || line.contains("tip: "));
            for said in said {
                count += flags(said).len();
                let inside = said.split('`').skip(1).step_by(2);
                let mut helps = program.help(command);
                for typed in inside.filter_map(|code| code.strip_prefix("varvite ")) {
                    assert_eq!(program.wrong(typed), None, "{line}: {said}");
                    let words: Vec<_> = typed.split(' ').collect();
                    for path in program.of(&words) {
                        helps.extend(program.below(&path).iter().map(|it| program.help(it)));
                    }
                    count += 1;
                }
                let unknown = flags(said).into_iter().find(|flag| !has(&helps, flag));
                let is_refused = said.contains("unexpected argument");
                assert!(unknown.is_none() || is_refused, "{line}: {said}");
            }
        }
    }
    assert!(count > 40, "{count}");
}

#[test]
fn a_command_or_flag_that_there_is_not_is_found() {
    let program = Program::new();
    assert_eq!(program.wrong("table get STORE t k --raw"), None);
    assert_eq!(program.wrong("context log\\|ls DIR --limit 3 | "), None);
    assert_eq!(program.wrong("table"), None);
    for wrong in ["snapshot create --live", "table get STORE t k --rawer", "context log|less DIR"] {
        assert!(program.wrong(wrong).is_some(), "{wrong}");
    }
    for lacking in ["proof show FILE", "bench utxo run --dir DIR", "context archive STORE"] {
        assert!(program.lacks(lacking).is_some(), "{lacking}");
    }
    assert_eq!(program.lacks("proof show"), None);
    assert_eq!(program.lacks("proof show FILE --configuration tezos"), None);
    let document = "Run `varvite a`.\n```sh\nvarvite b | varvite c\n```\n```rust\nvarvite d\n```\n";
    assert_eq!(typed(document), ["a", "b | ", "c"]);
}
