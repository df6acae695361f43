//! The endpoint of all deliveries: `/0` for the first event subscription, `/1` for the second, and so on.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::api::Memory;
use crate::app::bench::BenchPlan;
use crate::app::bench::records::Records;
use crate::app::forwarded::TrustedProxies;
use crate::app::listen::{self, ConnectionLimits};
use crate::base::Live;
use crate::broker::diagnostics::Connections;

/// Bytes of a delivery: 5,000 events of a batch are at most as large.
const BODY_MAX: usize = 64 * 1_024 * 1_024;

/// More than an appliance opens to one host.
const CONNECTIONS_MAX: usize = 4_096;

/// Listens until it is dropped.
pub struct BenchReceiver {
    pub address: SocketAddr,
    _stop: DropGuard,
}

/// The part of an event that the receiver reads.
#[derive(Deserialize)]
struct BenchEvent<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    sent_us: u64,
    #[serde(borrow)]
    padding: Cow<'a, str>,
}

impl BenchReceiver {
    pub async fn bind(
        listen: SocketAddr,
        plan: &BenchPlan,
        records: &Arc<Records>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let limits = ConnectionLimits {
            overall: Connections::of_at_most(CONNECTIONS_MAX),
            per_client: Live::new(CONNECTIONS_MAX),
            proxies: TrustedProxies::default(),
            memory: Memory::default(),
        };
        let (plan, records) = (Arc::new(plan.clone()), Arc::clone(records));
        let service = move |_, _| {
            let (plan, records) = (Arc::clone(&plan), Arc::clone(&records));
            service_fn(move |request| answer(Arc::clone(&plan), Arc::clone(&records), request))
        };
        tokio::spawn(listen::serve(
            vec![listener],
            None,
            limits,
            stop.clone(),
            service,
            None,
        ));
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }
}

async fn answer(
    plan: Arc<BenchPlan>,
    records: Arc<Records>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let subscription = request
        .uri()
        .path()
        .strip_prefix('/')
        .and_then(|path| path.parse().ok());
    let body = Limited::new(request.into_body(), BODY_MAX).collect().await;
    let (Some(subscription), Ok(collected)) = (subscription, body) else {
        return Ok(status(StatusCode::NOT_FOUND));
    };
    if subscription >= plan.fan_out {
        return Ok(status(StatusCode::NOT_FOUND));
    }
    let body = collected.to_bytes();
    let Some(events) = events(&body, plan.payload_bytes) else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    if events.iter().any(|(number, _)| plan.is_slow(*number)) {
        tokio::time::sleep(plan.slow_delay).await;
    }
    let failing = events
        .iter()
        .map(|(number, _)| *number)
        .find(|number| plan.fails(*number));
    if failing.is_some_and(|number| records.fail_once(subscription, number)) {
        return Ok(status(StatusCode::SERVICE_UNAVAILABLE));
    }
    for (number, sent_us) in events {
        records.deliver(subscription, number, sent_us);
    }
    Ok(status(StatusCode::OK))
}

/// Number and time of every event; `None` if one of them is not as it was published.
fn events(body: &[u8], payload_bytes: usize) -> Option<Vec<(u64, u64)>> {
    let events: Vec<BenchEvent<'_>> = serde_json::from_slice(body).ok()?;
    let read = |event: BenchEvent<'_>| {
        let is_whole = event.data.padding.len() == payload_bytes;
        is_whole.then_some((event.id.parse().ok()?, event.data.sent_us))
    };
    events.into_iter().map(read).collect()
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
