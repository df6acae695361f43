//! Measures how long a connection takes: a layer around the connector of an HTTP client.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{Layer, Service};

use crate::base::Stopwatch;

/// Measures the first connection of a client, TLS included. Clones share the result.
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

/// A connector that is measured.
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
            // Of several, the first one counts: the request waited for it.
            let _ = watch.0.set(stopwatch.took());
            Ok(connection)
        })
    }
}
