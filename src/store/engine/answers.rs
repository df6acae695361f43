//! Tells those who sent changes what became of them, group by group.
//!
//! One task of the runtime does it: waking each of them from the writer's thread costs more than most changes.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use crate::store::engine::fatal::{FatalHandler, ReportPanic};
use crate::store::error::StoreError;

/// Groups that may wait to be told: enough to keep the writer busy meanwhile. Beyond it the writer waits.
const GROUPS_WAITING_MAX: usize = 4;

/// Tells the sender of a change the outcome of its group.
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

/// The writer's way to the task.
pub(super) struct Answers(mpsc::Sender<EndedGroup>);

impl Answers {
    /// Begins the task, which ends with the writer. A panic in it ends the process, as one in the writer does.
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

    /// Has a group told; without a runtime, or after its end, by the caller.
    pub(super) fn give(&self, ended: EndedGroup) {
        if let Err(SendError(ended)) = self.0.blocking_send(ended) {
            ended.tell();
        }
    }
}
