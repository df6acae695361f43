//! The house style, as far as a test can hold it: the direction of imports, where time and dice come
//! from, and that nothing is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::sources::{Import, code_lines, imports, product_sources, root, sources};

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

/// Modules of the store that doors may read: the lists, the accounts that people sign in with, and the audit
/// log, so that no verb of the broker merely passes a question on.
const STORE_MODULES_OF_DOORS: [&str; 3] = ["views", "accounts", "audit"];

/// Values of the store that broker verbs take and return, so that doors name them.
const STORE_VALUES_OF_DOORS: [&str; 8] = [
    "CommitTimes",
    "DeadLetter",
    "LockSelection",
    "Locked",
    "Origin",
    "Peeked",
    "RequestMark",
    "StoreError",
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
const LEDGER_VERBS: usize = 48;

/// The command line's own client speaks to the appliance, not to the world.
const CLIENT: &str = "src/app/cli/request.rs";

#[test]
fn imports_point_downwards() {
    let mut faults = Vec::new();
    for (path, text) in product_sources() {
        let Some((floor, height)) = floor_of(&path) else {
            continue;
        };
        for import in imports(&text, "crate") {
            let (other, _) = import.path.split_once("::").unwrap_or((&import.path, ""));
            let Some((_, other_height)) = FLOORS.iter().find(|(name, _)| *name == other) else {
                continue;
            };
            let place = format!("{path}:{}: {}", import.line, import.path);
            if other != floor && *other_height >= height {
                faults.push(format!("{place}: {floor} must not import {other}"));
            }
            if is_door(floor) && other == "store" && !may_stand_in_door(&import) {
                faults.push(format!("{place}: a door reaches into the store"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Doors to messaging entities, which share what the broker has, and nothing else.
const MESSAGING_DOORS: [&str; 2] = ["amqp", "service_bus"];

#[test]
fn messaging_doors_know_nothing_of_each_other_and_find_nothing_by_themselves() {
    let mut faults = Vec::new();
    for (path, text) in product_sources() {
        let folder = |door: &&&str| path.starts_with(&format!("src/api/{door}/"));
        let Some(own) = MESSAGING_DOORS.iter().find(folder) else {
            continue;
        };
        for import in imports(&text, "crate::api") {
            let other = import.path.split("::").next().unwrap_or_default();
            if other != *own && MESSAGING_DOORS.contains(&other) {
                faults.push(format!("{path}:{}: {own} imports {other}", import.line));
            }
        }
        for (number, line) in code_lines(&text) {
            if ["TopicName::parse(", "registry.topic("]
                .iter()
                .any(|call| line.contains(call))
            {
                faults.push(format!(
                    "{path}:{number}: find entities with `Broker::resolve`"
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_broker_knows_no_protocol() {
    let mut faults = Vec::new();
    for (path, text) in product_sources().filter(|(path, _)| path.starts_with("src/broker/")) {
        for import in imports(&text, "crate::wire::amqp") {
            if import.path.starts_with("condition") || import.path == "AmqpError" {
                faults.push(format!("{path}:{}: {}", import.line, import.path));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn is_door(floor: &str) -> bool {
    matches!(floor, "api" | "admin")
}

/// Doors read the views and name the values that broker verbs take and return.
fn may_stand_in_door(import: &Import) -> bool {
    let named = import.path.split("::").nth(1).unwrap_or_default();
    STORE_MODULES_OF_DOORS.contains(&named) || STORE_VALUES_OF_DOORS.contains(&named)
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
            .filter(|line| line.starts_with("    pub") && line.contains(" fn "));
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

/// The doors log what clients do, and a client can do the same again and again.
#[test]
fn lines_that_clients_can_cause_are_seldom() {
    let mut faults = Vec::new();
    for (path, text) in product_sources() {
        if !path.starts_with("src/api/") && !path.starts_with("src/admin/") {
            continue;
        }
        for level in ["info", "warn", "error"] {
            let begin = format!("tracing::{level}!(");
            let lines = text.split(&begin).skip(1);
            let lines = lines.filter_map(|line| line.split(");").next());
            let often = lines.filter(|line| !line.contains("unlogged"));
            faults.extend(often.map(|line| format!("{path}: use `base::SeldomLine`: {line}")));
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
    let imported = |path: &String| -> BTreeSet<&String> {
        let imports = imports(&modules[path], "crate::admin").into_iter();
        imports
            .filter_map(|import| module_of(&import.path, &modules))
            .collect()
    };
    let direct: BTreeMap<&String, BTreeSet<&String>> =
        modules.keys().map(|path| (path, imported(path))).collect();
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

/// The file of the innermost module on the path of `name`.
fn module_of<'a>(name: &str, modules: &'a BTreeMap<String, String>) -> Option<&'a String> {
    let parts: Vec<&str> = name.split("::").collect();
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

/// With other features for the tests, a build without them would compile a dependency, and all above it, once more.
#[test]
fn a_build_without_the_tests_compiles_no_dependency_again() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let names = |section: &str| manifest[section].as_table().expect("a table").keys();
    let shipped: BTreeSet<&String> = names("dependencies").collect();
    let twice: Vec<_> = names("dev-dependencies")
        .filter(|name| shipped.contains(name))
        .collect();
    assert!(
        twice.is_empty(),
        "give [dependencies] the features of {twice:?}"
    );
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

fn floor_of(path: &str) -> Option<(&'static str, u32)> {
    let name = path.strip_prefix("src/")?.split('/').next()?;
    FLOORS.into_iter().find(|(floor, _)| *floor == name)
}

/// A thing that is to become rarer, and how often it stands in the product today. No change may raise the number,
/// and one that lowers it writes down the new one.
struct Rarity {
    name: &'static str,
    most: usize,
    count: fn(&str) -> usize,
}

const RARITIES: [Rarity; 5] = [
    Rarity {
        name: "doc comments that presuppose another",
        most: 0,
        count: presupposing_comments,
    },
    Rarity {
        name: "matches on booleans",
        most: 0,
        count: boolean_matches,
    },
    Rarity {
        name: "imports of everything",
        most: 0,
        count: glob_imports,
    },
    Rarity {
        name: "refus*",
        most: 6,
        count: refusals,
    },
    Rarity {
        name: "names that shadow what they are made of",
        most: 37,
        count: shadowings,
    },
];

/// Counts the types whose name another type has, too.
const NAMESAKES: usize = 10;

#[test]
fn nothing_that_is_to_become_rarer_becomes_more() {
    let texts: Vec<(String, String)> = product_sources().collect();
    let mut faults = Vec::new();
    for Rarity { name, most, count } in RARITIES {
        let counts = texts.iter().map(|(path, text)| (count(text), path));
        let total: usize = counts.clone().map(|(count, _)| count).sum();
        if total > most {
            let mut counts: Vec<_> = counts.collect();
            counts.sort_by(|one, other| other.cmp(one));
            faults.push(format!(
                "{name}: {total}, but at most {most}; most of them: {:?}",
                &counts[..5]
            ));
        }
    }
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for name in texts.iter().flat_map(|(_, text)| type_names(text)) {
        *types.entry(name).or_default() += 1;
    }
    types.retain(|_, count| *count > 1);
    let namesakes: usize = types.values().sum();
    if namesakes > NAMESAKES {
        faults.push(format!(
            "types that share their names: {namesakes}, but at most {NAMESAKES}: {types:?}"
        ));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Counts the comments that say something only to those who read the one above.
fn presupposing_comments(text: &str) -> usize {
    const HEADS: [&str; 10] = [
        "What",
        "Whether",
        "Of",
        "The same",
        "As",
        "Those",
        "That of",
        "All of them",
        "One of them",
        "Likewise",
    ];
    let mut is_first = true;
    let mut found = 0;
    for line in text.lines().map(str::trim_start) {
        let doc = line.strip_prefix("/// ").or(line.strip_prefix("//! "));
        let presupposes = doc.is_some_and(|doc| {
            HEADS.iter().any(|head| {
                let rest = doc.strip_prefix(head);
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            })
        });
        found += usize::from(is_first && presupposes);
        is_first = doc.is_none() && !line.starts_with("///");
    }
    found
}

fn boolean_matches(text: &str) -> usize {
    let arms = code_lines(text).map(|(_, line)| line.trim_start());
    arms.filter(|arm| arm.starts_with("true =>")).count()
}

fn glob_imports(text: &str) -> usize {
    let mut found = 0;
    let mut is_import = false;
    for (_, line) in code_lines(text) {
        let line = line.trim_start();
        is_import |= ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .any(|head| line.starts_with(head));
        found += usize::from(is_import && line.contains('*'));
        is_import &= !line.ends_with(';');
    }
    found
}

fn refusals(text: &str) -> usize {
    text.to_lowercase().matches("refus").count()
}

fn shadowings(text: &str) -> usize {
    let made = code_lines(text).filter_map(|(_, line)| line.trim_start().strip_prefix("let "));
    made.filter(|made| {
        let made = made.strip_prefix("mut ").unwrap_or(made);
        let name = made
            .split_once(" = ")
            .map(|(name, from)| (name, from.trim_start_matches(['&', '*'])));
        name.is_some_and(|(name, from)| {
            let rest = from.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '?']))
        })
    })
    .count()
}

fn type_names(text: &str) -> impl Iterator<Item = &str> {
    code_lines(text).filter_map(|(_, line)| {
        let line = line.trim_start();
        let line = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let name = line.strip_prefix("struct ").or(line.strip_prefix("enum "));
        let name = name?.split(|c: char| !c.is_alphanumeric()).next();
        name.filter(|name| !name.is_empty()) // `$name` in a macro
    })
}

#[test]
fn the_rare_is_counted() {
    let source = "
/// What it is.
/// Of no account.
struct A;

/// Offers nothing. The same as above.
pub(crate) enum B {
    /// Whether it is so.
    C,
}
use a::{
    b::*,
};
fn refuse(now: bool) {
    let a = a.b();
    let mut b = &b?;
    let c = cd.e();
    match now {
        true => 1 * 2,
        false => 3,
    }
}
";
    let counts = RARITIES.map(|rarity| (rarity.count)(source));
    assert_eq!(counts, [2, 1, 1, 1, 2]);
    assert_eq!(type_names(source).collect::<Vec<_>>(), ["A", "B"]);
}
