//! Logs clients that use the wrong protocol for the port or fail the TLS handshake: the client's mistake, and its
//! remedy.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use rustls::{AlertDescription, Error, PeerMisbehaved};

use crate::api::client_of;
use crate::base::{Clock, Timestamp};

/// Minimum time between two log lines about one client.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// Maximum number of clients that get a log line within a minute, so that many addresses cannot fill the log.
const CLIENTS_MAX: usize = 60;

/// A mistake of a client.
#[derive(Debug)]
pub(super) enum Mistake {
    /// A TLS handshake, on a port without TLS.
    Tls,
    /// AMQP, on a port with TLS.
    PlainAmqp,
    /// Anything else without TLS, on a port with TLS.
    Plain,
    /// A TLS handshake that has failed.
    Handshake(io::Error),
}

/// The clients that the log has a line about.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Mutex<HashMap<IpAddr, Timestamp>>);

impl Mistakes {
    /// Logs a client's mistake, at most one line per client and minute.
    pub(super) fn note(&self, client: IpAddr, mistake: &Mistake) {
        if !self.takes_line(client_of(client), Clock::system().now()) {
            return;
        }
        let (did, instead) = mistake.told();
        tracing::warn!(%client, did, instead, "a connection could not be served");
    }

    fn takes_line(&self, client: IpAddr, now: Timestamp) -> bool {
        let mut told = self.0.lock().unwrap();
        let is_recent = |at: &Timestamp| now.since(*at) < LINE_PAUSE;
        if told.get(&client).is_some_and(is_recent) {
            return false;
        }
        if told.len() >= CLIENTS_MAX {
            told.retain(|_, at| is_recent(at));
        }
        let is_told = told.len() < CLIENTS_MAX;
        if is_told {
            told.insert(client, now);
        }
        is_told
    }
}

impl Mistake {
    /// Returns a description of the mistake and the advice that goes with it.
    fn told(&self) -> (String, &'static str) {
        const PLAIN: &str =
            "use https:// in URLs, and connection strings without UseDevelopmentEmulator=true";
        match self {
            Self::Tls => (
                "it began TLS, which is not spoken here".to_owned(),
                "put UseDevelopmentEmulator=true into its connection string and http:// into its URLs, or serve TLS (tls.cert)",
            ),
            Self::PlainAmqp => (
                "it spoke AMQP without TLS, which is spoken here".to_owned(),
                PLAIN,
            ),
            Self::Plain => (
                "it did not speak TLS, which is spoken here".to_owned(),
                PLAIN,
            ),
            Self::Handshake(error) => {
                let own = error.get_ref().and_then(|error| error.downcast_ref());
                (format!("its TLS handshake failed: {error}"), advice(own))
            }
        }
    }
}

fn advice(error: Option<&Error>) -> &'static str {
    match error {
        Some(Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate,
        )) => {
            "have it trust the certificate authority (of tls.dev, tls-dev-ca.pem in the data directory), and use a host \
             that the certificate names"
        }
        Some(Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName)) => {
            "have it send a host name alone as its server name, without a port; in Go, set ServerName in tls.Config"
        }
        Some(_) | None => "have it speak TLS 1.2 or 1.3, and trust the certificate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_line_a_minute() {
        let (mistakes, start) = (Mistakes::default(), Timestamp::from_ms(0));
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        for (client, after_s, expected) in [
            (one, 0, true),
            (one, 59, false),
            (other, 59, true),
            (one, 60, true),
        ] {
            let at = start + Duration::from_secs(after_s);
            assert_eq!(
                mistakes.takes_line(client, at),
                expected,
                "{client} {after_s}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_clients_are_remembered_than_there_is_room_for() {
        let (mistakes, start) = (Mistakes::default(), Timestamp::from_ms(0));
        let client = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        let lines = (0..CLIENTS_MAX + 10).filter(|n| mistakes.takes_line(client(*n), start));
        assert_eq!(lines.count(), CLIENTS_MAX);
        let later = start + LINE_PAUSE;
        assert!(mistakes.takes_line(client(CLIENTS_MAX + 1), later));
    }

    #[test]
    fn what_would_be_right_is_told() {
        let failed = |error: Error| Mistake::Handshake(io::Error::other(error)).told();
        let (did, instead) = failed(Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(did.contains("UnknownCA"), "{did}");
        assert!(instead.contains("certificate authority"), "{instead}");
        let wrong = PeerMisbehaved::ServerNameMustContainOneHostName;
        let (_, instead) = failed(Error::PeerMisbehaved(wrong));
        assert!(instead.contains("without a port"), "{instead}");
        let (did, _) = Mistake::Handshake(io::ErrorKind::UnexpectedEof.into()).told();
        assert!(did.contains("end of file"), "{did}");
    }
}
