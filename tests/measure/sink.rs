//! A hundred webhooks on loopback, one of which can be told to hang or to reject.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The path that hangs or rejects when it is told to; all others answer at once.
pub(crate) const MOODY: &str = "/0";

const LOOKS: Duration = Duration::from_millis(20);

/// What ends a wait for deliveries that do not come.
const QUIET: Duration = Duration::from_secs(20);

/// The webhooks and what arrived at the healthy ones.
#[derive(Clone)]
pub(crate) struct Sink {
    pub(crate) url: String,
    hangs: Arc<AtomicBool>,
    rejects: Arc<AtomicBool>,
    arrivals: Arc<Mutex<Arrivals>>,
}

struct Arrivals {
    latencies_us: Vec<u64>,
    last: Instant,
}

/// What the healthy webhooks have got.
pub(crate) struct Got {
    pub(crate) events: usize,
    /// When the last one came.
    pub(crate) last: Instant,
    /// From publishing to arrival, in milliseconds.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// Microseconds since 1970, as the events carry them.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock after 1970").as_micros() as u64
}

impl Sink {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let sink = Self {
            url: format!("http://{}", listener.local_addr().expect("an address")),
            hangs: Arc::default(),
            rejects: Arc::default(),
            arrivals: Arc::new(Mutex::new(Arrivals::none())),
        };
        let serving = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).ok();
                let sink = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| sink.answer(request));
                    let connection =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // The appliance may hang up when it likes.
                    connection.await.ok();
                });
            }
        });
        sink
    }

    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }

    pub(crate) fn reject(&self, rejects: bool) {
        self.rejects.store(rejects, Ordering::Relaxed);
    }

    /// Waits until so many events came to the healthy webhooks, or until nothing comes any more.
    pub(crate) async fn wait_for(&self, events: usize) -> Got {
        loop {
            {
                let arrivals = self.arrivals.lock().expect("whole");
                if arrivals.latencies_us.len() >= events || arrivals.last.elapsed() > QUIET {
                    return arrivals.sum_up();
                }
            }
            tokio::time::sleep(LOOKS).await;
        }
    }

    pub(crate) fn forget(&self) {
        *self.arrivals.lock().expect("whole") = Arrivals::none();
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let moody = request.uri().path() == MOODY;
        let Ok(body) = request.into_body().collect().await else {
            return Ok(Response::default());
        };
        if moody {
            if self.hangs.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
            if self.rejects.load(Ordering::Relaxed) {
                let mut rejection = Response::default();
                *rejection.status_mut() = StatusCode::BAD_REQUEST;
                return Ok(rejection);
            }
        } else if let Some(published_us) = published_us(&body.to_bytes()) {
            let mut arrivals = self.arrivals.lock().expect("whole");
            arrivals
                .latencies_us
                .push(now_us().saturating_sub(published_us));
            arrivals.last = Instant::now();
        }
        Ok(Response::default())
    }
}

impl Arrivals {
    fn none() -> Self {
        Self {
            latencies_us: Vec::new(),
            last: Instant::now(),
        }
    }

    fn sum_up(&self) -> Got {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share) as usize;
            sorted
                .get(place)
                .map_or(f64::NAN, |us| *us as f64 / 1_000.0)
        };
        Got {
            events: sorted.len(),
            last: self.last,
            p50_ms: at(0.5),
            p99_ms: at(0.99),
        }
    }
}

/// When the event of a delivery was published: the number behind `"at":`.
fn published_us(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("\"at\":")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}
