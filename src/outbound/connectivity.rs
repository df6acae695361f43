//! The connectivity test: the host of a URL is resolved and checked as for a delivery, and one request is
//! made, so that every step is tried and timed.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AGE, DATE};
use http::{HeaderMap, Method};
use url::Url;

use crate::base::{Clock, Stopwatch, Timestamp};
use crate::model::clock_skew::ClockSkew;
use crate::model::limits::RESPONSE_READ_MAX;
use crate::outbound::Outbound;
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::evaluate::{EgressVerdict, evaluate};
use crate::outbound::transport::{
    PolicyNetwork, TransportError, TransportRequest, TransportResponse,
};

#[cfg(test)]
mod tests;

/// How long the response may take, the look-up aside: somebody waits for it.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// The result of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connectivity {
    pub verdict: EgressVerdict,
    /// How long the look-up took; `None` if there was none.
    pub lookup: Option<Duration>,
    /// `None` if no request was made.
    pub call: Option<ProbeRequest>,
}

/// The request that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeRequest {
    /// How long connecting took, TLS included; `None` without a connection.
    pub connect: Option<Duration>,
    pub response: Result<Reached, TransportError>,
}

/// The head of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    pub status: u16,
    pub remote_address: Option<SocketAddr>,
    /// From the connection to the head of the response.
    pub wait: Duration,
    /// `None` if the response has no date.
    pub clock_skew: Option<ClockSkew>,
}

impl Outbound {
    /// Tests the connection to `url` with a HEAD request, which changes nothing there. URLs inside the
    /// appliance are not called.
    pub async fn connectivity(&self, url: &Url) -> Connectivity {
        match self.transport.network(url) {
            Some(network) => connectivity(&network, url, &self.clock).await,
            None => Connectivity {
                verdict: EgressVerdict::Inside,
                lookup: None,
                call: None,
            },
        }
    }
}

async fn connectivity(network: &PolicyNetwork, url: &Url, clock: &Clock) -> Connectivity {
    if let Some(name) = url.domain() {
        network.guard().forget(name);
    }
    let stopwatch = Stopwatch::begin();
    let verdict = evaluate(network.policy(), network.guard(), url).await;
    let lookup = url.domain().map(|_| stopwatch.took());
    let call = match &verdict {
        EgressVerdict::Allowed(_) => Some(call(network, url, clock).await),
        EgressVerdict::Inside | EgressVerdict::Denied(_) | EgressVerdict::Unresolved(_) => None,
    };
    Connectivity {
        verdict,
        lookup,
        call,
    }
}

async fn call(network: &PolicyNetwork, url: &Url, clock: &Clock) -> ProbeRequest {
    let request = TransportRequest {
        method: Method::HEAD,
        url: url.clone(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        deadline: ANSWER_DEADLINE,
        body_max: RESPONSE_READ_MAX,
        late: None,
        tls: None,
    };
    let (watch, sent_at, stopwatch) = (ConnectWatch::default(), clock.now(), Stopwatch::begin());
    let response = network.send_afresh(request, watch.clone()).await;
    let (took, received_at) = (stopwatch.took(), clock.now());
    let connect = watch.took();
    let reached = |response: TransportResponse| Reached {
        status: response.status,
        remote_address: response.remote_address,
        wait: took.saturating_sub(connect.unwrap_or_default()),
        clock_skew: said_at(&response.headers)
            .map(|theirs| ClockSkew::measured(theirs, sent_at, received_at)),
    };
    ProbeRequest {
        connect,
        response: response.map(reached),
    }
}

/// The time of the server. A cache says when the response was made, and how long ago that was (RFC 9111,
/// 5.1).
fn said_at(headers: &HeaderMap) -> Option<Timestamp> {
    let text = |name| headers.get(name)?.to_str().ok();
    let date = httpdate::parse_http_date(text(DATE)?).ok()?;
    let age = text(AGE).and_then(|age| age.trim().parse().ok());
    Some(Timestamp::from_system(date) + Duration::from_secs(age.unwrap_or(0)))
}
