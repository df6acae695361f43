//! Actions on all dead letters that match a filter: resubmit them in a replay job, remove them from their queues, or
//! download them. The first two show the number of dead letters before they run.

use std::sync::Arc;
use std::time::Duration;
use std::vec::IntoIter;

use axum::Extension;
use axum::extract::Query;

use super::{LIST, ResubmitForm};
use crate::admin::action::{Call, Names, Question, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::download::{ARRAY, FILE_BATCH, LINES, Rows, on_one_line, streamed};
use crate::admin::pages::answer;
use crate::admin::pages::replays::filters;
use crate::admin::pages::search::SearchForm;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Flash, filters, print};
use crate::base::request_memory::RequestMemory;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::replay::{ReplaySource, Replayed};
use crate::store::StoreError;
use crate::store::views::{DeadLetterQuery, DeliveryRow, NUMBERS_MAX};
use crate::wire::resource::ReplayRequest;

/// Maximum time for which one request removes dead letters. The request can be repeated to remove the rest.
const PURGE_TIME: Duration = Duration::from_secs(10);

/// Returns the number of dead letters, also in words, or an error if there are none.
fn some(count: u64) -> PageResult<(u64, String)> {
    if count == 0 {
        return Err(PageError::rejected("no dead letters match this filter"));
    }
    Ok((count, print::plural(count, "dead letter", "dead letters")))
}

fn source(search: &SearchForm, visitor: &Visitor) -> PageResult<ReplaySource> {
    let of = Replayed::DeadLetters;
    let filter = search.dead_letters(visitor)?;
    Ok(ReplaySource { of, filter })
}

/// Shows how many dead letters would be resubmitted, and asks for the target and the rate.
pub(crate) async fn ask_to_replay(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    draw_form(&call, &search, ResubmitForm::with(String::new())).await
}

async fn draw_form(call: &Call, search: &SearchForm, form: FilledForm<ResubmitForm>) -> PageResult {
    let source = source(search, &call.visitor)?;
    let (_, count) = some(call.broker.preview_replay(&source).await?.0)?;
    let button = format!("Resubmit {count}");
    answer!("pages/replay_dead_letters.html", &call.visitor, format!("{button}?"), {
        form: FilledForm<ResubmitForm> = form,
        button: String = button,
        // The criteria of the filter that selects the dead letters.
        chosen: Vec<(&'static str, String)> = filters(&source.filter, &call.broker.registry()),
        back: String = format!("{LIST}{}", search.query()),
    }, form)
}

pub(crate) async fn replay(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    let source = source(&search, &call.visitor)?;
    let form = FilledForm::<ResubmitForm>::sent(&call.form);
    let (request, form) = form.read(|form| form.request(&call));
    let Some(ReplayRequest { target, rate, .. }) = request else {
        return draw_form(&call, &search, form).await;
    };
    let job = call
        .broker
        .start_replay(call.by(), source, target, rate)
        .await?;
    let over = print::plural(job.request.total, "dead letter", "dead letters");
    let said = format!("Replay job {} has been started over {over}.", job.id);
    call.visitor.leave(Flash::done(said), &job.page()).await
}

/// Asks for confirmation before dead letters are removed, with their exact number.
pub(crate) async fn ask_to_purge(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    let filter = search.dead_letters(&call.visitor)?;
    let (_, count) = some(call.views.count_dead_letters(filter).await?)?;
    let question = Question::new(format!("Delete {count}?"))
        .would("They are gone for good: nobody can receive or resubmit them any more.")
        .would("Those that a receiver has locked stay.")
        .would("Their events stay in the list of events until they expire.")
        .dangerously();
    let [action, back] = [&call.visitor.path, LIST].map(|path| format!("{path}{}", search.query()));
    Ok(question.draw(&call.visitor, format!("Delete {count}"), action, back))
}

pub(crate) async fn purge(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    let (clock, started_at) = (call.broker.clock(), call.broker.clock().now());
    let mut query = all(search.dead_letters(&call.visitor)?, NUMBERS_MAX);
    let (mut removed, mut held) = (0, 0);
    let is_whole = loop {
        let purged = call
            .broker
            .purge_dead_letters(call.by(), query.clone())
            .await?;
        removed += purged.removed;
        held += purged.held;
        query.before = purged.next_before;
        if query.before.is_none() || clock.now().since(started_at) >= PURGE_TIME {
            break query.before.is_none();
        }
    };
    let one = "dead letter has been deleted";
    let mut said = print::plural(removed, one, "dead letters have been deleted");
    if held > 0 {
        let stay = print::plural(held, "is held", "are held");
        said.push_str(&format!("; {stay} by receivers and stay"));
    }
    let flash = if is_whole {
        Flash::done(format!("{said}."))
    } else {
        Flash::failed(format!("{said}. There are more: purge again."))
    };
    let back = format!("{LIST}{}", search.query());
    call.visitor.leave(flash, &back).await
}

pub(super) fn all(filter: DeadLetterFilter, limit: usize) -> DeadLetterQuery {
    DeadLetterQuery {
        filter,
        limit,
        before: None,
    }
}

/// Downloads the records of all dead letters that match the filter, in the format of Azure: one per line, or as one
/// JSON array.
pub(crate) async fn download(
    memory: Option<Extension<RequestMemory>>,
    Query(search): Query<SearchForm>,
    Query(asked): Query<Names>,
    call: Call,
) -> PageResult {
    let (name, framing) = match name_of(&asked, "form") {
        "json" => ("dead-letters.json", ARRAY),
        _ => ("dead-letters.ndjson", LINES),
    };
    let records = DeadLetterRecords {
        query: Some(all(search.dead_letters(&call.visitor)?, FILE_BATCH)),
        site: Arc::clone(&call.site),
        rows: Vec::new().into_iter(),
    };
    Ok(streamed(name, framing, memory, records))
}

/// Dead letter records that are still to be written to a file.
struct DeadLetterRecords {
    site: Arc<Site>,
    /// The query for the next rows; `None` if there are no more.
    query: Option<DeadLetterQuery>,
    /// Rows that were found and are not written yet.
    rows: IntoIter<DeliveryRow>,
}

impl Rows for DeadLetterRecords {
    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        loop {
            for row in self.rows.by_ref() {
                let event = self.site.views.event(row.event).await?;
                let registry = self.site.broker.registry();
                // An event that has been deleted meanwhile is left out.
                if let Some(record) = event.and_then(|it| row.record(&it.stored, &registry)) {
                    return Ok(Some([&on_one_line(record)[..], b"\n"].concat()));
                }
            }
            let Some(mut query) = self.query.take() else {
                return Ok(None);
            };
            let page = self.site.views.dead_letters(query.clone()).await?;
            query.before = page.next_before;
            self.query = query.before.is_some().then_some(query);
            self.rows = page.rows.into_iter();
        }
    }
}
