use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::base::Timestamp;
use crate::model::limits::RESPONSE_READ_MAX;
use crate::outbound::unanswered::{UNANSWERED_MAX, UNANSWERED_MAX_HTTP2};

/// Long enough never to be reached.
const LONG: Duration = Duration::from_secs(60);

/// In every URL's query, and in no error.
const CANARY: &str = "canary-4711";

/// What a receiver may say any number of times before its answer.
const INFORMATION: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A receiver on the loopback interface.
struct Receiver {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    /// Runs `play` on every connection.
    async fn playing<F, P>(play: P) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
        P: Fn(TcpStream) -> F + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(play(stream));
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// Responds to one request per connection with these bytes, and closes it.
    async fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::<[u8]>::from(response.into());
        Self::playing(move |mut stream| {
            let response = Arc::clone(&response);
            async move {
                read_request(&mut stream).await?;
                stream.write_all(&response).await?;
                stream.shutdown().await
            }
        })
        .await
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/inbox?code={CANARY}", self.address)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads a head and its body; `None` at the end of the connection.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut request = Vec::new();
    while !is_complete(&request) {
        let byte = stream.read_u8().await?;
        request.push(byte);
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().expect("a length"));
    body.len() >= length
}

fn request(url: &str, deadline: Duration) -> TransportRequest {
    let mut headers = HeaderMap::new();
    headers.insert(
        HeaderName::from_static("aeg-event-type"),
        HeaderValue::from_static("Notification"),
    );
    TransportRequest {
        method: Method::POST,
        url: Url::parse(url).expect("a URL"),
        headers,
        body: Bytes::from_static(b"[{}]"),
        deadline,
        body_max: RESPONSE_READ_MAX,
        late: None,
        tls: None,
    }
}

fn options(allow: &str) -> NetworkOptions {
    NetworkOptions {
        egress: EgressPolicy {
            allow: allow
                .split_whitespace()
                .map(|net| net.parse().expect("a network"))
                .collect(),
            ..EgressPolicy::default()
        },
        clock: Clock::simulated(Timestamp::from_ms(1_000_000)),
        extra_authorities: Vec::new(),
    }
}

fn network(allow: &str) -> HttpTransport {
    HttpTransport::Network(NetworkTransport::new(options(allow)).expect("a client"))
}

/// A network on which every name has these addresses.
fn named(allow: &str, addresses: &'static str) -> HttpTransport {
    let lookup: Lookup = Arc::new(move |_| {
        let found = addresses
            .split_whitespace()
            .map(|each| each.parse().expect("an address"));
        Box::pin(std::future::ready(Ok(found.collect())))
    });
    HttpTransport::Network(NetworkTransport::with_lookup(options(allow), lookup).expect("a client"))
}

async fn post(url: &str) -> Result<TransportResponse, TransportError> {
    network("127.0.0.0/8").send(request(url, LONG)).await
}

/// `200 text`, or the variant and the text of the error.
fn told(result: &Result<TransportResponse, TransportError>) -> String {
    match result {
        Ok(response) => {
            let body = String::from_utf8_lossy(&response.body);
            format!("{} {}", response.status, body)
                .trim_end()
                .to_owned()
        }
        Err(error) => {
            let kind = match error {
                TransportError::TimedOut => "TimedOut",
                TransportError::NoPlace => "NoPlace",
                TransportError::Resolution(_) => "Resolution",
                TransportError::Socket(_) => "Socket",
                TransportError::Tls(_) => "Tls",
                TransportError::Token(_) => "Token",
                TransportError::Denied(_) => "Denied",
            };
            format!("{kind}: {error}")
        }
    }
}

#[track_caller]
fn compare(result: &Result<TransportResponse, TransportError>, expected: &str, what: &str) {
    let told = told(result);
    assert!(
        told.starts_with(expected),
        "{what}: {told:?}, expected {expected:?}"
    );
    assert!(!told.contains(CANARY), "{what}: {told:?} shows the query");
}

async fn check(response: &str, expected: &str) {
    let receiver = Receiver::answering(response).await;
    let result = post(&receiver.url("http")).await;
    compare(&result, expected, response);
    assert_eq!(receiver.connections(), 1, "{response}");
}

#[tokio::test]
async fn answers_are_read() {
    check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "200 ok").await;
    check("HTTP/1.1 204 No Content\r\n\r\n", "204").await;
    check("HTTP/1.1 299 Whatever\r\ncontent-length: 0\r\n\r\n", "299").await;
    check("HTTP/1.1 503 \r\ncontent-length: 4\r\n\r\nbusy", "503 busy").await;
    check("HTTP/1.0 200 OK\r\n\r\nuntil the end", "200 until the end").await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    check(chunked, "200 ok").await;
    let hinted = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    check(hinted, "200").await;
}

#[tokio::test]
async fn redirects_are_answers() {
    let elsewhere = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for status in [301, 302, 303, 307, 308] {
        let location = elsewhere.url("http");
        let response =
            format!("HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        let receiver = Receiver::answering(response).await;
        compare(
            &post(&receiver.url("http")).await,
            &status.to_string(),
            "a redirect",
        );
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn the_status_counts_even_if_the_body_breaks_off() {
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "200 half",
    )
    .await;
    let chunked = "HTTP/1.1 202 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n7\r\nof";
    check(chunked, "202 half").await;
    check(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "200",
    )
    .await;
}

#[tokio::test]
async fn what_is_no_answer_is_a_broken_connection() {
    check("", "Socket: connection closed before").await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-le",
        "Socket: connection closed before",
    )
    .await;
    check("SSH-2.0-OpenSSH_9.2\r\n", "Socket: invalid HTTP").await;
    check("<html>hello</html>\r\n\r\n", "Socket: invalid HTTP").await;
    check("HTTP/1.1 abc OK\r\n\r\n", "Socket: invalid HTTP").await;
    check(
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "Socket: invalid HTTP",
    )
    .await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "Socket: invalid",
    )
    .await;
    check(
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "Socket: ",
    )
    .await;
    check(&"\u{fffd}\0".repeat(1_000), "Socket: ").await;
    let headers = "x: y\r\n".repeat(101);
    check(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n"), "Socket: ").await;
    let long = format!("x: {}\r\n", "y".repeat(1_000)).repeat(40);
    let head = format!("HTTP/1.1 200 OK\r\n{long}\r\n");
    check(&head, "Socket: ").await;
    let endless = "y".repeat(1_000_000);
    check(
        &format!("HTTP/1.1 200 OK\r\nx: {endless}\r\n\r\n"),
        "Socket: ",
    )
    .await;
}

#[tokio::test]
async fn heads_have_16_kib() {
    let long = format!("x: {}\r\n", "y".repeat(1_000)).repeat(15);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{long}\r\n");
    check(&head, "200").await;
}

#[tokio::test]
async fn who_says_without_end_that_an_answer_will_come_is_given_up() {
    let endless = Receiver::playing(async |mut stream| {
        read_request(&mut stream).await?;
        loop {
            stream.write_all(INFORMATION).await?;
        }
    })
    .await;
    let result = post(&endless.url("http")).await;
    let expected = format!("Socket: more than {UNANSWERED_MAX} bytes came without an answer");
    compare(&result, &expected, "HTTP/1");
}

#[tokio::test]
async fn who_says_so_over_http_2_is_given_up_as_well() {
    let acceptor = acceptor(&[b"h2"]);
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let endless = Receiver::playing(move |stream| {
        let (acceptor, counted) = (acceptor.clone(), Arc::clone(&counted));
        async move { inform_over_http_2(acceptor.accept(stream).await?, &counted).await }
    })
    .await;
    let port = endless.address.port();
    let url = format!("https://localhost:{port}/?code={CANARY}");
    let result = trusting().send(request(&url, LONG)).await;
    compare(&result, "Socket: ", "HTTP/2");
    let bytes = sent.load(Ordering::SeqCst);
    assert!(bytes > UNANSWERED_MAX_HTTP2 / 2, "only {bytes} bytes");
}

/// Answers a request with `100 Continue` without end, and counts the bytes of that.
async fn inform_over_http_2(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    sent: &AtomicUsize,
) -> io::Result<()> {
    const HEADERS: u8 = 1;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(&settings).await?;
    stream.flush().await?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    let mut frame = [0; 9];
    while frame[3] != HEADERS {
        stream.read_exact(&mut frame).await?;
        let length = usize::from(u16::from_be_bytes([frame[1], frame[2]]));
        stream.read_exact(&mut vec![0; length]).await?;
    }
    // The literal `:status: 100` for the stream of the request.
    let head = [0, 0, 5, HEADERS, 4, 0, 0, 0, 1, 8, 3, b'1', b'0', b'0'];
    let heads = head.repeat(1_000);
    loop {
        stream.write_all(&heads).await?;
        sent.fetch_add(heads.len(), Ordering::SeqCst);
    }
}

#[tokio::test]
async fn what_tls_brings_counts_as_unanswered() {
    // Neither is too much by itself.
    const TICKETS: usize = 500; // some 80 bytes each
    const HEADS: usize = UNANSWERED_MAX / 2 / INFORMATION.len();
    for (tickets, heads, is_answered) in [
        (TICKETS, 1, true),
        (1, HEADS, true),
        (TICKETS, HEADS, false),
    ] {
        let mut config = certified();
        config.send_tls13_tickets = tickets;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let receiver = Receiver::playing(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await?;
                read_request(&mut stream).await?;
                stream.write_all(&INFORMATION.repeat(heads)).await?;
                stream.write_all(ANSWER).await?;
                stream.shutdown().await
            }
        })
        .await;
        let port = receiver.address.port();
        let url = format!("https://localhost:{port}/?code={CANARY}");
        let result = trusting().send(request(&url, LONG)).await;
        let too_much = format!("Socket: more than {UNANSWERED_MAX} bytes came without an answer");
        let expected = if is_answered { "200 ok" } else { &too_much };
        compare(
            &result,
            expected,
            &format!("{tickets} tickets, {heads} heads"),
        );
    }
}

#[tokio::test]
async fn large_bodies_do_not_count_as_unanswered() {
    let body = "x".repeat(4 * UNANSWERED_MAX);
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    let receiver = Receiver::answering(answer).await;
    let request = TransportRequest {
        body_max: length,
        ..request(&receiver.url("http"), LONG)
    };
    let response = network("127.0.0.0/8").send(request).await;
    assert_eq!(response.expect("an answer").body.len(), length);
}

#[tokio::test]
async fn an_oversized_answer_is_cut() {
    let body = "x".repeat(RESPONSE_READ_MAX + 1);
    let length = body.len();
    let sized = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    let receiver = Receiver::answering(sized).await;
    let response = post(&receiver.url("http")).await.expect("an answer");
    assert_eq!(
        (response.status, response.body.len()),
        (200, RESPONSE_READ_MAX)
    );

    let endless = Receiver::playing(async |mut stream| {
        read_request(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 8_192]).await?;
        }
    })
    .await;
    let response = post(&endless.url("http")).await.expect("an answer");
    assert_eq!(
        (response.status, response.body.len()),
        (200, RESPONSE_READ_MAX)
    );
}

#[tokio::test]
async fn connections_that_fail_say_how() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let unused = listener.local_addr().expect("an address");
    drop(listener);
    let rejected = post(&format!("http://{unused}/?code={CANARY}")).await;
    compare(
        &rejected,
        "Socket: the connection was refused",
        "nobody listens",
    );

    // Closing with unread bytes makes the kernel send a reset.
    let reset = Receiver::playing(async |stream| stream.readable().await).await;
    compare(&post(&reset.url("http")).await, "Socket: ", "a reset");
}

#[tokio::test]
async fn a_silent_receiver_is_given_up_at_the_deadline() {
    let silent = Receiver::playing(async |mut stream| {
        read_request(&mut stream).await?;
        std::future::pending().await
    })
    .await;
    let short = request(&silent.url("http"), Duration::from_millis(50));
    let result = network("127.0.0.0/8").send(short).await;
    compare(
        &result,
        "TimedOut: no answer within the deadline",
        "silence",
    );
}

#[tokio::test]
async fn whoever_leaves_an_inbox_hears_late_answers() {
    let (go_on, may_go_on) = tokio::sync::watch::channel(false);
    let slow = Receiver::playing(move |mut stream| {
        let mut may_go_on = may_go_on.clone();
        async move {
            read_request(&mut stream).await?;
            may_go_on.wait_for(|go_on| *go_on).await.expect("a word");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate")
                .await
        }
    })
    .await;
    let inbox = LateResponseSlot::default();
    let short = TransportRequest {
        late: Some(inbox.clone()),
        ..request(&slow.url("http"), Duration::from_millis(50))
    };
    let result = network("127.0.0.0/8").send(short).await;
    compare(&result, "TimedOut", "a late answer");
    go_on.send_replace(true);
    let late = inbox.take().expect("a conversation").response().await;
    compare(
        &late.ok_or(TransportError::TimedOut),
        "200 late",
        "a late answer",
    );
    assert_eq!(slow.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_for_ever() {
    let never = std::future::pending::<Result<Opened, TransportError>>();
    assert_eq!(answer_within(LATE_ANSWER_WINDOW, never).await, None);
    let failed = std::future::ready(Err(TransportError::Socket(String::new())));
    assert_eq!(answer_within(LATE_ANSWER_WINDOW, failed).await, None);
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up_at_the_deadline() {
    let stalled = Receiver::playing(async |mut stream| {
        read_request(&mut stream).await?;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
            .await?;
        std::future::pending().await
    })
    .await;
    // However slow the machine is, one of these leaves time for the head.
    for deadline_ms in [50, 500, 5_000, 50_000] {
        let request = request(&stalled.url("http"), Duration::from_millis(deadline_ms));
        let result = network("127.0.0.0/8").send(request).await;
        if told(&result) == "200 half" {
            return;
        }
    }
    panic!("the status was forgotten");
}

#[tokio::test]
async fn the_request_is_what_was_asked_for() {
    let echo = Receiver::playing(async |mut stream| {
        let request = read_request(&mut stream).await?;
        let length = request.len();
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{request}");
        stream.write_all(response.as_bytes()).await
    })
    .await;
    let response = post(&echo.url("http")).await.expect("an answer");
    assert_eq!(response.remote_address, Some(echo.address));
    let seen = String::from_utf8(response.body).expect("text");
    let (head, body) = seen.split_once("\r\n\r\n").expect("a head");
    let mut lines: Vec<_> = head.lines().collect();
    assert_eq!(
        lines.remove(0),
        format!("POST /inbox?code={CANARY} HTTP/1.1")
    );
    lines.sort_unstable();
    let host = format!("host: {}", echo.address);
    let user_agent = format!("user-agent: Everpost/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        lines,
        [
            "accept: */*",
            "aeg-event-type: Notification",
            "content-length: 4",
            &host,
            &user_agent,
        ]
    );
    assert_eq!(body, "[{}]");
}

/// A receiver that responds to the first request of a connection and closes it on the second.
#[tokio::test]
async fn connections_are_used_again_and_requests_never_repeated() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let receiver = Receiver::playing(move |mut stream| {
        let counted = Arc::clone(&counted);
        async move {
            read_request(&mut stream).await?;
            counted.fetch_add(1, Ordering::SeqCst);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await?;
            read_request(&mut stream).await?;
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    })
    .await;
    let transport = network("127.0.0.0/8");
    for expected in ["200", "Socket: "] {
        let result = transport.send(request(&receiver.url("http"), LONG)).await;
        compare(&result, expected, "on one connection");
    }
    assert_eq!(
        (receiver.connections(), requests.load(Ordering::SeqCst)),
        (1, 2)
    );
}

#[tokio::test]
async fn forbidden_receivers_are_not_even_connected_to() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let port = receiver.address.port();
    for host in [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ] {
        let url = format!("http://{host}:{port}/?code={CANARY}");
        let result = network("").send(request(&url, LONG)).await;
        compare(
            &result,
            "Denied: not called: 127.0.0.1 is a loopback address",
            &url,
        );
    }
    let url = format!("http://inside.example:{port}/?code={CANARY}");
    for addresses in ["127.0.0.1", "93.184.216.34 127.0.0.1", "::ffff:127.0.0.1"] {
        let result = named("", addresses).send(request(&url, LONG)).await;
        compare(
            &result,
            "Denied: not called: 127.0.0.1 is a loopback address",
            addresses,
        );
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn another_policy_holds_from_the_next_request_on() {
    let receiver = Receiver::playing(async |mut stream| {
        loop {
            read_request(&mut stream).await?;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await?;
        }
    })
    .await;
    let network = named("", "127.0.0.1");
    let url = receiver.url("http").replace("127.0.0.1", "hooks.test");
    for (allow, expected) in [("", "Denied"), ("127.0.0.0/8", "200"), ("", "Denied")] {
        let policy = options(allow).egress;
        network.set_policy(&policy).expect("a network");
        let result = network.send(request(&url, LONG)).await;
        compare(&result, expected, allow);
    }
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn names_are_looked_up() {
    let receiver = Receiver::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let url = format!(
        "http://inside.example:{}/?code={CANARY}",
        receiver.address.port()
    );
    let result = named("127.0.0.0/8", "127.0.0.1")
        .send(request(&url, LONG))
        .await;
    compare(&result, "200", "an allowed address");
    let result = named("127.0.0.0/8", "").send(request(&url, LONG)).await;
    let expected = "Resolution: inside.example cannot be resolved: it has no address";
    compare(&result, expected, "no address");
}

/// A self-signed certificate for `localhost`, good until 2120, and its key. Nobody else trusts it.
const CERTIFICATE: &str = "\
    MIIBdzCCAR6gAwIBAgIBAjAKBggqhkjOPQQDAjAhMR8wHQYDVQQDDBZFdmVycG9z\
    dCB0ZXN0IHJlY2VpdmVyMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAw\
    WjAhMR8wHQYDVQQDDBZFdmVycG9zdCB0ZXN0IHJlY2VpdmVyMFkwEwYHKoZIzj0C\
    AQYIKoZIzj0DAQcDQgAEsLBVCRR9LQ8VqJjbu7XYNdHKjIMfLmuOaevL5/nGpLH7\
    3twt+hInQksoD/uJGL3XB9nQSiD2K+tzSUz8zp36mKNFMEMwFAYDVR0RBA0wC4IJ\
    bG9jYWxob3N0MAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYEFKsm8GvelcC3qJBvSPDM\
    xVsrq8zWMAoGCCqGSM49BAMCA0cAMEQCIG4oNUgV/eJQKGYFnnbT5sNdmmZggTRN\
    rMf3Hk2UwsjVAiBGcsfN7r81hsTxJbc1CwR7qh+M3O3EKHipvkp0I+Ja5A==";
const KEY: &str = "\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgkTKx+OIamoG2Ig2N\
    0V66+dZP3XfzTmJJJFIBZzxEyDmhRANCAASwsFUJFH0tDxWomNu7tdg10cqMgx8u\
    a45p68vn+caksfve3C36EidCSygP+4kYvdcH2dBKIPYr63NJTPzOnfqY";

fn der(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).expect("base64")
}

/// A receiver that shows the certificate.
async fn tls_receiver() -> Receiver {
    let acceptor = acceptor(&[]);
    Receiver::playing(move |stream| {
        let acceptor = acceptor.clone();
        async move { answer_tls(acceptor.accept(stream).await?).await }
    })
    .await
}

fn certified() -> ServerConfig {
    let key = PrivateKeyDer::try_from(der(KEY)).expect("a key");
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![der(CERTIFICATE).into()], key)
        .expect("a configuration")
}

fn acceptor(protocols: &[&[u8]]) -> TlsAcceptor {
    let mut config = certified();
    config.alpn_protocols = protocols.iter().map(|each| each.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// A network that trusts the certificate, and on which every name leads to the loopback interface.
fn trusting() -> HttpTransport {
    let options = NetworkOptions {
        extra_authorities: pem(),
        ..options("127.0.0.0/8")
    };
    let lookup: Lookup =
        Arc::new(|_| Box::pin(std::future::ready(Ok(vec![[127, 0, 0, 1].into()]))));
    HttpTransport::Network(NetworkTransport::with_lookup(options, lookup).expect("a client"))
}

fn pem() -> Vec<u8> {
    format!("-----BEGIN CERTIFICATE-----\n{CERTIFICATE}\n-----END CERTIFICATE-----\n").into_bytes()
}

async fn answer_tls(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    read_request(&mut stream).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}

#[tokio::test]
async fn certificates_are_checked() {
    let receiver = tls_receiver().await;
    for (transport, host, expected) in [
        (
            named("127.0.0.0/8", "127.0.0.1"),
            "localhost",
            "Tls: TLS failed: the certificate is from an unknown authority",
        ),
        (trusting(), "localhost", "200 ok"),
        (
            trusting(),
            "other.example",
            "Tls: TLS failed: the certificate has the wrong name: it is not for other.example, but for localhost",
        ),
    ] {
        let url = format!("https://{host}:{}/?code={CANARY}", receiver.address.port());
        compare(&transport.send(request(&url, LONG)).await, expected, host);
    }
}

#[tokio::test]
async fn http_2_is_spoken_where_it_is_offered() {
    let acceptor = acceptor(&[b"h2"]);
    let receiver = Receiver::playing(move |stream| {
        let acceptor = acceptor.clone();
        async move { serve_http_2(acceptor.accept(stream).await?).await }
    })
    .await;
    let transport = trusting();
    let port = receiver.address.port();
    for (path, expected) in [
        ("inbox", "200 HTTP/2.0 /inbox"),
        ("again", "200 HTTP/2.0 /again"),
        ("headers", "Socket: "),
    ] {
        let url = format!("https://localhost:{port}/{path}?code={CANARY}");
        compare(&transport.send(request(&url, LONG)).await, expected, path);
    }
    assert_eq!(receiver.connections(), 1);
}

/// Answers with the request's version and path, and on `/headers` with more of them than is bearable.
async fn serve_http_2(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<()> {
    let service = hyper::service::service_fn(async |request: http::Request<_>| {
        let told = format!("{:?} {}", request.version(), request.uri().path());
        let mut response = http::Response::new(http_body_util::Full::new(Bytes::from(told)));
        if request.uri().path() == "/headers" {
            let long = HeaderValue::from_str(&"x".repeat(HEADER_BLOCK_MAX as usize));
            response
                .headers_mut()
                .insert("x", long.expect("a header value"));
        }
        let _: hyper::body::Incoming = request.into_body();
        Ok::<_, std::convert::Infallible>(response)
    });
    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

#[tokio::test]
async fn tls_that_fails_says_so() {
    let handshake_failure = b"\x15\x03\x03\x00\x02\x02\x28".to_vec();
    for (response, expected) in [
        (handshake_failure, "Tls: TLS failed: received fatal alert"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "Tls: TLS failed: the receiver does not speak TLS at this port, perhaps plain HTTP",
        ),
        (
            Vec::new(),
            "Tls: TLS failed: the connection was closed during the handshake",
        ),
    ] {
        let receiver = Receiver::playing(move |mut stream| {
            let response = response.clone();
            async move {
                // All of the greeting must be read, or closing would reset the connection.
                let mut header = [0; 5];
                stream.read_exact(&mut header).await?;
                let length = u16::from_be_bytes([header[3], header[4]]);
                stream.read_exact(&mut vec![0; length.into()]).await?;
                stream.write_all(&response).await?;
                stream.shutdown().await
            }
        })
        .await;
        compare(&post(&receiver.url("https")).await, expected, "TLS");
    }
}

#[test]
fn authorities_must_be_certificates() {
    for (pem, accepted) in [
        ("", true),
        ("no certificate at all", false),
        (
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            false,
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            false,
        ),
    ] {
        let options = NetworkOptions {
            extra_authorities: pem.into(),
            ..options("")
        };
        assert_eq!(NetworkTransport::new(options).is_ok(), accepted, "{pem}");
    }
}
