//! The wish of the person or the system outside that a command ends.

/// Waits for Ctrl-C or, where there is such a thing, SIGTERM.
pub async fn interrupted() {
    let ctrl_c = async {
        let listening = tokio::signal::ctrl_c().await;
        listening.expect("the process may listen for Ctrl-C");
    };
    tokio::select! {
        () = ctrl_c => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let listening = signal(SignalKind::terminate());
    listening
        .expect("the process may listen for SIGTERM")
        .recv()
        .await;
}

#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
}
