//! The provisioning directory. The objects in its files are created at startup and updated whenever a file changes.
//! Nobody else can change these objects. Objects that are removed from the files are deleted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::task::block_in_place;

use crate::api::Doors;
use crate::app::configuration_files::{
    self as files, ConfiguredObject, FileContents, faults_of, object_of,
};
use crate::base::Timestamp;
use crate::broker::{Account, Broker};
use crate::model::audit::{AuditTarget, TargetKind};
use crate::model::provisioned::Mark;
use crate::wire::resource::configuration::body;

/// Interval between checks of the files. A change is applied once two checks in a row find the same state, so that no
/// file is read while it is being written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Delay before a retry after a problem that may lie outside the files, such as a webhook that failed validation.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Kinds of objects whose deletion also deletes messages or deliveries.
const KINDS_WITH_MESSAGES: [TargetKind; 6] = [
    TargetKind::Namespace,
    TargetKind::Topic,
    TargetKind::Queue,
    TargetKind::ServiceBusTopic,
    TargetKind::ServiceBusSubscription,
    TargetKind::EventSubscription,
];

/// The provisioning directory, and the state in which its files were last applied.
pub(super) struct Provisioning {
    dir: PathBuf,
    doors: Doors,
    broker: Broker,
    seen: Mutex<Seen>,
}

/// Modification time and length of each file, to detect changes. `Err` if the directory cannot be read.
type Stamp = Result<Vec<(PathBuf, Option<(SystemTime, u64)>)>, String>;

/// Observed states of the files.
struct Seen {
    latest: Stamp,
    /// The stamp of the files when they were last applied, successfully or not.
    applied: Stamp,
    /// Files with secrets that the provisioning files refer to.
    referred: BTreeSet<PathBuf>,
    retry_at: Option<Timestamp>,
}

impl Seen {
    /// Records `stamp` as the current state of the files. Returns whether the files should be applied now.
    fn is_due(&mut self, stamp: Stamp, now: Timestamp) -> bool {
        let is_settled = stamp == self.latest;
        self.latest = stamp;
        let is_changed = self.latest != self.applied;
        is_settled && (is_changed || self.retry_at.is_some_and(|at| at <= now))
    }
}

/// The reason why the files could not be applied in full.
enum ProvisioningProblem {
    /// Nothing was changed.
    Faulty(String),
    /// Some changes may have been made.
    Rejected(String),
}

impl Provisioning {
    /// Applies the files of `dir`. Objects provisioned from other directories become ordinary objects.
    ///
    /// # Errors
    /// Fails if the files are invalid. A rejected change of valid files is tried again by [`Self::watch`].
    pub(super) async fn start(dir: &Path, doors: Doors, broker: Broker) -> anyhow::Result<Self> {
        let provisioning = Self {
            dir: dir.to_owned(),
            doors,
            broker,
            seen: Mutex::new(Seen {
                latest: Ok(Vec::new()),
                applied: Ok(Vec::new()),
                referred: BTreeSet::new(),
                retry_at: None,
            }),
        };
        match provisioning.apply().await {
            Err(ProvisioningProblem::Faulty(problem)) => {
                Err(anyhow::anyhow!("{problem}").context("provisioning.dir is at fault"))
            }
            Ok(()) | Err(ProvisioningProblem::Rejected(_)) => Ok(provisioning),
        }
    }

    /// Checks the files every `LOOK_EVERY`, and applies changes, until the broker stops.
    pub(super) async fn watch(&self) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.broker.stopping() => return,
            }
            let stamp = self.stamp();
            let now = self.broker.clock().now();
            if self.seen.lock().unwrap().is_due(stamp, now) {
                let _ = self.apply().await; // which has noted the problem
            }
        }
    }

    /// Applies the files, and reports the result to the broker.
    async fn apply(&self) -> Result<(), ProvisioningProblem> {
        let before = self.stamp();
        let mut referred = BTreeSet::new();
        let read = block_in_place(|| self.read(&mut referred));
        self.seen.lock().unwrap().referred = referred;
        let after = self.stamp();
        // A file that changed during the read is read again.
        let is_same = match (&before, &after) {
            (Ok(before), Ok(after)) => before.iter().all(|file| after.contains(file)),
            _ => false,
        };
        let stamp = if is_same { after } else { before };
        let result = match read {
            Ok(contents) => self.make(&contents).await,
            Err(problem) => Err(ProvisioningProblem::Faulty(problem)),
        };
        let problem = result.as_ref().err().map(|problem| match problem {
            ProvisioningProblem::Faulty(problem) | ProvisioningProblem::Rejected(problem) => {
                problem.clone()
            }
        });
        let now = self.broker.clock().now();
        {
            let mut seen = self.seen.lock().unwrap();
            seen.latest = stamp.clone();
            seen.applied = stamp;
            seen.retry_at = problem.is_some().then(|| now + RETRY_AFTER);
        }
        self.broker.note_provisioning(problem);
        result
    }

    fn read(&self, referred: &mut BTreeSet<PathBuf>) -> Result<FileContents, String> {
        let files = files::files_of(&self.dir)?;
        // An unmounted disk looks like an empty directory, and must not cause all provisioned objects to be deleted.
        if files.is_empty() && !self.broker.provisioned().is_empty() {
            let none = files::no_files(&self.dir);
            return Err(format!(
                "{none}; to delete what came from there, leave one with []"
            ));
        }
        files::read(&files, referred)
    }

    fn stamp(&self) -> Stamp {
        let referred = self.seen.lock().unwrap().referred.clone();
        let stamp = |path: PathBuf| {
            let metadata = std::fs::metadata(&path).ok();
            let stamp = metadata.and_then(|it| Some((it.modified().ok()?, it.len())));
            (path, stamp)
        };
        // The directory may lie on a disk that hangs.
        block_in_place(|| {
            let mut files = files::files_of(&self.dir)?;
            files.extend(referred);
            Ok(files.into_iter().map(stamp).collect())
        })
    }

    async fn make(&self, contents: &FileContents) -> Result<(), ProvisioningProblem> {
        let objects = &contents.objects[..];
        let values: Vec<Value> = objects.iter().map(|object| object.value.clone()).collect();
        let plan = self
            .doors
            .plan_provisioning(&values)
            .await
            .map_err(ProvisioningProblem::Rejected)?;
        if let Some(faults) = faults_of(&plan, objects) {
            return Err(ProvisioningProblem::Faulty(format!(
                "nothing was changed, because of{faults}"
            )));
        }
        // Nobody else can change the provisioned objects from here on. Objects to delete stay claimed until they are
        // deleted.
        let before = self.broker.provisioned();
        let wanted: Vec<Mark> = objects.iter().filter_map(mark).collect();
        let old = before.targets().filter_map(|target| {
            let file = before.file_of(target)?.to_owned();
            Some(Mark {
                target: target.clone(),
                file,
            })
        });
        self.claim(old.chain(wanted.iter().cloned()).collect())
            .await?;
        let mut kept = Vec::new();
        let holding = self.holding().await?;
        for step in plan["steps"].as_array().into_iter().flatten() {
            let object = object_of(step, objects);
            if object.is_none()
                && let Some(mark) = self.kept(step, &holding, contents)
            {
                kept.push(mark);
                continue;
            }
            let title = step["title"].as_str().unwrap_or_default();
            let file = object.map_or_else(
                || self.dir.display().to_string(),
                |object| object.file.display().to_string(),
            );
            let body = object.map(|object| body(&object.value));
            let path = step["path"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let made = self.doors.provision(&file, path, body.as_ref()).await;
            made.map_err(|problem| {
                let place = object.map_or(&file, |object| &object.place);
                ProvisioningProblem::Rejected(format!("{place}: {title}: {problem}"))
            })?;
        }
        let problem = kept_problem(&kept);
        self.claim(wanted.into_iter().chain(kept).collect()).await?;
        problem.map_or(Ok(()), |problem| {
            Err(ProvisioningProblem::Rejected(problem))
        })
    }

    /// The event subscriptions and queues with messages, dead letters or pending deliveries, as `topic/subscription`.
    async fn holding(&self) -> Result<Vec<String>, ProvisioningProblem> {
        let counted = self.broker.accounts().await;
        let accounts = counted.map_err(|error| ProvisioningProblem::Rejected(error.to_string()))?;
        let holds = |account: &Account| account.totals.pending + account.totals.dead_letters > 0;
        let name = |account: Account| format!("{}/{}", account.topic, account.subscription);
        Ok(accounts.into_iter().filter(holds).map(name).collect())
    }

    /// Returns the mark of an object that the step would delete although it holds messages or deliveries. Returns
    /// `None` if the file that the object came from has `prune: true`.
    fn kept(&self, step: &Value, holding: &[String], contents: &FileContents) -> Option<Mark> {
        let kind: TargetKind = serde_json::from_value(step["kind"].clone()).ok()?;
        let name = step["name"].as_str()?;
        let target = kind.named(name);
        let file = self.broker.provisioned().file_of(&target)?.to_owned();
        let is_kept = may_hold(kind)
            && holding.iter().any(|held| is_of(held, name))
            && !contents.pruning.contains(Path::new(&file));
        is_kept.then_some(Mark { target, file })
    }

    async fn claim(&self, marks: Vec<Mark>) -> Result<(), ProvisioningProblem> {
        let claimed = self.broker.set_provisioned(marks).await;
        claimed.map_err(|error| ProvisioningProblem::Rejected(error.to_string()))
    }
}

/// Returns whether the deletion of an object of this kind can delete messages or deliveries.
fn may_hold(kind: TargetKind) -> bool {
    KINDS_WITH_MESSAGES.contains(&kind)
}

/// Returns whether `held`, in the form `topic/subscription`, names the object `name` or an object below it.
fn is_of(held: &str, name: &str) -> bool {
    let begins = held.get(..name.len());
    begins.is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        && [None, Some('/')].contains(&held[name.len()..].chars().next())
}

/// Describes the objects that were not deleted because they hold messages or pending deliveries.
fn kept_problem(kept: &[Mark]) -> Option<String> {
    let first = kept.first()?;
    let others = match kept.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!(
        "{:?} {}{others} is not in {} any more, but holds messages or pending deliveries, so it is left: receive or purge \
         them, or write `prune: true` beside `objects:` in that file to delete them, too",
        first.target.kind, first.target.name, first.file
    ))
}

fn mark(object: &ConfiguredObject) -> Option<Mark> {
    let kind: TargetKind = serde_json::from_value(object.value["kind"].clone()).ok()?;
    let target: AuditTarget = kind.named(object.value["name"].as_str()?);
    let file = object.file.display().to_string();
    Some(Mark { target, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(length: u64) -> Stamp {
        let at = SystemTime::UNIX_EPOCH;
        Ok(vec![(PathBuf::from("a.yaml"), Some((at, length)))])
    }

    #[test]
    fn what_is_held_is_of_an_object_and_of_those_above() {
        for (held, name, expected) in [
            ("jobs/jobs", "jobs", true),
            ("jobs/jobs", "Jobs", true),
            ("orders/billing", "orders/billing", true),
            ("orders/billing", "orders/bill", false),
            ("fleet/orders/billing", "fleet", true),
            ("fleet/orders/billing", "fleet/orders", true),
            ("orders/billing", "order", false),
            ("jobs", "jobs/jobs", false),
        ] {
            assert_eq!(is_of(held, name), expected, "{held} {name}");
        }
    }

    #[test]
    fn files_are_applied_once_they_rest_and_again_after_a_problem() {
        let at = |s: i64| Timestamp::from_ms(s * 1_000);
        let mut seen = Seen {
            latest: stamp(1),
            applied: stamp(1),
            referred: BTreeSet::new(),
            retry_at: None,
        };
        assert!(!seen.is_due(stamp(1), at(1)));
        // Somebody is writing it.
        assert!(!seen.is_due(stamp(2), at(2)));
        assert!(!seen.is_due(stamp(3), at(3)));
        assert!(seen.is_due(stamp(3), at(4)));
        seen.applied = stamp(3);
        assert!(!seen.is_due(stamp(3), at(5)));
        // A directory that is gone is a change, too.
        let gone = || Err("it is gone".to_owned());
        assert!(!seen.is_due(gone(), at(6)));
        assert!(seen.is_due(gone(), at(7)));
        seen.applied = gone();
        seen.retry_at = Some(at(67));
        assert!(!seen.is_due(gone(), at(66)));
        assert!(seen.is_due(gone(), at(67)));
    }
}
