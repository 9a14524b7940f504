//! Lines of a shell that are none of its commands: what is said of them, and that nothing is done.

use tempfile::TempDir;

use crate::binary::{fed, run};

#[test]
fn sql_in_the_table_shell_changes_nothing_and_names_a_command_that_does_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S people ann 1 bob 2 --create").yes();
    let before = run(folder, "table list S").yes();
    for line in [
        "insert into people values(1,2);",
        "INSERT INTO people (a,b) VALUES (1,2)",
        "replace into people values(1,2)",
        "update people set a = 1 where b = 2",
        "delete from people where a = 1",
        "truncate table people",
        "select count(*) from people",
        "select * from people;",
        "create table folk (a text)",
        "create table;",
        "drop table people",
        "drop table if exists people;",
        "alter table people rename to folk",
        "--format json insert into people 5",
        "-q delete from people",
        "--quiet --format=csv drop table people",
    ] {
        let is_json = line.contains("json");
        let ran = fed(folder, "table shell S", format!("{line}\n").as_bytes());
        assert!(ran.code == 2 && (is_json || ran.out.is_empty()), "{line}: {ran:?}");
        assert!(ran.err.starts_with("error: that is SQL"), "{line}: {ran:?}");
        assert_eq!(run(folder, "table list S").yes(), before, "{line}");
        // Every command that the tip names does something, on a store like this.
        for command in ran.err.split('`').skip(1).step_by(2) {
            let typed = command.replace("KEY", "ann").replace("VALUE", "v").replace("TABLE", "new");
            run(folder, "table put T people ann 1 bob 2 --create").yes();
            let done = fed(folder, "table shell T", format!("{typed}\n").as_bytes());
            assert!(done.code == 0 && done.err.is_empty(), "{line}: {typed}: {done:?}");
            std::fs::remove_dir_all(folder.join("T")).unwrap();
        }
        let ran = fed(folder, "table shell S --format json", format!("{line}\n").as_bytes());
        let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(said["error"]["kind"], "usage", "{line}: {said}");
    }
}

/// A table may be called as SQL has its words.
#[test]
fn tables_that_are_called_like_words_of_sql_are_reached() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S into k v --create").yes();
    let lines = "create -- table\nput from k v\ndelete -- from k\ndrop -- table\nput into k w\n";
    let ran = fed(folder, "table shell S", lines.as_bytes());
    assert_eq!((ran.code, &*ran.err), (0, ""), "{ran:?}");
    assert_eq!(run(folder, "table get S into k").yes(), "w\n");
    run(folder, "table put S from k v --create").yes();
    let ran = fed(folder, "table shell S", b"delete from k\n");
    assert!(ran.code == 2 && ran.err.contains("`delete -- from "), "{ran:?}");
    assert_eq!(run(folder, "table get S from k").yes(), "v\n");
}

#[test]
fn usage_in_a_shell_is_what_is_typed_there() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S people ann 1 --create").yes();
    let said = |line: &str| {
        let ran = fed(folder, "table shell S", format!("{line}\n").as_bytes());
        format!("{}{}", ran.out, ran.err)
    };
    for line in ["foo", "vacuum", "help", "shell"] {
        let said = said(line);
        assert!(said.contains("Usage: <COMMAND> [ARGUMENTS]...\n"), "{line}: {said}");
    }
    for line in ["get", "help get", "get --help", "get -h", "snapshot export"] {
        let said = said(line);
        let usage = said.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default();
        let name = line.trim_start_matches("help ").split(" -").next().unwrap();
        assert!(usage.starts_with(&format!("Usage: {name} ")), "{line}: {said}");
        assert!(
            !said.contains("<STORE>") && !said.contains("Folder of the store"),
            "{line}: {said}"
        );
    }
    assert!(said("help get").contains("Name of the table"));
}

/// What other programs have and this one does otherwise.
#[test]
fn words_of_other_programs_are_told_how_it_is_done_here() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S people ann 1 --create").yes();
    for line in ["table vacuum S", "vacuum S"] {
        let ran = run(folder, line);
        assert!(ran.code == 2 && ran.err.contains("tip: merges give back the room"), "{ran:?}");
    }
    for word in [".backup x", "save x", ".clone x"] {
        let ran = fed(folder, "table shell S", format!("{word}\n").as_bytes());
        let tip = "`varvite backup STORE FOLDER` does that for live tables, and `snapshot export NAME FOLDER`";
        assert!(ran.err.contains(tip), "{word}: {ran:?}");
    }
    let ran = run(folder, "table backup S x");
    let tip = "`varvite table snapshot export STORE NAME FOLDER`";
    assert!(ran.code == 2 && ran.err.contains(tip), "{ran:?}");
    let said = run(folder, "backup S copy").error(2, &["has no live tables"]);
    let advised = said.split('`').nth(1).unwrap().trim_start_matches("varvite ").to_owned();
    assert_eq!(advised, "table snapshot export S head-0000000001 copy");
    run(folder, &advised).yes();
    assert_eq!(run(folder, "table get copy people ann").yes(), "1\n");
}
