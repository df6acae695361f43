//! Where the dead letters of a subscription go, and how its storage fares, for its page.

use crate::admin::widgets::print;
use crate::admin::widgets::{Due, Moment};
use crate::base::Timestamp;
use crate::model::blob_storage::BlobStorage;
use crate::model::destination::EndpointUrl;
use crate::model::export::Outage;
use crate::model::subscription::DeadLetterDestination;
use crate::store::views::ExportHistory;

/// What becomes of what is given up, ready to print.
pub(crate) struct GivenUpText {
    pub(crate) place: String,
    /// `None` where nothing is exported.
    pub(crate) exports: Option<ExportText>,
}

/// How exports fare.
pub(crate) struct ExportText {
    /// Name of the newest blob, and since when it is in storage.
    pub(crate) last: Option<(String, Moment)>,
    pub(crate) outage: Option<OutageText>,
}

/// Storage that is away.
pub(crate) struct OutageText {
    pub(crate) since: Moment,
    pub(crate) failures: String,
    pub(crate) error: String,
    pub(crate) next_try: Due,
}

impl GivenUpText {
    pub(crate) fn new(
        destination: &DeadLetterDestination,
        history: ExportHistory,
        now: Timestamp,
    ) -> Self {
        let (place, exports) = match destination {
            DeadLetterDestination::BuiltInQueue => {
                ("Kept in the queue of dead letters".to_owned(), None)
            }
            DeadLetterDestination::Drop => ("Dropped: nothing is kept".to_owned(), None),
            DeadLetterDestination::StorageBlob {
                container, storage, ..
            } => (
                format!("Exported to the container {container} {}", whose(storage)),
                Some(ExportText::new(history, now)),
            ),
        };
        Self { place, exports }
    }
}

impl ExportText {
    fn new(history: ExportHistory, now: Timestamp) -> Self {
        Self {
            last: history.last.map(|(name, at)| (name, Moment::at(at))),
            outage: history.outage.map(|outage| OutageText::new(&outage, now)),
        }
    }
}

impl OutageText {
    fn new(outage: &Outage, now: Timestamp) -> Self {
        Self {
            since: Moment::at(outage.since),
            failures: print::plural(u64::from(outage.failures), "failure", "failures"),
            error: print::visible(&outage.error),
            next_try: Due::new(outage.next_try_at, now),
        }
    }
}

fn whose(storage: &BlobStorage) -> String {
    let at = |endpoint: &Option<EndpointUrl>| match endpoint {
        Some(url) => format!(" at {}", url.base()),
        None => String::new(),
    };
    match storage {
        BlobStorage::Directory => "in the directory of the server, if it has opened one".to_owned(),
        BlobStorage::S3(account) => format!(
            "in S3{}, region {}, by the access key {}",
            at(&account.endpoint),
            account.region,
            account.access_key_id
        ),
        BlobStorage::AzureBlob(account) => format!(
            "of the Azure storage account {}{}",
            account.name,
            at(&account.endpoint)
        ),
    }
}
