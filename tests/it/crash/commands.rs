//! Commands that write a data directory, killed at some system call: whatever is left can be started, or says what to do,
//! and the command can be run again.
//!
//! Each is killed before the first and the last time that it gives a file its name, a server before the first one, or, with `EVERPOST_KILLS`, so often at
//! any call. Without strace nothing is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use everpost::base::Entropy;
use rusqlite::Connection;
use tempfile::TempDir;

use super::appliance::{Appliance, binary, command};
use super::damage::Killed;
use super::{dice, eventually, given, up_to};

/// How often it is tried to kill a command at any call: threads do not always share the work alike.
const TRIES_MAX: u32 = 10;

/// What changes files.
const CALLS: &str =
    "pwrite64,write,fsync,fdatasync,ftruncate,rename,unlink,mkdir,fchmod,chmod,copy_file_range";

/// What gives files their names. One thread of a command makes these calls, so that they are the same in each run.
const NAMING_CALLS: &str = "rename";

const SIGKILL: i32 = 9;

/// A command that goes on for longer has not made the call at which it would have been killed.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

const PROVISIONED: &str = "- {kind: Queue, name: provisioned}\n";

/// Runs a command to its end.
fn run(words: &[&str]) -> Output {
    let output = command(binary()).args(words).stdin(Stdio::null()).output();
    output.expect("the program runs")
}

fn succeeds(words: &[&str]) {
    let output = run(words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
}

/// Runs commands that are killed at one of the calls that they make.
struct Killer {
    dice: Entropy,
    folder: TempDir,
    /// How often to kill a command at any call, each as likely as any other.
    kills: Option<u32>,
}

impl Killer {
    /// Returns `None` where there is no strace, or it may not be used.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let is_long = std::env::var_os("EVERPOST_KILLS").is_some();
        let killer = Self {
            dice: dice(),
            folder,
            kills: is_long.then(|| given("EVERPOST_KILLS", 1)),
        };
        let status = killer.traced(CALLS, &["--version"]).status();
        let may_trace = status.is_ok_and(|status| status.success());
        if !may_trace {
            println!("skipped: strace is not there, or may not be used");
        }
        may_trace.then_some(killer)
    }

    /// Returns the calls at which commands may be killed.
    fn killing_calls(&self) -> &'static str {
        if self.kills.is_some() {
            CALLS
        } else {
            NAMING_CALLS
        }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// The command, of whose calls these will be in [`Self::trace`].
    fn traced(&self, calls: &str, words: &[&str]) -> Command {
        let mut command = strace();
        command
            .args(["-y", "-e", &format!("trace={calls}"), "-o"])
            .arg(self.trace())
            .arg(binary())
            .args(words);
        command
    }

    /// The calls of a command that ends: for each, how many its thread has made.
    fn calls_of(&self, words: &[&str]) -> Vec<u64> {
        let status = self
            .traced(self.killing_calls(), words)
            .status()
            .expect("strace runs");
        assert!(status.success(), "{words:?}");
        self.calls()
    }

    /// Those of a server until it is ready.
    async fn calls_until_ready(&self, words: &[&str], data: &Path) -> Vec<u64> {
        let found = data.join("server.url");
        let _ = fs::remove_file(&found); // that of a server which was killed
        let mut traced = self
            .traced(self.killing_calls(), words)
            .spawn()
            .expect("strace runs");
        eventually("the server is ready", async || found.exists().then_some(())).await;
        let calls = self.calls();
        end(&mut traced);
        calls
    }

    fn calls(&self) -> Vec<u64> {
        let mut of_threads = BTreeMap::<String, u64>::new();
        let trace = fs::read_to_string(self.trace()).expect("a trace");
        // A call that was interrupted by another thread's has two lines.
        let calls = trace.lines().filter(|line| !line.contains(" resumed>"));
        let threads = calls.filter_map(|line| line.split_whitespace().next());
        let count = |thread: &str| {
            let calls = of_threads.entry(thread.to_owned()).or_default();
            *calls += 1;
            *calls
        };
        threads.map(count).collect()
    }

    /// Kills a command at this call. Returns `false` if it has made fewer of them.
    async fn kill(&self, words: &[&str], at: u64) -> bool {
        let inject = format!("inject={}:signal=KILL:when={at}", self.killing_calls());
        let mut traced = strace();
        traced.args(["-o", "/dev/null", "-e", &inject]);
        let traced = traced.arg(binary()).args(words).spawn();
        let mut traced = traced.expect("strace runs");
        let ended = tokio::time::timeout(ENDS_WITHIN, async {
            eventually("it ends", async || traced.try_wait().expect("its state")).await
        });
        let Ok(status) = ended.await else {
            end(&mut traced);
            return false;
        };
        status.signal() == Some(SIGKILL) || status.code() == Some(128 + SIGKILL)
    }
}

/// Follows a command with all of its threads, and ends it when it is ended.
fn strace() -> Command {
    let mut command = quiet("strace");
    command.args(["-f", "-qq", "-I", "2"]);
    command
}

/// Ends a command that is followed.
fn end(traced: &mut Child) {
    let pid = traced.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill runs").success());
    traced.wait().expect("it ends");
}

fn quiet(program: &str) -> Command {
    let mut command = command(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A folder with a data directory, and the words of a command for it.
struct Case {
    folder: TempDir,
    words: Vec<String>,
}

impl Case {
    fn new(folder: TempDir, words: impl Fn(&str) -> Vec<String>) -> Self {
        let words = words(text(&folder.path().join("data")));
        Self { folder, words }
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// Kills a command at these calls as often as wanted, each time in a case of its own, and has looked at what is left.
async fn kill_each(
    killer: &Killer,
    calls: &[u64],
    case: impl Fn() -> Case,
    look: impl AsyncFn(&Case, &str),
) {
    let kill = async |at: u64| {
        let case = case();
        if !killer.kill(&case.words(), at).await {
            return false;
        }
        look(
            &case,
            &format!("{:?}, call {at} of {}", case.words, calls.len()),
        )
        .await;
        true
    };
    let Some(wanted) = killer.kills else {
        assert!(!calls.is_empty(), "{:?} names a file", case().words);
        for at in BTreeSet::from([calls[0], calls[calls.len() - 1]]) {
            assert!(kill(at).await, "{:?} was not killed at {at}", case().words);
        }
        return;
    };
    let mut killed = 0;
    for _ in 0..TRIES_MAX * wanted {
        let at = calls[up_to(&killer.dice, calls.len() as u64) as usize];
        killed += u32::from(kill(at).await);
        if killed == wanted {
            let calls = calls.len();
            println!("a command was killed {killed} times, at one of {calls} calls");
            return;
        }
    }
    panic!("it was killed {killed} times only");
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

/// Looks at what a killed command has left that fills a new data directory, and runs it again unless it was done.
async fn look_at_filled(case: &Case, killed: &Killed, what: &str) {
    let data = case.data();
    if !data.join("everpost.db").exists() {
        if data.join("unfinished").exists() {
            let Err((code, log)) = Appliance::try_start(case.folder.path()).await else {
                panic!("{what}: it starts with a part");
            };
            assert_eq!(code, Some(1), "{what}: {log}");
            assert!(log.contains("run it again"), "{what}: {log}");
        }
        succeeds(&case.words());
    }
    check(killed, case.folder.path(), what).await;
}

/// Checks that all messages are there.
async fn check(killed: &Killed, folder: &Path, what: &str) {
    let mut appliance = Appliance::start(folder).await;
    assert_eq!(killed.receive(&appliance).await, Ok(0), "{what}");
    appliance.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_restore_or_salvage_leaves_all_or_nothing() {
    let Some(killer) = Killer::new() else {
        return;
    };
    let killed = Killed::new(true).await;
    let (backups, whole) = (tempfile::tempdir().expect("a folder"), killed.copy());
    let old = whole.path().join("data");
    succeeds(&["backup", text(backups.path()), "--data-dir", text(&old)]);
    let made = fs::read_dir(backups.path()).expect("a folder").next();
    let made = made.expect("a backup").expect("a backup").path();

    let empty = || tempfile::tempdir().expect("a folder");
    let restore = || {
        Case::new(empty(), |new| {
            owned(&["restore", text(&made), "--data-dir", new])
        })
    };
    let look = async |case: &Case, what: &str| look_at_filled(case, &killed, what).await;
    let calls = killer.calls_of(&restore().words());
    kill_each(&killer, &calls, restore, look).await;
    let salvage = || {
        Case::new(empty(), |new| {
            owned(&["salvage", new, "--data-dir", text(&old)])
        })
    };
    let calls = killer.calls_of(&salvage().words());
    kill_each(&killer, &calls, salvage, look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_rekey_or_backup_leaves_the_messages_and_no_half_backup() {
    let Some(killer) = Killer::new() else {
        return;
    };
    let killed = Killed::new(true).await;
    let rekey = || Case::new(killed.copy(), |data| owned(&["rekey", "--data-dir", data]));
    let look = async |case: &Case, what: &str| check(&killed, case.folder.path(), what).await;
    let calls = killer.calls_of(&rekey().words());
    kill_each(&killer, &calls, rekey, look).await;

    let backup = || {
        let copy = killed.copy();
        let into = copy.path().join("backups");
        fs::create_dir(&into).expect("a folder");
        Case::new(copy, |data| {
            owned(&["backup", text(&into), "--data-dir", data])
        })
    };
    let look = async |case: &Case, what: &str| {
        let into = case.folder.path().join("backups");
        for entry in fs::read_dir(&into).into_iter().flatten() {
            let entry = entry.expect("an entry").path();
            let name = entry.file_name().expect("a name").to_string_lossy();
            if name.starts_with("everpost-") {
                let new = case.folder.path().join("new");
                let dry = [
                    "restore",
                    text(&entry),
                    "--dry-run",
                    "--data-dir",
                    text(&new),
                ];
                assert!(run(&dry).status.success(), "{what}: {name}");
            }
        }
        succeeds(&case.words());
        check(&killed, case.folder.path(), what).await;
    };
    let calls = killer.calls_of(&backup().words());
    kill_each(&killer, &calls, backup, look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_start_can_be_made_again() {
    let Some(killer) = Killer::new() else {
        return;
    };
    let killed = Killed::new(true).await;
    let files = tempfile::tempdir().expect("a folder");
    fs::write(files.path().join("a.yaml"), PROVISIONED).expect("a file");
    let provision = ["--provisioning-dir", text(files.path())];
    let serve = |data: &str| {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", data];
        owned(&[&serve[..], &provision].concat())
    };
    let is_provisioned = async |case: &Case, what: &str| {
        let mut again = Appliance::start_with(case.folder.path(), &provision).await;
        let queue = again.get("/queues/provisioned").await;
        assert_eq!(queue["name"], "provisioned", "{what}");
        again.kill();
    };

    // The first one, which makes the database.
    let first = || Case::new(tempfile::tempdir().expect("a folder"), serve);
    kill_each(
        &killer,
        &calls_of_start(&killer, first()).await,
        first,
        is_provisioned,
    )
    .await;

    // One that rewrites a database before, and takes over a log.
    let rewritten = || {
        let copy = killed.copy();
        let database = copy.path().join("data/everpost.db");
        let database = Connection::open(database).expect("the database");
        let rewrite = "PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM";
        database.execute_batch(rewrite).expect("another layout");
        Case::new(copy, serve)
    };
    for case in [&rewritten as &dyn Fn() -> Case, &|| {
        Case::new(killed.copy(), serve)
    }] {
        let look = async |case: &Case, what: &str| {
            is_provisioned(case, what).await;
            check(&killed, case.folder.path(), what).await;
        };
        kill_each(&killer, &calls_of_start(&killer, case()).await, case, look).await;
    }
}

async fn calls_of_start(killer: &Killer, case: Case) -> Vec<u64> {
    let mut calls = killer.calls_until_ready(&case.words(), &case.data()).await;
    if killer.kills.is_none() {
        calls.truncate(1); // the others may be made by any thread
    }
    calls
}

/// The name of a new directory must survive a power loss, too.
#[tokio::test]
async fn the_entry_of_a_new_data_directory_is_flushed() {
    let Some(killer) = Killer::new() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let parent = folder.path().canonicalize().expect("a path").join("a");
    let data = parent.join("b");
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        text(&data),
    ];
    let mut traced = killer.traced("fsync", &serve).spawn().expect("strace runs");
    let found = data.join("server.url");
    eventually("it is ready", async || found.exists().then_some(())).await;
    end(&mut traced);
    let trace = fs::read_to_string(killer.trace()).expect("a trace");
    for dir in [text(&parent), text(parent.parent().expect("a parent"))] {
        assert!(trace.contains(&format!("<{dir}>)")), "{dir}: {trace}");
    }
}
