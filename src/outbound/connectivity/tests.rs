use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::outbound::OutboundOptions;
use crate::outbound::egress::{EgressDenied, EgressPolicy, Permit};
use crate::outbound::resolver::Lookup;
use crate::outbound::transport::{HttpTransport, NetworkOptions, NetworkTransport};

/// Thu, 01 Jan 1970 00:16:40 GMT.
const NOW: Timestamp = Timestamp::from_ms(1_000_000);

/// The outbound side of an appliance that may call the loopback interface, and its number of look-ups.
struct OutboundCheck {
    outbound: Outbound,
    lookups: Arc<AtomicUsize>,
}

impl OutboundCheck {
    fn new() -> Self {
        let lookups = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&lookups);
        let lookup: Lookup = Arc::new(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            let found = match name.as_str() {
                "hooks.test" => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
                "lan.test" => Ok(vec![IpAddr::from([192, 168, 1, 1])]),
                _ => Err(std::io::Error::other("no such name")),
            };
            Box::pin(std::future::ready(found))
        });
        let options = NetworkOptions {
            egress: EgressPolicy {
                allow: vec!["127.0.0.0/8".parse().expect("a network")],
                ..EgressPolicy::default()
            },
            clock: Clock::simulated(NOW),
            extra_authorities: Vec::new(),
        };
        let network = NetworkTransport::with_lookup(options, lookup).expect("a network");
        let outbound = Outbound::new(OutboundOptions {
            transport: HttpTransport::Network(network),
            clock: Clock::simulated(NOW),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        });
        Self { outbound, lookups }
    }

    async fn connectivity(&self, url: &str) -> Connectivity {
        let url = Url::parse(url).expect("a URL");
        self.outbound.connectivity(&url).await
    }
}

/// A receiver that responds to every connection with `head`: its port, and the requests that have come.
async fn receiver(head: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut request = String::new();
                // A TLS client begins with the number of a handshake record, and gets its response at once.
                while !request.ends_with("\r\n\r\n") && !request.starts_with('\u{16}') {
                    request.push(char::from(stream.read_u8().await.expect("a byte")));
                }
                let _ = tell.send(request);
                let _ = stream.write_all(head.as_bytes()).await;
                // Closed with something unread, the connection would be reset.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    (port, told)
}

#[tokio::test]
async fn every_step_of_the_way_is_told() {
    let head = "HTTP/1.1 503 Busy\r\nDate: Thu, 01 Jan 1970 00:18:10 GMT\r\n\
                Content-Length: 4\r\n\r\n";
    let (port, mut requests) = receiver(head).await;
    let way = OutboundCheck::new();
    for times in 1..=2 {
        let connectivity = way
            .connectivity(&format!("http://hooks.test:{port}/in"))
            .await;
        let EgressVerdict::Allowed(permits) = &connectivity.verdict else {
            panic!("{connectivity:?}");
        };
        let [(address, Permit::Opened { .. })] = permits.as_slice() else {
            panic!("{connectivity:?}");
        };
        assert!(address.is_loopback() && connectivity.lookup.is_some());
        let call = connectivity.call.expect("a call");
        assert!(call.connect.is_some(), "a connection of its own");
        let reached = call.response.expect("an answer");
        assert_eq!(reached.status, 503);
        assert_eq!(reached.remote_address.map(|it| it.port()), Some(port));
        let behind = ClockSkew::Behind(Duration::from_secs(90));
        assert_eq!(reached.clock_skew, Some(behind));
        let request = requests.recv().await.expect("a request");
        assert!(request.starts_with("HEAD /in HTTP/1.1\r\n"), "{request}");
        // The cache of deliveries is not used by a test.
        assert_eq!(way.lookups.load(Ordering::SeqCst), times);
    }
}

#[tokio::test]
async fn what_may_not_be_called_is_not_called() {
    let (port, mut requests) = receiver("HTTP/1.1 204 No Content\r\n\r\n").await;
    let way = OutboundCheck::new();
    let connectivity = way.connectivity(&format!("http://lan.test:{port}/")).await;
    assert!(
        matches!(
            connectivity.verdict,
            EgressVerdict::Denied(EgressDenied::NotPublic { .. })
        ),
        "{connectivity:?}"
    );
    assert_eq!(connectivity.call, None);
    let connectivity = way.connectivity("http://nowhere.test/").await;
    assert!(
        matches!(connectivity.verdict, EgressVerdict::Unresolved(_)),
        "{connectivity:?}"
    );
    assert_eq!(connectivity.call, None);
    assert!(requests.try_recv().is_err());
}

#[tokio::test]
async fn a_way_that_ends_early_says_where() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let way = OutboundCheck::new();
    let connectivity = way.connectivity(&format!("http://127.0.0.1:{port}/")).await;
    assert_eq!(connectivity.lookup, None, "an address is not looked up");
    let call = connectivity.call.expect("a call");
    assert_eq!(call.connect, None);
    let error = call.response.expect_err("nobody there");
    assert_eq!(error.to_string(), "the connection was refused");

    let (port, _requests) = receiver("SSH-2.0-OpenSSH_9.2\r\n").await;
    let call = way
        .connectivity(&format!("http://127.0.0.1:{port}/"))
        .await
        .call;
    let call = call.expect("a call");
    assert!(call.connect.is_some());
    assert!(matches!(call.response, Err(TransportError::Socket(_))));

    let (port, _requests) = receiver("SSH-2.0-OpenSSH_9.2\r\n").await;
    let call = way
        .connectivity(&format!("https://127.0.0.1:{port}/"))
        .await
        .call;
    let call = call.expect("a call");
    assert_eq!(call.connect, None, "TLS is a part of connecting");
    assert!(
        matches!(call.response, Err(TransportError::Tls(_))),
        "{call:?}"
    );
}

#[test]
fn the_time_is_told_by_the_head_of_an_answer() {
    for (date, age, expected_s) in [
        ("Thu, 01 Jan 1970 00:16:40 GMT", None, Some(1_000)),
        ("Thu, 01 Jan 1970 00:16:40 GMT", Some("60"), Some(1_060)),
        ("Thu, 01 Jan 1970 00:16:40 GMT", Some("old"), Some(1_000)),
        ("soon", Some("60"), None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static(date));
        age.map(|age| headers.insert(AGE, HeaderValue::from_static(age)));
        let said = said_at(&headers).map(|at| at.as_ms() / 1_000);
        assert_eq!(said, expected_s, "{date} {age:?}");
    }
    assert_eq!(said_at(&HeaderMap::new()), None);
}
