//! The documents are true: what is generated is up to date, every rule that a comment cites exists, and every link
//! and path leads somewhere. `UPDATE=1` writes the generated parts.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory};
use everpost::app::cli::CommandLine;
use everpost::app::config::{KEYS, SettingKey};
use everpost::model::setting::SettingKind;

use crate::sources::sources;

/// Everything below this line of a document is generated.
const MARK: &str =
    "<!-- Generated from the code by `UPDATE=1 cargo test --test it documents`. -->\n";

/// An option that at least so many commands have is described once for all of them.
const COMMON: usize = 30;

/// A command with at least so many options, all of which another has too, refers to that one.
const WORTH_A_REFERENCE: usize = 10;

const README_LINES_MAX: usize = 200;

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines; the place for more is docs/"
    );
}

#[test]
fn every_setting_is_described() {
    let mut text =
        String::from("\n| Setting | Default | Takes effect | Meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let (name, default) = (key.name, default_of(key));
        let when = if key.is_live {
            "at once"
        } else {
            "after a restart"
        };
        writeln!(
            text,
            "| `{name}` | {default} | {when} | {} |",
            cell(key.doc)
        )
        .expect("a text");
    }
    expect_generated("docs/configuration.md", &text);
}

fn default_of(key: &SettingKey) -> String {
    match (key.default, key.kind) {
        _ if key.secret => "none (a secret)".to_owned(),
        (None, _) | (Some(""), SettingKind::List(_)) => "none".to_owned(),
        (Some(default), _) => format!("`{default}`"),
    }
}

#[test]
fn every_command_is_described() {
    let mut program = CommandLine::command();
    program.build();
    let mut commands = Vec::new();
    gather(&program, "everpost", &mut commands);
    let common = common_options(&commands);
    let mut text = String::from("\n## Options of commands that talk to a server\n");
    let listed = commands
        .iter()
        .flat_map(|(_, command)| options(command))
        .map(|option| (row(option), option))
        .filter(|(row, _)| common.contains(row))
        .map(|(row, option)| (option.get_long().unwrap_or_default(), row));
    table(
        &mut text,
        "Option",
        listed.collect::<BTreeMap<_, _>>().into_values(),
    );
    let mut described: HashMap<Vec<String>, &str> = HashMap::new();
    for (path, command) in &commands[1..] {
        describe(&mut text, path, command, &common, &mut described);
    }
    expect_generated("docs/cli.md", &text);
}

/// Every command below `command`, itself included, with its whole name.
fn gather<'a>(command: &'a Command, path: &str, found: &mut Vec<(String, &'a Command)>) {
    found.push((path.to_owned(), command));
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            gather(below, &format!("{path} {}", below.get_name()), found);
        }
    }
}

fn common_options(commands: &[(String, &Command)]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, command) in commands {
        for option in options(command) {
            *counts.entry(row(option)).or_default() += 1;
        }
    }
    counts.retain(|_, count| *count >= COMMON);
    counts.into_keys().collect()
}

/// Its own flags, without those that are settings.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set() && !is_setting(arg))
        .filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"))
}

fn is_setting(arg: &Arg) -> bool {
    arg.get_help_heading() == Some("Settings")
}

fn describe<'a>(
    text: &mut String,
    path: &'a str,
    command: &'a Command,
    common: &[String],
    described: &mut HashMap<Vec<String>, &'a str>,
) {
    let level = "#".repeat(path.matches(' ').count() + 1);
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = about.trim_end_matches('.');
    writeln!(text, "\n{level} {path}\n\n{about}.").expect("a text");
    if command.has_subcommands() {
        return;
    }
    writeln!(text, "\n```text\n{usage}\n```").expect("a text");
    let arguments = command.get_positionals();
    let arguments = arguments.filter(|arg| !arg.is_hide_set()).map(row);
    table(
        text,
        "Argument",
        arguments.filter(|row| !row.ends_with("|  |")),
    );
    let own: Vec<String> = options(command)
        .map(row)
        .filter(|row| !common.contains(row))
        .collect();
    match described.get(&own) {
        Some(other) => writeln!(text, "\nThe options are those of `{other}`.").expect("a text"),
        None => table(text, "Option", own.clone().into_iter()),
    }
    if own.len() >= WORTH_A_REFERENCE {
        described.entry(own).or_insert(path);
    }
    if command.get_arguments().any(is_setting) {
        text.push_str("\nEvery [setting](configuration.md) is an option too.\n");
    }
    if let Some(examples) = command.get_after_long_help().or(command.get_after_help()) {
        let examples = examples.to_string();
        let examples = examples.trim_start_matches("Examples:\n").trim_end();
        writeln!(text, "\n```text\n{examples}\n```").expect("a text");
    }
}

fn table(text: &mut String, head: &str, rows: impl Iterator<Item = String>) {
    let rows: Vec<String> = rows.collect();
    if !rows.is_empty() {
        writeln!(
            text,
            "\n| {head} | Meaning |\n|---|---|\n{}",
            rows.join("\n")
        )
        .expect("a text");
    }
}

/// One line of a table: how it is written, and what it means.
fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut meaning = help.map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    let is_said = values.iter().all(|value| meaning.contains(value));
    if !is_said && !matches!(values[..], ["true", "false"]) {
        write!(meaning, " ({})", values.join(", ")).expect("a text");
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults.map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        write!(meaning, " [default: {}]", defaults.join(" ")).expect("a text");
    }
    if let Some(variable) = arg.get_env() {
        write!(meaning, " [env: {}]", variable.to_string_lossy()).expect("a text");
    }
    format!(
        "| `{}` | {} |",
        cell(&arg.to_string()),
        cell(meaning.trim())
    )
}

/// In one line, with nothing that ends a cell or opens a tag.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|")
}

fn expect_generated(path: &str, generated: &str) {
    let text = read(path);
    let (written, found) = text.split_once(MARK).expect("a document with a mark");
    if found == generated {
        return;
    }
    assert!(
        std::env::var_os("UPDATE").is_some(),
        "{path} is out of date; write it with UPDATE=1 cargo test --test it documents"
    );
    fs::write(root().join(path), format!("{written}{MARK}{generated}")).expect("written");
}

#[test]
fn every_rule_that_is_cited_exists() {
    let rules = headings("docs/azure-compatibility.md");
    let sections = headings("docs/security.md");
    let has = |headings: &[String], rule: &str| {
        let starts = |heading: &&String| {
            heading.starts_with(&format!("{rule} ")) || heading.starts_with(&format!("{rule}. "))
        };
        headings.iter().any(|heading| starts(&heading))
    };
    let mut faults = Vec::new();
    let mut count = 0;
    for (path, text) in sources("src").into_iter().chain(sources("tests/it")) {
        let comments = comments(&text);
        for rule in cited(&comments) {
            count += 1;
            if !has(&rules, &rule) {
                faults.push(format!(
                    "{path}: docs/azure-compatibility.md has no rule {rule}"
                ));
            }
        }
        for section in comments.split("docs/security.md ").skip(1) {
            let section = section.split(|c: char| !c.is_alphanumeric()).next();
            let section = section.unwrap_or_default();
            if !has(&sections, section) {
                faults.push(format!("{path}: docs/security.md has no section {section}"));
            }
        }
    }
    assert!(count > 100, "the test finds no citations any more");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn citations_are_understood() {
    for (comment, rules) in [
        ("the schedule (rule 7.1).", &["7.1"][..]),
        ("(rule 3.3, 6.4)", &["3.3", "6.4"]),
        ("of rule 3.3, and 6.4.", &["3.3", "6.4"]),
        ("(rule S1.1, 4, 8): addresses", &["S1.1", "S4", "S8"]),
        ("(rule N6.3 and 7)", &["N6.3", "N7"]),
        ("(rule 9.2, 9.3, rule N7)", &["9.2", "9.3", "N7"]),
        ("(RFC 6749, section 2.3.1)", &[]),
        ("(rule 5, section A)", &["5", "A"]),
        ("(rule 1.4: 1 MB)", &["1.4"]),
        ("(rule A, \"no end\")", &["A"]),
        ("a rule of the filter", &[]),
    ] {
        assert_eq!(cited(comment), rules, "{comment}");
    }
}

/// The rules that a text cites. A number behind a rule of namespaces or of Service Bus is one of theirs.
fn cited(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, mark) in text.match_indices("rule ") {
        let mut rest = &text[at + mark.len()..];
        let mut family = "";
        loop {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            let token = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            let number = token.trim_start_matches(['N', 'S']);
            let is_number = number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_digit() || c == '.');
            if token != "A" && !is_number {
                break;
            }
            if number.len() < token.len() {
                family = &token[..token.len() - number.len()];
            }
            found.push(match token {
                "A" => token.to_owned(),
                _ => format!("{family}{number}"),
            });
            rest = &rest[token.len()..];
            let mut links = [", section ", ", and ", ", ", " and "].iter();
            let Some(next) = links.find_map(|link| rest.strip_prefix(link)) else {
                break;
            };
            rest = next;
        }
    }
    found
}

/// The comments of a file, each run of lines as one.
fn comments(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment);
        comment.trim_start_matches(['/', '!']).trim()
    });
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn links_and_paths_lead_somewhere() {
    let mut faults = Vec::new();
    for path in documents() {
        let text = read(&path);
        let folder = PathBuf::from(&path).parent().expect("a folder").to_owned();
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.starts_with("https://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => normal(&folder.join(file)),
            };
            let is_there = root().join(&target).exists();
            if !is_there || (!anchor.is_empty() && !anchors(&target).contains(&anchor.to_owned())) {
                faults.push(format!("{path}: {link} leads nowhere"));
            }
        }
        let words = text.split(|c: char| c.is_whitespace() || "`()[]|,;".contains(c));
        for word in words.map(|word| word.trim_end_matches(['.', ':'])) {
            let is_path = ["src/", "tests/", "docs/", "migrations/"]
                .iter()
                .any(|start| word.starts_with(start));
            if is_path && !root().join(word.split('#').next().unwrap_or(word)).exists() {
                faults.push(format!("{path}: there is no {word}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn metrics_that_are_named_exist() {
    let source = read("src/broker/diagnostics/meters.rs");
    let mut faults = Vec::new();
    for path in documents() {
        let text = read(&path);
        let quoted = text.split('`').skip(1).step_by(2);
        for name in quoted.filter_map(|quoted| quoted.strip_prefix("everpost_")) {
            let name = name.strip_suffix("_total").unwrap_or(name);
            if !source.contains(&format!("\"{name}\"")) {
                faults.push(format!("{path}: there is no metric everpost_{name}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Without `..`, which only leads up from `docs`.
fn normal(path: &std::path::Path) -> String {
    path.to_string_lossy().replace("docs/../", "")
}

/// Where links into a document can lead, as GitHub names them.
fn anchors(path: &str) -> Vec<String> {
    let headings = headings(path).into_iter();
    headings
        .map(|heading| {
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

/// The headings of a document.
fn headings(path: &str) -> Vec<String> {
    let text = read(path);
    let outside = text.split("```").step_by(2);
    let lines = outside
        .flat_map(str::lines)
        .filter(|line| line.starts_with('#'));
    lines
        .map(|line| line.trim_start_matches('#').trim().to_owned())
        .collect()
}

/// Everything that is written for people.
pub(crate) fn documents() -> Vec<String> {
    let of = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of the project");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| format!("{folder}{}", name.to_string_lossy()));
        names
            .filter(|name| name.ends_with(".md"))
            .collect::<Vec<_>>()
    };
    let mut found = [of(""), of("docs/")].concat();
    found.sort();
    assert!(found.len() > 10, "where are the documents?");
    found
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
