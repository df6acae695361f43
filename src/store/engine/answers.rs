//! Sends the outcome of each group of changes to the callers of the changes.
//!
//! One task of the runtime sends the outcomes: waking each caller from the writer's thread costs more than most
//! changes.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use crate::store::engine::fatal::{FatalHandler, ReportPanic};
use crate::store::error::StoreError;

/// Maximum number of groups whose outcome waits to be sent; enough to keep the writer busy. Beyond the limit, the
/// writer waits.
const GROUPS_WAITING_MAX: usize = 4;

/// Sends the outcome of a group to the caller of one change.
pub(super) type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// A group that has ended.
pub(super) struct EndedGroup {
    pub(super) replies: Vec<Reply>,
    pub(super) outcome: Result<(), StoreError>,
}

impl EndedGroup {
    pub(super) fn tell(self) {
        for reply in self.replies {
            reply(self.outcome.clone());
        }
    }
}

/// Channel from the writer to the task that sends outcomes.
pub(super) struct Answers(mpsc::Sender<EndedGroup>);

impl Answers {
    /// Starts the task, which ends with the writer. A panic in the task ends the process, like a panic in the writer.
    pub(super) fn begin(fatal_handler: Arc<FatalHandler>) -> Self {
        let (sender, mut ended) = mpsc::channel::<EndedGroup>(GROUPS_WAITING_MAX);
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let _panics_too = ReportPanic(fatal_handler);
                while let Some(group) = ended.recv().await {
                    group.tell();
                }
            });
        }
        Self(sender)
    }

    /// Passes an ended group to the task. Without a runtime, or after its end, the calling thread sends the outcome.
    pub(super) fn give(&self, ended: EndedGroup) {
        if let Err(SendError(ended)) = self.0.blocking_send(ended) {
            ended.tell();
        }
    }
}
