//! The wish of the person or the system outside that a command ends.

use std::io;

/// Ctrl-C and, where there is such a thing, SIGTERM, from now on: neither ends the process by itself any more.
pub(super) struct Interrupts {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Interrupts {
    /// Begins to listen.
    pub(super) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one since the beginning.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c()
            .await
            .expect("the process may listen for Ctrl-C");
    }
}

/// Waits for Ctrl-C or SIGTERM, for commands that have nothing to bring to an end before.
pub async fn interrupted() {
    let interrupts = Interrupts::listen();
    interrupts
        .expect("the process may listen for signals")
        .next()
        .await;
}
