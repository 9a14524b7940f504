//! Words of advised commands as they are typed: the shell of the system takes each for one word, and the program for no
//! flag.

use std::fmt::Write;
use std::path::Path;

/// Whose rules of quoting count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    /// `sh` and those that are like it. Control characters and bytes that are no text stand in `$'…'`, which `dash` alone
    /// lacks: they would do something to a terminal.
    Posix,
    /// `PowerShell`, and `cmd` where both can be served: in double quotes, as long as nothing in them is expanded.
    Windows,
}

/// That of the system at hand.
const HERE: Shell = if cfg!(windows) { Shell::Windows } else { Shell::Posix };

/// A path as it is typed: one that begins with `-` would be a flag.
pub fn typed(path: &Path) -> String {
    path_in(HERE, path.as_os_str().as_encoded_bytes())
}

/// A word as it is typed.
#[allow(dead_code)] // not by the test of the list of commands
pub fn word(text: &str) -> String {
    quoted(HERE, text.as_bytes())
}

/// A flag with its value as they are typed: a value that begins with `-` would be another flag.
#[allow(dead_code)] // not by the test of the list of commands
pub fn option(flag: &str, value: &str) -> String {
    let between = if value.starts_with('-') || value.is_empty() { '=' } else { ' ' };
    format!("{flag}{between}{}", word(value))
}

fn path_in(shell: Shell, path: &[u8]) -> String {
    if !path.starts_with(b"-") {
        return quoted(shell, path);
    }
    let here: &[u8] = if shell == Shell::Windows { b".\\" } else { b"./" };
    quoted(shell, &[here, path].concat())
}

fn quoted(shell: Shell, word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    let plain = if shell == Shell::Windows { "_./\\:+-" } else { "_./:=+@%,-" };
    let is_plain = |it: char| it.is_alphanumeric() || plain.contains(it);
    // zsh takes what begins with = for a command's path.
    if !word.is_empty()
        && !word.starts_with(b"=")
        && std::str::from_utf8(word).is_ok()
        && text.chars().all(is_plain)
    {
        return text.into_owned();
    }
    match shell {
        Shell::Posix => posix(word),
        Shell::Windows => windows(&text),
    }
}

fn posix(word: &[u8]) -> String {
    let text = std::str::from_utf8(word).ok().filter(|text| !text.chars().any(char::is_control));
    if let Some(text) = text {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut quoted = "$'".to_owned();
    for chunk in word.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\'' | '\\' => quoted.extend(['\\', character]),
                _ if character.is_control() => {
                    let mut bytes = [0; 4];
                    character.encode_utf8(&mut bytes).bytes().for_each(|it| octal(&mut quoted, it));
                }
                _ => quoted.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut quoted, *byte));
    }
    quoted.push('\'');
    quoted
}

/// Three digits, so that what follows is none of them.
fn octal(text: &mut String, byte: u8) {
    let _ = write!(text, "\\{byte:03o}");
}

fn windows(text: &str) -> String {
    if text.contains(['"', '$', '`']) || text.chars().any(char::is_control) {
        return powershell(text);
    }
    // A backslash before the last quotation mark would make a character of it.
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    format!("\"{text}{}\"", "\\".repeat(backslashes))
}

/// What `cmd` has no form for.
fn powershell(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' | '$' | '`' => quoted.extend(['`', character]),
            _ if character.is_control() => {
                let _ = write!(quoted, "`u{{{:x}}}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&[u8]; 16] = [
        b"plain/path-1.2",
        b"",
        b"two words",
        b"it's",
        b"say \"no\"",
        b"$HOME `ls` \\",
        b"a\nb\tc",
        b"\x1b[31mred",
        b"\xff\xfe7",
        b"\xc3\xa9t\xc3\xa9",
        b"*?[a]{b}",
        b"~",
        b"=ls",
        b"a;b|c&d>e",
        b"!history #x",
        b"\xc2\x857",
    ];

    #[test]
    #[cfg(unix)]
    fn a_posix_shell_takes_each_for_one_word_without_control_characters() {
        use std::process::Command;
        for word in WORDS {
            let quoted = quoted(Shell::Posix, word);
            assert!(!quoted.chars().any(char::is_control), "{quoted:?}");
            // dash has no $'…', and is often sh.
            let shell = if quoted.starts_with('$') { "bash" } else { "sh" };
            let ran = Command::new(shell).args(["-c", &format!("printf %s\\| {quoted}")]).output();
            assert_eq!(ran.unwrap().stdout, [word, b"|"].concat(), "{quoted}");
        }
    }

    /// The words of a command line as Windows gives them to a program, when no shell has changed them.
    fn words_of_windows(line: &str) -> Vec<String> {
        let (mut words, mut word, mut in_quotes, mut has_word) =
            (Vec::new(), String::new(), false, false);
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' => {
                    let mut count = 1;
                    while characters.next_if_eq(&'\\').is_some() {
                        count += 1;
                    }
                    let is_before_quote = characters.peek() == Some(&'"');
                    word.push_str(&"\\".repeat(if is_before_quote { count / 2 } else { count }));
                    if is_before_quote && count % 2 == 1 {
                        word.extend(characters.next());
                    }
                    has_word = true;
                }
                '"' => (in_quotes, has_word) = (!in_quotes, true),
                ' ' if !in_quotes => {
                    words.extend(std::mem::take(&mut has_word).then(|| std::mem::take(&mut word)));
                }
                _ => (has_word, word) = (true, word + &character.to_string()),
            }
        }
        words.extend(has_word.then_some(word));
        words
    }

    /// What PowerShell makes of a quoted word.
    fn in_powershell(quoted: &str) -> String {
        if let Some(inside) = quoted.strip_prefix('\'') {
            return inside.strip_suffix('\'').unwrap().replace("''", "'");
        }
        let inside = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap();
        let mut text = String::new();
        let mut characters = inside.chars();
        while let Some(character) = characters.next() {
            assert!(character != '$' && character != '"', "it would be expanded: {quoted}");
            if character != '`' {
                text.push(character);
                continue;
            }
            match characters.next() {
                Some('u') => {
                    let code: String =
                        characters.by_ref().skip(1).take_while(|it| *it != '}').collect();
                    text.extend(char::from_u32(u32::from_str_radix(&code, 16).unwrap()));
                }
                escaped => text.extend(escaped),
            }
        }
        text
    }

    #[test]
    fn windows_takes_each_for_one_word() {
        let mut served = 0;
        for word in WORDS.into_iter().filter_map(|word| std::str::from_utf8(word).ok()) {
            let quoted = quoted(Shell::Windows, word.as_bytes());
            assert!(!quoted.chars().any(char::is_control), "{quoted:?}");
            let is_of_both = !word.contains(['"', '$', '`']) && !word.chars().any(char::is_control);
            if is_of_both {
                // As cmd hands it on, which leaves quotation marks to the program.
                assert_eq!(words_of_windows(&format!("varvite {quoted}"))[1..], [word], "{quoted}");
                served += 1;
            } else {
                assert_eq!(in_powershell(&quoted), word, "{quoted}");
            }
        }
        assert!(served > 8, "{served}");
        assert_eq!(quoted(Shell::Windows, b"C:\\my stores\\"), "\"C:\\my stores\\\\\"");
        assert_eq!(quoted(Shell::Windows, b"C:\\stores\\one"), "C:\\stores\\one");
        assert_eq!(quoted(Shell::Windows, b"it's"), "\"it's\"");
    }

    #[test]
    fn what_begins_like_a_flag_is_none() {
        assert_eq!(path_in(Shell::Posix, b"-store"), "./-store");
        assert_eq!(path_in(Shell::Posix, b"--my store"), "'./--my store'");
        assert_eq!(path_in(Shell::Windows, b"-store"), ".\\-store");
        assert_eq!(path_in(Shell::Posix, b"/a/-b"), "/a/-b");
        assert_eq!(option("--table", "-t"), "--table=-t");
        assert_eq!(option("--table", "t"), "--table t");
    }
}
