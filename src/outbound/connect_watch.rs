//! How long a connection took to make: a layer around what makes the connections of an HTTP client.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{Layer, Service};

use crate::base::Stopwatch;

/// Learns how long the first connection of a client takes, TLS included. Clones share what they learn.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectWatch(Arc<OnceLock<Duration>>);

impl ConnectWatch {
    /// `None` while there is no connection.
    pub(super) fn took(&self) -> Option<Duration> {
        self.0.get().copied()
    }
}

impl<S> Layer<S> for ConnectWatch {
    type Service = Watched<S>;

    fn layer(&self, connector: S) -> Watched<S> {
        Watched {
            connector,
            watch: self.clone(),
        }
    }
}

/// What makes connections, with somebody who looks at the time.
#[derive(Clone)]
pub(super) struct Watched<S> {
    connector: S,
    watch: ConnectWatch,
}

impl<S, Request> Service<Request> for Watched<S>
where
    S: Service<Request>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (stopwatch, watch) = (Stopwatch::begin(), self.watch.clone());
        let connecting = self.connector.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            // Of several, the first one counts: it is the one that was waited for.
            let _ = watch.0.set(stopwatch.took());
            Ok(connection)
        })
    }
}
