//! The house style, as far as a test can hold it: the direction of imports, where time and dice come
//! from, and that nothing is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, from the ground up. A module imports from floors below its own.
const FLOORS: [(&str, u32); 9] = [
    ("base", 1),
    ("model", 2),
    ("wire", 3),
    ("store", 4),
    ("outbound", 4),
    ("broker", 5),
    ("api", 6),
    ("admin", 6),
    ("app", 7),
];

/// What the doors may take from the store: the read-only handle of the lists, the accounts that people
/// sign in with, and what they have done, so that no verb of the broker merely passes a question on.
const DOORS_MAY_USE: [&str; 3] = [
    "crate::store::views",
    "crate::store::accounts",
    "crate::store::audit",
];

/// Calls that belong to one place, that place, and what to do instead.
const BANNED: [(&str, &str, &str); 8] = [
    (
        "SystemTime::now",
        "src/base/",
        "take `now` from `base::Clock`",
    ),
    ("Instant::now", "src/base/", "measure with `base::Clock`"),
    ("now_utc", "src/base/", "take `now` from `base::Clock`"),
    (
        "SystemRandom",
        "src/base/",
        "take randomness from `base::Entropy`",
    ),
    (
        "rand::random",
        "src/base/",
        "take randomness from `base::Entropy`",
    ),
    ("Uuid::new_v", "src/base/", "take ids from `base::Entropy`"),
    (
        "std::env::var",
        "src/app/",
        "settings come from `app::config`",
    ),
    (
        "reqwest::Client::",
        "src/outbound/",
        "requests go through `outbound::exchange`",
    ),
];

/// What another database would have to implement. This number rises only for what the ledger did not do before.
const LEDGER_VERBS: usize = 40;

/// The command line's own client speaks to the appliance, not to the world.
const CLIENT: &str = "src/app/cli/request.rs";

#[test]
fn imports_point_downwards() {
    let mut faults = Vec::new();
    for (path, text) in product_sources() {
        let Some((floor, height)) = floor_of(&path) else {
            continue;
        };
        for (number, line) in code_lines(&text) {
            for (other, other_height) in FLOORS {
                let imports = line.contains(&format!("crate::{other}::"))
                    || line.contains(&format!("crate::{other};"));
                let allowed = other == floor || other_height < height;
                if imports && !(allowed || is_exception(floor, line)) {
                    faults.push(format!("{path}:{number}: {floor} must not import {other}"));
                }
                if imports && is_door(floor) && other == "store" && !is_exception(floor, line) {
                    check_door(&path, number, line, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Doors may name the values that broker verbs take and return, and read the views.
fn check_door(path: &str, number: usize, line: &str, faults: &mut Vec<String>) {
    const VALUES: [&str; 8] = [
        "CommitTimes",
        "DeadLetter",
        "Locked",
        "Origin",
        "Peeked",
        "RequestMark",
        "StoreError",
        "LockSelection",
    ];
    let named = line.split("crate::store::").nth(1).unwrap_or_default();
    let names = named.trim_matches(|c: char| "{};".contains(c) || c.is_whitespace());
    let all_values = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .all(|name| VALUES.contains(&name.trim_matches(|c: char| "{};".contains(c))));
    if !all_values {
        faults.push(format!(
            "{path}:{number}: a door reaches into the store: {}",
            line.trim()
        ));
    }
}

fn is_door(floor: &str) -> bool {
    matches!(floor, "api" | "admin")
}

fn is_exception(floor: &str, line: &str) -> bool {
    is_door(floor) && DOORS_MAY_USE.iter().any(|module| line.contains(module))
}

#[test]
fn the_ledger_is_a_short_list_of_verbs() {
    let mut verbs = Vec::new();
    for (path, text) in product_sources().filter(|(_, text)| text.contains("impl Ledger {")) {
        assert_eq!(
            path, "src/store/ledger/mod.rs",
            "the ledger has one list of verbs"
        );
        let public = text
            .lines()
            .filter(|line| line.starts_with("    pub async fn "));
        verbs.extend(public.map(str::to_owned));
    }
    assert_eq!(verbs.len(), LEDGER_VERBS, "{}", verbs.join("\n"));
}

#[test]
fn time_and_dice_come_from_base() {
    let mut faults = Vec::new();
    for (path, text) in product_sources() {
        for (number, line) in code_lines(&text) {
            for (call, home, instead) in BANNED {
                if line.contains(call) && !path.starts_with(home) && path != CLIENT {
                    faults.push(format!("{path}:{number}: {call}: {instead}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Modules of the admin pages may need each other within a folder. Over more than one there is an order.
#[test]
fn admin_folders_import_each_other_in_one_direction() {
    let modules: BTreeMap<String, String> = product_sources()
        .filter(|(path, _)| path.starts_with("src/admin/"))
        .collect();
    let imports = |path: &String| -> BTreeSet<&String> {
        let code: Vec<&str> = code_lines(&modules[path]).map(|(_, line)| line).collect();
        let named = imported(&code.join("\n"));
        named
            .iter()
            .filter_map(|name| module_of(name, &modules))
            .collect()
    };
    let direct: BTreeMap<&String, BTreeSet<&String>> =
        modules.keys().map(|path| (path, imports(path))).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> = modules
        .keys()
        .map(|path| (path, reachable(path, &direct)))
        .collect();
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let mut faults = Vec::new();
    for (path, others) in &reached {
        let circle = others.iter().filter(|other| reached[*other].contains(path));
        let abroad = circle.filter(|other| path < *other && folder(path) != folder(other));
        faults.extend(abroad.map(|other| format!("{path} and {other} need each other")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What `code` imports of the admin pages: `crate::admin::forms::field` as `forms/field`.
fn imported(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in code.split("crate::admin::").skip(1) {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:{}, \n".contains(c)));
        let tree = &rest[..end.unwrap_or(rest.len())];
        let (stem, leaves) = tree.split_once('{').unwrap_or((tree, ""));
        let leaves = leaves.split('}').next().unwrap_or("").split(',');
        found.extend(leaves.map(|leaf| format!("{stem}{}", leaf.trim()).replace("::", "/")));
    }
    found
}

/// The file of the innermost module on the path of `name`.
fn module_of<'a>(name: &str, modules: &'a BTreeMap<String, String>) -> Option<&'a String> {
    let parts: Vec<&str> = name.split('/').map(str::trim).collect();
    let files = (1..=parts.len()).rev().flat_map(|length| {
        let stem = format!("src/admin/{}", parts[..length].join("/"));
        [format!("{stem}.rs"), format!("{stem}/mod.rs")]
    });
    let found = files.filter_map(|file| modules.get_key_value(&file)).next();
    found.map(|(path, _)| path)
}

/// Everything that `path` leads to, itself only by a circle.
fn reachable<'a>(
    path: &'a String,
    direct: &BTreeMap<&'a String, BTreeSet<&'a String>>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![path];
    while let Some(next) = waiting.pop() {
        waiting.extend(direct[next].iter().filter(|each| reached.insert(**each)));
    }
    reached
}

#[test]
fn modules_say_what_they_own() {
    let silent: Vec<String> = product_sources()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(path, _)| format!("{path}: it does not open with a `//!` that says what it owns"))
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn nothing_is_left_undone() {
    let mut faults = Vec::new();
    for (path, text) in sources("src").into_iter().chain(sources("tests/it")) {
        for (number, line) in text.lines().enumerate() {
            for mark in ["FIX\u{4d}E", "TO\u{44}O", "todo\u{21}", "#[igno\u{72}e"] {
                if line.contains(mark) {
                    faults.push(format!("{path}:{}: {mark}", number + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_test_file_is_forgotten() {
    let list = fs::read_to_string(root().join("tests/it/main.rs")).expect("the list of modules");
    for (path, _) in sources("tests/it") {
        let name = Path::new(&path)
            .file_stem()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let listed = name == "main" || list.contains(&format!("mod {name};"));
        let nested = path.matches('/').count() > 2;
        assert!(listed || nested, "{path} is not listed in tests/it/main.rs");
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`, as path from the root and text.
pub(crate) fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let path = path.strip_prefix(root()).expect("below the root");
                found.push((path.to_string_lossy().into_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// What ships: the sources without the tests that stand beside the code.
pub(crate) fn product_sources() -> impl Iterator<Item = (String, String)> {
    sources("src")
        .into_iter()
        .filter(|(path, _)| !path.contains("tests"))
}

fn floor_of(path: &str) -> Option<(&'static str, u32)> {
    let name = path.strip_prefix("src/")?.split('/').next()?;
    FLOORS.into_iter().find(|(floor, _)| *floor == name)
}

/// The lines that are code, with their numbers: comments and what follows `#[cfg(test)]` are left out.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    lines
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}
