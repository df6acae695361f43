//! The command line against a running server, as programs and people use it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

/// Looks at a server that starts, a tenth of a second apart: many more than it needs.
const LOOKS: u32 = 600;

/// A server on a data directory of its own.
struct Site {
    data_dir: TempDir,
    server: Child,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn everpost(words: &[&str], data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everpost"));
    command.args(words).arg("--data-dir").arg(data_dir);
    command.stdin(Stdio::null()).env_clear();
    command
}

fn serve(data_dir: &Path, flags: &[&str]) -> Child {
    let words = ["serve", "--listen", "127.0.0.1:0", "--time-scale", "1000"];
    let mut server = everpost(&[&words, flags].concat(), data_dir);
    let server = server.stdout(Stdio::null()).spawn();
    server.expect("the program runs")
}

/// Writes nonsense over a page of the events.
fn damage(data_dir: &Path) {
    let path = data_dir.join("everpost.db");
    let connection = Connection::open(&path).expect("the database");
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection
        .query_row(checkpoint, [], |_| Ok(()))
        .expect("a checkpoint");
    let leaf = "SELECT pageno, pgsize FROM dbstat WHERE name = 'event' AND pagetype = 'leaf' \
                ORDER BY path LIMIT 1 OFFSET 1";
    let (page, bytes): (u64, usize) = connection
        .query_row(leaf, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a page");
    drop(connection);
    let file = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("the file");
    file.write_all_at(&vec![0xa5; bytes], (page - 1) * bytes as u64)
        .expect("written");
}

impl Site {
    fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with these flags more.
    fn start_with(flags: &[&str]) -> Self {
        let data_dir = tempfile::tempdir().expect("a directory");
        let server = serve(data_dir.path(), flags);
        let site = Self { data_dir, server };
        site.wait_until_ready();
        site
    }

    fn wait_until_ready(&self) {
        for _ in 0..LOOKS {
            if self.run("healthcheck").0 == Some(0) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not start");
    }

    fn kill(&mut self) {
        self.server.kill().expect("it ends");
        self.server.wait().expect("it has ended");
    }

    /// Exit code, standard output and standard error of a command.
    fn run(&self, line: &str) -> (Option<i32>, String, String) {
        let words: Vec<&str> = line.split(' ').collect();
        let output = everpost(&words, self.data_dir.path()).output();
        let output = output.expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// Asserts the exit code, and that the output has each of the words.
    fn check(&self, line: &str, code: i32, words: &[&str]) {
        let (found, out, err) = self.run(line);
        assert_eq!(found, Some(code), "{line}: {out}{err}");
        for word in words {
            assert!(
                out.contains(word) || err.contains(word),
                "{line}: {word:?} is not in: {out}{err}"
            );
        }
    }
}

#[test]
fn what_is_created_is_shown_held_back_counted_and_deleted() {
    let site = Site::start();
    site.check("topics create orders", 0, &["name         orders"]);
    let existed = "note: topic orders existed before: it was updated, not created";
    site.check("topics create orders", 0, &[existed]);
    site.check("audit", 0, &["Created topic orders"]);

    let of_topic = "--topic orders";
    let create = format!("subscriptions create local {of_topic} --endpoint");
    let failed = ["the webhook did not agree: ", "--egress-allow 10.1.2.3/32"];
    site.check(&format!("{create} http://10.1.2.3/"), 1, &failed);

    let paused = "--endpoint http://127.0.0.1:1/ --skip-validation --paused";
    let create = format!("subscriptions create billing {of_topic} {paused}");
    site.check(&create, 0, &["state         Paused"]);
    let publish = format!("publish {of_topic} --type Order.Paid --data {{}}");
    site.check(&publish, 0, &["published 1 event to orders in "]);
    site.check("events show 1", 0, &["next attempt: paused"]);
    let held = "delivery 1 is not sent yet: paused";
    site.check("events try-now 1", 0, &[held]);

    let losses = [
        "This deletes topic orders: 2 event subscriptions, 1 pending delivery (dropped), 0 dead letters",
        "Without a terminal this needs --yes; nothing was deleted",
    ];
    site.check("topics delete orders", 2, &losses);
    let delete = format!("subscriptions delete billing {of_topic}");
    let losses = "event subscription billing of topic orders: 1 pending delivery (dropped)";
    site.check(&delete, 2, &[losses]);
    site.check("topics show orders", 0, &["orders"]);
    site.check("topics delete orders --yes", 0, &["deleted topic orders"]);
    site.check("topics show orders", 1, &["(404)"]);
    let running = "# The server that runs at http://127.0.0.1:";
    site.check(
        "config show",
        0,
        &["# The settings that a server started now", running],
    );
}

#[test]
fn damage_is_noticed_and_the_rest_is_salvaged() {
    let mut site = Site::start();
    site.check("topics create orders", 0, &[]);
    let data = format!("\"{}\"", "x".repeat(2_000));
    let publish = format!("publish --topic orders --type Order.Paid --count 100 --data {data}");
    site.check(&publish, 0, &["published 100 events"]);
    site.check("doctor", 0, &[]);
    site.kill();
    damage(site.data_dir.path());

    site.server = serve(site.data_dir.path(), &[]);
    site.wait_until_ready();
    let told = [
        "the database is damaged",
        "everpost salvage NEW_DIR",
        "event: ",
    ];
    site.check("doctor", 1, &told);
    site.check("events show 100", 0, &["Order.Paid"]);
    site.check(
        "salvage /nowhere/new",
        1,
        &["is in use by the everpost process"],
    );
    site.kill();

    let new = tempfile::tempdir().expect("a directory");
    let (code, out, err) = site.run(&format!("salvage {}", new.path().display()));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(err.contains("lost of event: numbers "), "{err}");
    assert!(out.contains("one table has lost rows"), "{out}");
    let again = format!("salvage {}", new.path().display());
    site.check(&again, 1, &["is not empty"]);

    site.server = serve(new.path(), &[]);
    site.data_dir = new;
    site.wait_until_ready();
    site.check("doctor", 0, &[]);
    site.check("events show 100", 0, &["Order.Paid"]);
    site.check("topics show orders", 0, &["orders"]);
}

/// The one backup in `dir`.
fn backup_in(dir: &Path) -> String {
    let made: Vec<_> = std::fs::read_dir(dir).expect("a directory").collect();
    let [Ok(made)] = &made[..] else {
        panic!("one backup: {made:?}");
    };
    made.path().to_str().expect("a plain path").to_owned()
}

#[test]
fn a_data_directory_without_a_server_is_backed_up_and_a_missing_key_is_told() {
    let mut site = Site::start();
    site.check("topics create orders", 0, &[]);
    site.kill();
    site.check(
        "backup",
        1,
        &["name a directory or a bucket, or set backup.dir"],
    );
    site.check("backup /nowhere", 1, &["/nowhere"]);
    let folder = tempfile::tempdir().expect("a directory");
    let backup = format!("backup {} --without-master-key", folder.path().display());
    site.check(&backup, 0, &["1 topic, 0 event subscriptions, 0 events"]);

    let made = backup_in(folder.path());
    site.check(
        &format!("restore {made}"),
        1,
        &["is not empty: name a new directory"],
    );
    site.data_dir = tempfile::tempdir().expect("a directory");
    let key = "is not in the backup: put it into";
    site.check(
        &format!("restore {made} --dry-run"),
        0,
        &["1 topic", "is sound", key],
    );
    site.check(
        &format!("restore {made}"),
        0,
        &["start with: everpost serve", key],
    );
    site.check(
        "serve --listen 127.0.0.1:0",
        2,
        &["the database is encrypted by the master key"],
    );

    let database = Path::new(&made).join("everpost.db");
    let file = OpenOptions::new().append(true).open(database);
    std::io::Write::write_all(&mut file.expect("the copy"), b"more").expect("damage");
    site.check(&format!("restore {made} --dry-run"), 1, &["is not empty"]);
    site.data_dir = tempfile::tempdir().expect("a directory");
    site.check(
        &format!("restore {made}"),
        1,
        &["everpost.db: it is damaged"],
    );
}

#[test]
fn backups_are_made_on_schedule_and_a_restart_knows_them() {
    let folder = tempfile::tempdir().expect("a directory");
    let into = folder.path().to_str().expect("a plain path");
    let mut site = Site::start_with(&["--backup-dir", into]);
    let is_made = || {
        let mut found = std::fs::read_dir(folder.path()).expect("a directory");
        found.any(|entry| {
            entry.is_ok_and(|it| it.file_name().to_string_lossy().starts_with("everpost-"))
        })
    };
    let mut looks = 0..LOOKS;
    while !is_made() {
        looks.next().expect("a backup within a minute");
        thread::sleep(Duration::from_millis(100));
    }
    site.kill();
    site.server = serve(site.data_dir.path(), &["--backup-dir", into]);
    site.wait_until_ready();
    let (code, out, err) = site.run("doctor");
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!err.contains("backup"), "{err}");
    backup_in(folder.path());
    site.check(&format!("backup {into}"), 0, &["0 topics", into]);
}

#[test]
fn shells_and_man_learn_the_commands() {
    let run = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_everpost"))
            .args(words)
            .output();
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completion", shell]);
        assert!(script.contains("dead-letters"), "{shell}: {script}");
    }
    assert!(run(&["man"]).contains(".TH everpost"));
    let pages = tempfile::tempdir().expect("a directory");
    run(&["man", pages.path().to_str().expect("a plain path")]);
    let page = pages.path().join("everpost-topics-create.1");
    let page = std::fs::read_to_string(page).expect("a page of each command");
    assert!(page.contains("retention\\-days"), "{page}");
    let head = concat!("\"Everpost ", env!("CARGO_PKG_VERSION"), "\" Everpost");
    assert!(page.contains(head), "{page}");
}

#[test]
fn a_benchmark_accounts_for_every_event_of_a_server_of_its_own() {
    let folder = tempfile::tempdir().expect("a directory");
    let plot = folder.path().join("bench.svg");
    let line = "bench --json --request-ids --events 205 --events-per-request 10 --events-per-delivery 20 \
                --fan-out 2 --connections 3 --rate 2000 --slow 10 --slow-delay 50ms --plot";
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(env!("CARGO_BIN_EXE_everpost"))
        .args(&words)
        .arg(&plot)
        .arg("--folder")
        .arg(folder.path())
        .env("EVERPOST_DATA_DIR", "/nowhere")
        .output()
        .expect("the program runs");
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let at = |pointer: &str| figures.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(at("/published/accepted"), 205, "{figures}");
    assert_eq!(at("/delivered/delivered"), 410, "{figures}");
    assert_eq!(at("/delivered/lost"), 0, "{figures}");
    assert!(
        at("/delivered/latencyMs/max").as_f64() >= Some(50.0),
        "{figures}"
    );
    assert!(output.status.success());
    let plot = std::fs::read_to_string(&plot).expect("a picture");
    assert!(
        plot.contains("events per second") && plot.contains("delivered"),
        "{plot}"
    );
    let left = std::fs::read_dir(folder.path())
        .expect("a directory")
        .count();
    assert_eq!(left, 1, "the data of the benchmark is deleted");
}

#[test]
fn a_benchmark_leaves_a_server_as_it_was() {
    let site = Site::start_with(&["--egress-allow", "127.0.0.1/32"]);
    let url = std::fs::read_to_string(site.data_dir.path().join("server.url")).expect("a URL");
    let line = format!("bench --events 100 --failing 10 --url {}", url.trim());
    let words = [
        "100 accepted, 0 rejected",
        "100 of 100",
        "0 lost, 0 delivered twice, 10 failed attempts as planned",
    ];
    site.check(&line, 0, &words);
    site.check("topics list", 0, &["no topics yet"]);
    site.check(
        "bench --events 1 --url https://localhost",
        1,
        &["over plain HTTP"],
    );
}

/// Files that somebody else has written, whose names steer a terminal.
#[test]
fn nothing_in_a_file_of_others_steers_the_terminal() {
    let site = Site::start();
    let folder = tempfile::tempdir().expect("a directory");
    let steering = "n\\u202e\\u001b[2J\\u009bx";
    let template = format!(
        r##"{{ "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
            "contentVersion": "1.0.0.0", "resources": [{{ "type": "Microsoft.Odd/{steering}",
            "apiVersion": "2022-06-15", "name": "n", "location": "x" }}] }}"##
    );
    let queue = format!("- kind: Queue\n  name: \"{steering}\"\n");
    for (command, file, text) in [
        ("import arm", "template.json", template),
        ("apply", "queue.yaml", queue),
    ] {
        let path = folder.path().join(file);
        std::fs::write(&path, text).expect("written");
        let (code, out, err) = site.run(&format!("{command} {}", path.display()));
        assert_ne!(code, Some(0), "{out}");
        let said = out + &err;
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(steers), "{said:?}");
        assert!(said.contains(file), "{said}");
        let visible = "\\u{202e}\\u{1b}[2J\\u{9b}";
        assert!(said.contains(visible), "{said}");
    }
}
