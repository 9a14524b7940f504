//! What a person sees: the program on a terminal, of several widths.

use std::fs::{self, File};
use std::io::Read;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;

use crate::binary::{command, command_in, run, text, varvite};
use crate::exits::{World, lines};

/// Runs `command` with standard error, and standard output unless it is given, on a terminal of so many columns; gives
/// its exit code and what the terminal got.
fn on_terminal(columns: u16, mut command: Command, output: Option<File>) -> (i32, String) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    let screen = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).unwrap();
    let screen = File::from(screen);
    command.stdout(output.unwrap_or_else(|| screen.try_clone().unwrap()));
    command.stderr(screen);
    let mut child = command.spawn().unwrap();
    // It has the program's end of the terminal.
    drop(command);
    let (mut keyboard, mut seen, mut piece) = (File::from(keyboard), Vec::new(), [0; 4096]);
    // Reading fails when nobody has the other end any more.
    while let Ok(length @ 1..) = keyboard.read(&mut piece) {
        seen.extend_from_slice(&piece[..length]);
    }
    let code = child.wait().unwrap().code().unwrap();
    // A proof is bytes.
    (code, String::from_utf8_lossy(&seen).replace("\r\n", "\n"))
}

#[test]
fn a_terminal_of_any_width_stays_readable() {
    let long = "n".repeat(64);
    for columns in [0, 40, 80, 200] {
        let world = World::new();
        varvite(&["table", "put", text(&world.path("LIVE")), &long, "k", "v"]).yes();
        // A terminal that does not know its width is taken for one of 80.
        let width = if columns == 0 { 80 } else { usize::from(columns) };
        let (mut grids, mut names) = (0, 0);
        for line in lines().filter(|line| !line.contains("--changes") && !line.contains("shell")) {
            let arguments = world.arguments(line);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let (_, seen) = on_terminal(columns, command(&arguments), None);
            for row in seen.lines().filter(|row| row.contains(['│', '┌', '╞', '└'])) {
                assert!(row.width() <= width, "{line}, {columns} columns: {row}");
                grids += 1;
            }
            if line == "table list LIVE" {
                assert!(seen.lines().any(|row| row.contains(&long)), "{columns}: {seen}");
                names += 1;
            }
        }
        assert!(names == 1 && (columns == 40 || grids > 40), "{columns}: {grids}");
    }
}

/// A file that nobody has begun to write keeps `conformance` waiting, which says nothing of how far it is.
fn waiting(quiet: bool, is_piped: bool) -> String {
    let folder = TempDir::new().unwrap();
    let (file, result) = (folder.path().join("file"), folder.path().join("result"));
    mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).unwrap();
    let mut arguments = vec!["conformance", text(&file)];
    arguments.extend(quiet.then_some("--quiet"));
    let program = command(&arguments);
    let output = is_piped.then(|| File::create(&result).unwrap());
    let ran = thread::spawn(move || on_terminal(80, program, output));
    thread::sleep(Duration::from_millis(3_500));
    fs::write(&file, "x").unwrap();
    let (code, seen) = ran.join().unwrap();
    assert_eq!(code, 3, "{seen}");
    assert!(!is_piped || fs::read(result).unwrap().is_empty());
    seen
}

/// A store whose segments are pipes keeps whoever reads them waiting, in the middle of its work.
fn reading(line: &str, quiet: bool) -> String {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a 1 --create").yes();
    run(folder, "table put S u b 2").yes();
    run(folder, "table snapshot create S keep").yes();
    let segments = fs::read_dir(folder.join("S/segments")).unwrap().map(|it| it.unwrap().path());
    let segments: Vec<_> = segments.collect();
    assert!(segments.len() > 1, "{segments:?}");
    for segment in &segments {
        fs::remove_file(segment).unwrap();
        mkfifoat(CWD, segment, Mode::RUSR | Mode::WUSR).unwrap();
    }
    let line = if quiet { format!("{line} --quiet") } else { line.to_owned() };
    let program = command_in(folder, &line);
    let ran = thread::spawn(move || on_terminal(80, program, None));
    thread::sleep(Duration::from_millis(3_500));
    assert!(!ran.is_finished(), "{line}");
    let both = |path| File::options().read(true).write(true).open(path).unwrap();
    // Who looks for all damage reads one after the other, each to its end.
    while !ran.is_finished() {
        let ends: Vec<_> = segments.iter().map(both).collect();
        thread::sleep(Duration::from_millis(50));
        drop(ends);
    }
    let (code, seen) = ran.join().unwrap();
    assert!(code > 1 && (seen.contains("error: ") || seen.contains("findings")), "{line}: {seen}");
    seen
}

#[test]
fn commands_that_read_much_show_that_they_work() {
    let lines = [
        ("table snapshot verify S keep", "reading every byte, "),
        ("table union S both t u", "table union, "),
        ("table delete-range S t --all", "table delete-range, "),
    ];
    let runs =
        lines.into_iter().flat_map(|(line, shown)| [false, true].map(|it| (line, shown, it)));
    let runs: Vec<_> = runs
        .map(|(line, shown, quiet)| {
            let ran = thread::spawn(move || reading(line, quiet));
            (line, shown, quiet, ran)
        })
        .collect();
    for (line, shown, quiet, ran) in runs {
        let seen = ran.join().unwrap();
        let is_shown = ["2s", "3s"].iter().any(|time| seen.contains(&format!("{shown}{time}")));
        assert_eq!(is_shown, !quiet, "{line}: {seen:?}");
    }
}

#[test]
fn what_says_nothing_for_two_seconds_shows_that_it_works() {
    let start = Instant::now();
    for is_piped in [false, true] {
        let seen = waiting(false, is_piped);
        assert!(seen.contains("conformance, 2s") || seen.contains("conformance, 3s"), "{seen:?}");
        // Nothing of it stands before the sentence.
        let last = seen.rsplit(['\n', '\r']).find(|line| line.contains("error: ")).unwrap();
        assert!(!last.contains("conformance, "), "{seen:?}");
        let quiet = waiting(true, is_piped);
        assert!(quiet.starts_with("error: ") && quiet.lines().count() == 1, "{quiet:?}");
    }
    assert!(start.elapsed() > Duration::from_secs(14));
}
