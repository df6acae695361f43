//! Clients that show no key and finish nothing, against the real process: they take little of its memory, and others are
//! served meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::crash::Appliance;

/// Connections of each kind.
const EACH: usize = 100;

/// What they may take together. One that is idle takes some 10 kB, and none more than 64 KiB beside.
const BYTES_MAX: usize = 48 * 1_024 * 1_024;

/// A value with one byte of length, or four.
fn sized(small: u8, bytes: &[u8]) -> Vec<u8> {
    match u8::try_from(bytes.len()) {
        Ok(length) => [&[small, length], bytes].concat(),
        Err(_) => {
            let length = u32::try_from(bytes.len()).expect("small").to_be_bytes();
            [&[small | 0x10], length.as_slice(), bytes].concat()
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    sized(0xa1, text.as_bytes())
}

/// A described list.
fn list(descriptor: u8, fields: &[Vec<u8>]) -> Vec<u8> {
    let content = fields.concat();
    let length = u32::try_from(content.len() + 4)
        .expect("small")
        .to_be_bytes();
    let count = u32::try_from(fields.len()).expect("small").to_be_bytes();
    [
        &[0x00, 0x53, descriptor, 0xd0],
        length.as_slice(),
        &count,
        &content,
    ]
    .concat()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("small").to_be_bytes();
    [&size, [2, kind, 0, 0].as_slice(), body].concat()
}

const NULL: u8 = 0x40;
const RECEIVER: u8 = 0x41;
const SENDER: u8 = 0x42;

fn attach(handle: u8, role: u8, name: &str) -> Vec<u8> {
    let node = |code| list(code, &[text("$cbs")]);
    let fields = [
        text(name),
        vec![0x52, handle],
        vec![role],
        vec![NULL],
        vec![NULL],
        node(0x28),
        node(0x29),
        vec![NULL],
        vec![NULL],
        vec![0x43],
    ];
    frame(0, &list(0x12, &fields))
}

/// A client without a key, on a connection with one session.
fn anonymous() -> Vec<u8> {
    let mut bytes = b"AMQP\x03\x01\x00\x00".to_vec();
    bytes.extend(frame(1, &list(0x41, &[sized(0xa3, b"ANONYMOUS")])));
    bytes.extend(b"AMQP\x00\x01\x00\x00");
    bytes.extend(frame(0, &list(0x10, &[text("client"), text("host")])));
    let window = || vec![0x70, 0, 1, 0, 0];
    bytes.extend(frame(
        0,
        &list(0x11, &[vec![NULL], vec![0x43], window(), window()]),
    ));
    bytes
}

/// Requests for tokens whose answers repeat long ids, and wait for credit that never comes.
fn answers_without_credit() -> Vec<u8> {
    let mut bytes = anonymous();
    for handle in 0..200 {
        bytes.extend(attach(handle, RECEIVER, &format!("link-{handle}")));
    }
    bytes.extend(attach(201, SENDER, "requests"));
    let request = list(0x73, &[text(&"x".repeat(20_000))]);
    for id in 0..100 {
        let transfer = [vec![0x52, 201], vec![0x52, id], sized(0xa0, &[id])];
        bytes.extend(frame(0, &[list(0x14, &transfer), request.clone()].concat()));
    }
    bytes
}

/// Who the client is, with an array of 200 lists without bytes in it, whose descriptor is such an array again.
fn arrays_without_bytes() -> Vec<u8> {
    let mut array = vec![0x45];
    for _ in 0..4 {
        let content = [&[0, 0, 0, 200, 0x00], array.as_slice(), &[0x45]].concat();
        let length = u32::try_from(content.len()).expect("small").to_be_bytes();
        array = [&[0xf0], length.as_slice(), &content].concat();
    }
    let init = list(0x41, &[sized(0xa3, b"ANONYMOUS"), array]);
    [b"AMQP\x03\x01\x00\x00".to_vec(), frame(1, &init)].concat()
}

/// What some client sends, and nothing after it.
fn beginnings() -> [Vec<u8>; 7] {
    let long_names = (0..200).flat_map(|handle| attach(handle, RECEIVER, &"x".repeat(5_000)));
    [
        Vec::new(),
        b"AMQP\x03".to_vec(),
        [anonymous(), vec![0, 0, 0xff, 0], vec![0; 60_000]].concat(),
        [anonymous(), long_names.collect()].concat(),
        answers_without_credit(),
        [b"GET / HTTP/1.1\r\nX-Long: ".to_vec(), vec![b'x'; 15_000]].concat(),
        arrays_without_bytes(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_finish_nothing_take_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let appliance = Appliance::start(folder.path()).await;
    let address = appliance.url.trim_start_matches("http://").to_owned();
    let before = appliance.memory_bytes();
    let beginnings = beginnings();
    let clients = tokio::task::spawn_blocking(move || {
        let mut clients = Vec::new();
        for bytes in &beginnings {
            for _ in 0..EACH {
                let mut client = TcpStream::connect(&address).expect("a connection");
                let timeout = Some(Duration::from_millis(20));
                client.set_write_timeout(timeout).expect("a timeout");
                // The server may have said that it is too much, and closed.
                let _ = client.write_all(bytes);
                clients.push(client);
            }
        }
        clients
    });
    let mut clients = clients.await.expect("clients");
    let ready = reqwest::get(format!("{}/readyz", appliance.url)).await;
    assert!(
        ready.is_ok_and(|answer| answer.status().is_success()),
        "others are served"
    );
    let taken = appliance.memory_bytes().saturating_sub(before);
    assert!(taken < BYTES_MAX, "{taken} bytes");
    // Whose answers wait for credit was told why.
    let told = &mut clients[5 * EACH - 1];
    told.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let condition = b"amqp:resource-limit-exceeded";
    let (mut answer, mut part) = (Vec::new(), [0; 4_096]);
    while !answer
        .windows(condition.len())
        .any(|each| each == condition)
    {
        let count = told.read(&mut part).expect("an answer");
        assert!(count > 0, "the reason is said before the end");
        answer.extend_from_slice(&part[..count]);
    }
}
