//! Lines of SQL in the shell of tables: each is told the command that does so here, and none is run.
//!
//! Some would be commands by chance: `insert into people …` puts keys into a table called "into".

use super::quoted;

/// What is said of each.
pub const NOT_SPOKEN: &str = "that is SQL, and a line here is a command with its arguments";

/// The command that does what `words` say in SQL; `None` when they are no SQL. Tables that are called like one of its
/// words are reached with `--` in front of their name.
pub fn meant(words: &[String]) -> Option<String> {
    let line: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let into = || named(words, &line, "into");
    let from = || named(words, &line, "from");
    Some(match &line[..] {
        ["insert" | "replace" | "upsert", "into", ..] | ["insert", "or", _, "into", ..] => {
            format!("`put {} KEY VALUE` puts a key", into())
        }
        ["update", _, "set", ..] => {
            format!("`put {} KEY VALUE` puts a key, also where it is there", name(words.get(1)))
        }
        ["delete", "from", ..] => {
            let table = from();
            format!(
                "`delete {table} KEY` deletes a key, and `delete-range {table} --all` every one; with --prefix, --first \
                 or --last in place of --all it deletes a range"
            )
        }
        ["truncate", rest @ ..] if !rest.is_empty() => {
            format!("`delete-range {} --all` deletes every key", last_name(words, &line))
        }
        ["select", ..] if line.iter().any(|word| is_count(word)) => {
            format!("`count {}` counts keys", from())
        }
        ["select", rest @ ..] if rest.contains(&"from") => {
            let table = from();
            format!("`scan {table}` prints keys and values, and `get {table} KEY` one value")
        }
        ["create", "table", ..] => format!("`create {}` makes a table", last_name(words, &line)),
        ["drop", "table", ..] => format!("`drop {}` drops a table", last_name(words, &line)),
        ["alter", "table", _, "rename", "to", _] => {
            let (old, new) = (name(words.get(2)), name(words.get(5)));
            format!("`rename {old} {new}` gives a table another name")
        }
        _ => return None,
    })
}

/// Whether a word of a `select` counts.
fn is_count(word: &str) -> bool {
    word == "count" || word.starts_with("count(")
}

/// The name behind `keyword`.
fn named(words: &[String], line: &[&str], keyword: &str) -> String {
    let place = line.iter().position(|word| *word == keyword);
    name(place.and_then(|place| words.get(place + 1)))
}

/// The name behind `table`, `if exists` and the like.
fn last_name(words: &[String], line: &[&str]) -> String {
    const BEFORE: [&str; 4] = ["table", "if", "not", "exists"];
    let place = line.iter().skip(1).position(|word| !BEFORE.contains(word));
    name(place.and_then(|place| words.get(place + 1)))
}

/// A table's name as it is typed, up to its columns.
fn name(word: Option<&String>) -> String {
    let word = word.map(|word| word.split(['(', ';', ',']).next().unwrap_or_default());
    let word = word.filter(|word| !word.is_empty() && !word.starts_with('-'));
    word.map_or("TABLE".to_owned(), |word| quoted(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    fn of(line: &str) -> Option<String> {
        meant(&split(line).expect("quotation marks are closed"))
    }

    #[test]
    fn lines_of_sql_are_told_what_does_so_here() {
        let told = [
            ("insert into people values(1,2);", "`put people KEY VALUE`"),
            ("INSERT INTO people (a,b) VALUES ('it''s', 2)", "`put people KEY VALUE`"),
            ("insert into people(a, b) values (1,2)", "`put people KEY VALUE`"),
            ("insert or replace into people values(1,2)", "`put people KEY VALUE`"),
            ("replace into \"my people\" values(1,2)", "`put 'my people' KEY VALUE`"),
            ("insert into", "`put TABLE KEY VALUE`"),
            ("update people set age = 3 where name = 'ann'", "`put people KEY VALUE`"),
            ("delete from people", "`delete-range people --all`"),
            ("delete from people where name='ann'", "`delete people KEY`"),
            ("truncate table people", "`delete-range people --all`"),
            ("select count(*) from people;", "`count people`"),
            ("select COUNT (*) from people", "`count people`"),
            ("select * from people where name = 'ann'", "`scan people`"),
            ("create table people(name text, age int)", "`create people`"),
            ("create table if not exists people (a)", "`create people`"),
            ("create table;", "`create TABLE`"),
            ("create table --live", "`create TABLE`"),
            ("drop table people", "`drop people`"),
            ("DROP TABLE IF EXISTS people;", "`drop people`"),
            ("alter table people rename to folk", "`rename people folk`"),
        ];
        for (line, command) in told {
            let said = of(line).unwrap_or_default();
            assert!(said.contains(command), "{line}: {said}");
        }
    }

    #[test]
    fn commands_are_not_taken_for_sql() {
        for line in [
            "insert people ann 1",
            "put into k v",
            "delete people from",
            "create -- table",
            "create people",
            "drop -- table",
            "select",
            "update",
            "truncate",
            "",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
