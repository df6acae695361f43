//! The demonstration, run as the program that people run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A demonstration whose temporary directory is made in `home`.
fn demo(arguments: &[&str], home: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_everpost"))
        .arg("demo")
        .args(arguments)
        .env("TMPDIR", home)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

/// Waits for its end, and ends it when that takes too long.
fn output(demo: Child) -> Output {
    let id = demo.id();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(demo.wait_with_output()));
    let output = told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        signal("KILL", id);
        panic!("the demonstration takes more than {PATIENCE:?}")
    });
    output.expect("its output")
}

fn signal(name: &str, process: u32) {
    let command = format!("kill -{name} {process}");
    let sent = Command::new("sh").args(["-c", &command]).status();
    assert!(sent.expect("a shell").success(), "{command}");
}

fn assert_empty(home: &Path) {
    let left = std::fs::read_dir(home).expect("listed").count();
    assert_eq!(left, 0, "the temporary directory is left behind");
}

/// The rows of the timeline below `head`: the answers, and the waits in real time.
fn timeline(text: &str, head: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip_while(|line| !line.starts_with(head));
    let mut lines = lines.skip(1);
    let columns = lines
        .next()
        .unwrap_or_else(|| panic!("no {head:?}: {text}"));
    let column = |name: &str| columns.find(name).expect("a column");
    let (real, answer) = (column("IN REAL TIME"), column("ANSWER"));
    let is_attempt = |line: &&str| line.trim_start().starts_with(char::is_numeric);
    let rows = lines.take_while(is_attempt);
    let rows = rows.map(|row| {
        let (row, answer) = row.split_at(answer);
        (row[real..].trim().to_owned(), answer.to_owned())
    });
    rows.collect()
}

#[test]
fn the_demonstration_shows_retries_and_dead_letters() {
    let home = tempfile::tempdir().expect("a directory");
    let Output {
        status,
        stdout,
        stderr,
    } = output(demo(&[], home.path()));
    let (text, log) = (utf8(stdout), utf8(stderr));
    assert!(status.success(), "{status}: {text}{log}");
    assert_eq!(log, "", "nothing to warn of");
    assert!(text.contains("TIME RUNS 20 TIMES FASTER"), "{text}");
    assert!(text.contains("Published 100 events in "), "{text}");

    let delivered = timeline(&text, "A delivered event: order-001 to billing");
    let answers: Vec<&str> = delivered.iter().map(|(_, each)| each.as_str()).collect();
    let busy = "503 Service Unavailable";
    assert_eq!(answers, [busy, busy, "200 OK"], "{text}");
    for (wait, _) in &delivered[1..] {
        assert!(is_half_a_minute_or_more(wait), "{wait:?}: {text}");
    }

    let dead = timeline(&text, "A dead-lettered event: order-010 to refunds");
    assert_eq!(dead, [(String::new(), "400 Bad Request".to_owned())]);
    for (count, what) in [
        (100, "events published"),
        (110, "deliveries, one for"),
        (310, "attempts\n"),
        (100, "delivered\n"),
        (10, "dead-lettered\n"),
        (0, "lost\n"),
    ] {
        let line = format!("{count:>7}  {what}");
        assert!(text.contains(&line), "{line:?} is not in {text}");
    }
    for fact in [
        "  UndeliverableDueToHttpBadRequest",
        "everpost serve ",
        "http://127.0.0.1:8080/admin",
        "curl ",
    ] {
        assert!(text.contains(fact), "{fact:?} is not in {text}");
    }
    assert_empty(home.path());
}

/// The schedule's wait after a 503, whatever the machine adds.
fn is_half_a_minute_or_more(wait: &str) -> bool {
    let seconds = wait.strip_suffix(" s").and_then(|s| s.parse::<f64>().ok());
    wait.contains("min") || seconds.is_some_and(|seconds| seconds >= 30.0)
}

#[test]
fn a_demonstration_that_stays_serves_until_it_is_told_to_stop() {
    let home = tempfile::tempdir().expect("a directory");
    let mut demo = demo(&["--stay"], home.path());
    let (tell, told) = mpsc::channel();
    let lines = BufReader::new(demo.stdout.take().expect("piped"));
    thread::spawn(move || {
        let mut lines = lines.lines().map_while(Result::ok);
        lines.try_for_each(|line| tell.send(line))
    });
    let process = demo.id();
    let line = |start: &str| loop {
        let line = told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            signal("KILL", process);
            panic!("no line begins with {start:?}")
        });
        if let Some(rest) = line.trim_start().strip_prefix(start) {
            return rest.to_owned();
        }
    };

    let admin = line("admin pages  http://");
    let (address, path) = admin.split_at(admin.find('/').expect("a path"));
    assert_eq!(path, "/admin");
    let command = line("curl -i ");
    let published = request(address, &publish_request(&command, address));
    assert!(published.starts_with("HTTP/1.1 200 "), "{published}");
    signal("INT", process);
    let Output { status, stderr, .. } = output(demo);
    assert!(status.success(), "{status}: {}", utf8(stderr));
    assert_empty(home.path());
}

/// What curl sends, told by `command`: a URL and then options, in single quotes.
fn publish_request(command: &str, address: &str) -> String {
    let path = command.split([' ']).next().expect("a URL");
    let path = path.split(address).nth(1).expect("a path");
    let quoted: Vec<&str> = command.split('\'').skip(1).step_by(2).collect();
    let [key, content_type, body] = quoted[..] else {
        panic!("two headers and a body: {command}");
    };
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\n{key}\r\n{content_type}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn request(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_demonstration_that_cannot_begin_says_why() {
    let home = tempfile::tempdir().expect("a directory");
    let missing = home.path().join("missing");
    let rejected = output(demo(&[], &missing));
    let text = utf8(rejected.stderr);
    let expected = "error: cannot make a temporary directory: ";
    let missing = missing.display().to_string();
    assert!(
        text.starts_with(expected) && text.contains(&missing),
        "{text}"
    );
    assert_eq!(rejected.status.code(), Some(1));
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}
