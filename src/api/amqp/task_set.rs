//! The tasks of a connection, each with the memory that is accounted for it.

use std::sync::Arc;

use futures_util::future::FutureExt;
use tokio::task::{JoinError, JoinSet};

use crate::base::budget::TakenBytes;
use crate::base::seldom::SeldomLine;

/// The set of tasks that run for a peer. Tasks are spawned only here. A task counts until it has ended and was joined,
/// even if its link or transaction ended earlier.
#[derive(Debug, Default)]
pub(super) struct TaskSet {
    running: JoinSet<TakenBytes>,
    /// Reference count of attached links: each link that has a task holds a clone.
    attached: Arc<()>,
}

/// Marks a link that has a task as attached. The link holds it as long as the peer can use the link.
#[derive(Debug)]
pub(super) struct AttachedLink {
    /// Counts the link by its reference to `TaskSet::attached`.
    _one: Arc<()>,
}

impl TaskSet {
    /// Spawns a task, and keeps its memory `held` until the task is joined.
    pub(super) fn spawn(
        &mut self,
        held: TakenBytes,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        // The task returns `held`, since a task that has ended takes memory until it is joined.
        self.running.spawn(task.map(|()| held));
    }

    /// Counts a link as attached until the returned value is dropped. Its task is not counted as ending.
    pub(super) fn attached(&self) -> AttachedLink {
        AttachedLink {
            _one: Arc::clone(&self.attached),
        }
    }

    /// Returns the number of tasks that were not joined yet.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Returns the number of tasks without an attached link: the peer has detached the link, or the task never had one.
    pub(super) fn ending(&self) -> usize {
        let attached = Arc::strong_count(&self.attached) - 1;
        self.len().saturating_sub(attached)
    }

    /// Joins the tasks that have ended.
    pub(super) fn join_ended(&mut self) {
        while let Some(ended) = self.running.try_join_next() {
            report(ended);
        }
    }

    /// Joins the next task that ends. Returns `None` if there is no task. This function is cancel safe.
    pub(super) async fn join_next(&mut self) -> Option<()> {
        let ended = self.running.join_next().await?;
        report(ended);
        Some(())
    }
}

fn report(ended: Result<TakenBytes, JoinError>) {
    static LINE: SeldomLine = SeldomLine::new();
    if let Err(cause) = ended
        && let Some(unlogged) = LINE.take_now()
    {
        tracing::error!(
            %cause,
            unlogged,
            "the task of an AMQP link ended early; further ones within a minute are only counted"
        );
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::base::budget::Budget;

    #[tokio::test]
    async fn a_task_counts_until_it_is_joined_whatever_became_of_its_link() {
        let account = Budget::of(1_000).account([None, None], usize::MAX);
        let held = || account.take(7).expect("memory");
        let mut tasks = TaskSet::default();
        let (end, ended) = oneshot::channel::<()>();
        let link = tasks.attached();
        tasks.spawn(held(), ended.map(drop));
        tasks.spawn(held(), async {});
        assert_eq!((tasks.len(), tasks.ending()), (2, 1));
        tokio::task::yield_now().await;
        assert_eq!(account.taken(), 14, "one has ended and is not joined");
        tasks.join_ended();
        assert_eq!((tasks.len(), tasks.ending(), account.taken()), (1, 0, 7));
        drop(link);
        tasks.join_ended();
        assert_eq!((tasks.len(), tasks.ending(), account.taken()), (1, 1, 7));
        end.send(()).expect("it waits");
        assert_eq!(tasks.join_next().await, Some(()));
        assert_eq!((tasks.ending(), account.taken()), (0, 0));
        assert_eq!(tasks.join_next().await, None);
    }

    #[tokio::test]
    async fn a_task_that_panics_gives_back_what_it_has() {
        let account = Budget::of(1_000).account([None, None], usize::MAX);
        let mut tasks = TaskSet::default();
        let held = account.take(7).expect("memory");
        tasks.spawn(held, async { panic!("on purpose") });
        assert_eq!(tasks.join_next().await, Some(()));
        assert_eq!(account.taken(), 0);
    }
}
