//! All tables of a store in one dump, and CSV of other programs.

use std::fs;

use tempfile::TempDir;

use crate::binary::{fed, run};

/// Puts what is hard to write in each form.
fn fill(folder: &std::path::Path, store: &str) {
    let live = if store == "live" { " --live" } else { "" };
    run(folder, &format!("table put {store} people ann 1 bob 2 --create{live}")).yes();
    run(folder, &format!("table put {store} people c,\"d\\x20 \\x00\\x0a\\xff e 'f'")).yes();
    let number = "\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    run(folder, &format!("table put {store} sums n {number} --operator add-u64")).yes();
    run(folder, &format!("table create {store} empty")).yes();
}

/// What a command prints, whatever bytes these are.
fn run_bytes(folder: &std::path::Path, line: &str) -> Vec<u8> {
    let words: Vec<&str> = line.split(' ').collect();
    let output = crate::binary::command(&words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    output.stdout
}

#[test]
fn all_tables_of_a_store_are_dumped_and_loaded_in_every_form() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for store in ["live", "heads"] {
        fill(folder, store);
        let scans = |store: &str| {
            ["people", "sums", "empty"]
                .map(|table| run(folder, &format!("table scan {store} {table} --hex")).yes())
        };
        let before = scans(store);
        for (number, form) in
            ["", " --hex", " --binary", " --format csv", " --format json", " --format jsonl"]
                .into_iter()
                .enumerate()
        {
            let line = format!("table dump {store}{form}");
            fs::write(folder.join("dump"), run_bytes(folder, &line)).unwrap();
            let hex = if form == " --hex" { form } else { "" };
            for live in ["", " --live"] {
                let new = format!("{store}-{number}{}", live.trim());
                let load = format!("table load {new} --all dump --create{live}{hex}");
                let said = run(folder, &load).yes();
                assert!(said.starts_with("5 entries loaded"), "{line}: {said}");
                assert_eq!(scans(&new), before, "{line}");
                let one = run(folder, &format!("table load {new} --all dump{hex}"));
                one.error(2, &["there is a table empty already"]);
                // The operator came with it.
                let more = "\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
                run(folder, &format!("table put {new} sums n {more} --upsert")).yes();
                let sum = run(folder, &format!("table get {new} sums n --as u64le")).yes();
                assert_eq!(sum, "8\n", "{line}");
            }
            let one = run(folder, "table load one t dump --create");
            one.error(2, &["dump is a dump of all tables", "--all"]);
            assert!(!folder.join("one").exists());
            let from = fs::read(folder.join("dump")).unwrap();
            if form != " --binary" {
                fed(
                    folder,
                    &format!("table load piped-{store}-{number} --all - --create{hex}"),
                    &from,
                )
                .ended(0);
            }
        }
    }
}

#[test]
fn a_dump_of_all_tables_that_is_damaged_makes_none() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let lines = "{\"table\":\"a\",\"operator\":null}\n{\"key\":\"k\",\"value\":\"v\"}\n{\"table\":\"b\"}\nno\n";
    fs::write(folder.join("dump"), lines).unwrap();
    run(folder, "table put s c k v --create --live").yes();
    run(folder, "table load s --all dump").error(3, &["dump, line 4"]);
    assert_eq!(run(folder, "table list s").yes().lines().count(), 1);
    run(folder, "table load new --all dump --create").error(3, &["dump, line 4"]);
    assert!(!folder.join("new").exists());
    fs::write(folder.join("dump"), "{\"table\":\"a\"}\n{\"table\":\"a\"}\n").unwrap();
    run(folder, "table load s --all dump").error(2, &["line 2", "a second time"]);
    // What was cut short, or never begun, makes nothing either.
    run(folder, "table put whole a k v --create --live").yes();
    run(folder, "table put whole b k v").yes();
    for form in ["", " --binary", " --format csv"] {
        let dump = run_bytes(folder, &format!("table dump whole{form}"));
        let ends = dump.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|it| it.0 + 1);
        for end in [0].into_iter().chain(ends).filter(|end| *end < dump.len()) {
            let cut = fed(folder, "table load new --all - --create", &dump[..end]);
            cut.error(3, &["standard input"]);
            assert!(!folder.join("new").exists(), "{form}: {end} bytes");
        }
        fed(folder, "table load new --all - --create", &dump).ended(0);
        fs::remove_dir_all(folder.join("new")).unwrap();
    }
    fs::write(folder.join("dump"), "{\"table\":\"a\",\"operater\":\"max\"}\n{\"tables\":1}\n")
        .unwrap();
    run(folder, "table load s --all dump").error(3, &["line 1"]);
    fs::write(folder.join("dump"), "{\"table\":\"a\",\"operator\":\"of a host\"}\n").unwrap();
    run(folder, "table load s --all dump").error(2, &["line 1", "no merge operator"]);
    fs::write(folder.join("dump"), "{\"key\":\"a\",\"value\":\"v\"}\n").unwrap();
    run(folder, "table load s --all dump").error(2, &["leave --all out"]);
    run(folder, "table load s t --all dump").error_of_usage("cannot be used with");
    run(folder, "table load s").error_of_usage("<TABLE>");
}

#[test]
fn a_csv_of_other_columns_is_loaded_by_their_names() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::write(folder.join("csv"), "id,name,age\n1,ann,30\n2,bob,40\n").unwrap();
    let told = run(folder, "table load s t csv --create");
    told.error(2, &["columns id, name, age", "--key-column", "--value-column"]);
    let named = "--key-column id --value-column name";
    run(folder, &format!("table load s t csv --create {named}")).yes();
    assert_eq!(run(folder, "table scan s t").yes(), "1\tann\n2\tbob\n");
    run(folder, "table load s t csv --into --key-column id --value-column age").yes();
    assert_eq!(run(folder, "table scan s t").yes(), "1\t30\n2\t40\n");
    let told = run(folder, "table load s u csv --key-column id");
    told.error(2, &["no columns id and value", "id, name, age"]);
    fs::write(folder.join("csv"), "id,value\n1,ann\n").unwrap();
    run(folder, "table load s u csv --key-column id").yes();
    fs::write(folder.join("json"), "{\"key\":\"a\",\"value\":\"b\"}\n").unwrap();
    run(folder, "table load s v json --key-column id").error(2, &["no columns id and value"]);
}

/// One table that cannot be opened does not take the others along.
#[test]
fn tables_that_are_whole_are_dumped_beside_one_that_is_not() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    // A load writes the table's segment, and so can be damaged at its end.
    for table in ["a", "b", "c"] {
        let line = format!("table load s {table} - --create --live");
        fed(folder, &line, b"{\"key\":\"k\",\"value\":\"v\"}\n").ended(0);
    }
    let segments = fs::read_dir(folder.join("s/segments")).unwrap();
    let segment = segments.map(|it| it.unwrap().path()).max().unwrap();
    crate::exits::flip(&segment, fs::metadata(&segment).unwrap().len() as usize - 10);
    let ran = run(folder, "table dump s --skip-damaged");
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(
        ran.err.contains("left out: table ") && ran.err.contains("cannot be opened"),
        "{ran:?}"
    );
    let lines = ran.out.lines().filter(|line| line.contains("\"table\"")).count();
    assert_eq!(lines, 2, "{ran:?}");
    assert!(ran.out.ends_with("{\"tables\":2}\n"), "{ran:?}");
    run(folder, "table dump s").error(3, &["varvite repair s OUT"]);
}
