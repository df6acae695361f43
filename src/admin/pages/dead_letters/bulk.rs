//! What is done with all dead letters that a filter means: send them again as a replay job, take them out of
//! their queues, or keep them as a file. Each says first how many there are.

use std::collections::HashMap;

use serde_json::json;

use crate::admin::lists::download::{NDJSON, on_one_line, streamed};
use crate::admin::page::*;
use crate::admin::pages::dead_letters::LIST;
use crate::admin::pages::dead_letters::edit::{ResubmitForm, at_fields, other_topics};
use crate::admin::pages::replays::filters;
use crate::admin::pages::search::Search;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::replay::{ReplaySource, Replayed};
use crate::store::views::{DeadLetterQuery, EventDetail, NUMBERS_MAX};
use crate::wire::resource::{ReplayContext, ReplayRequest, parse_replay};

/// How long one request removes dead letters; whoever sent it may send it again.
const PURGE_TIME: Duration = Duration::from_secs(10);

/// Dead letters read for a file at once: they bound its memory together with the size of an event.
const FILE_BATCH: usize = 20;

#[derive(Template)]
#[template(path = "pages/replay_dead_letters.html")]
struct ReplayFormPage {
    frame: Frame,
    form: Filled<ResubmitForm>,
    count: u64,
    /// What they are chosen by.
    chosen: Vec<(&'static str, String)>,
    topics: Vec<(String, String)>,
    back: String,
}

/// How many there are, if any.
fn some(count: u64) -> PageResult<u64> {
    let none = || PageError::Conflict("No dead letters match this filter.".to_owned());
    Some(count).filter(|count| *count > 0).ok_or_else(none)
}

fn source(search: &Search, visitor: &Visitor) -> PageResult<ReplaySource> {
    let of = Replayed::DeadLetters;
    let filter = search.dead_letters(visitor)?;
    Ok(ReplaySource { of, filter })
}

/// Shows how many would be sent again, and asks where and how fast.
pub(crate) async fn ask_to_replay(Query(search): Query<Search>, call: Call) -> PageResult {
    draw_form(&call, &search, ResubmitForm::with(String::new())).await
}

async fn draw_form(call: &Call, search: &Search, form: Filled<ResubmitForm>) -> PageResult {
    let source = source(search, &call.visitor)?;
    let count = some(call.broker.preview_replay(&source).await?.0)?;
    let title = print::plural(count, "dead letter", "dead letters");
    let page = ReplayFormPage {
        frame: Frame::new(&call.visitor, format!("Resubmit {title}?")),
        chosen: filters(&source.filter, &call.broker.registry()),
        topics: other_topics(call, ""),
        back: format!("{LIST}{}", search.query()),
        count,
        form,
    };
    Ok(draw_with(page.form.status(), &page))
}

/// Starts the replay job.
pub(crate) async fn replay(Query(search): Query<Search>, call: Call) -> PageResult {
    let source = source(&search, &call.visitor)?;
    let (request, form) = Filled::<ResubmitForm>::sent(&call.form).read(|form| read(&call, form));
    let Some(ReplayRequest { target, rate, .. }) = request else {
        return draw_form(&call, &search, form).await;
    };
    let job = call.broker.start_replay(call.by(), source, target, rate);
    let job = job.await?;
    let over = print::plural(job.request.total, "dead letter", "dead letters");
    let said = format!("Replay job {} has been started over {over}.", job.id);
    let page = paths::replay_page(job.id);
    call.visitor.leave(Flash::done(said), &page).await
}

/// Target and rate, by the rules of the management API.
fn read(call: &Call, form: &ResubmitForm) -> Result<ReplayRequest, Vec<Refusal>> {
    let context = ReplayContext {
        registry: &call.broker.registry(),
        require_https: call.egress.require_https,
    };
    let mut body = json!({ "target": form.target() });
    let rate = call.form.decimal("eventsPerSecond");
    if !rate.is_null() {
        body["eventsPerSecond"] = rate;
    }
    parse_replay(&body, context).map_err(|invalid| at_fields(&invalid))
}

/// Asks before dead letters are taken away, with their exact number.
pub(crate) async fn ask_to_purge(Query(search): Query<Search>, call: Call) -> PageResult {
    let filter = search.dead_letters(&call.visitor)?;
    let count = some(call.views.count_dead_letters(filter).await?)?;
    let count = print::plural(count, "dead letter", "dead letters");
    let question = Question::new(format!("Purge {count}?"))
        .would(format!(
            "{count} would be taken out of their queues for good."
        ))
        .would("Nobody can receive or resubmit them any more. Those that a receiver holds stay.")
        .would("Their events stay where they are, for reading, as long as retention keeps them.")
        .dangerously();
    let [action, back] = [&call.visitor.path, LIST].map(|path| format!("{path}{}", search.query()));
    Ok(question.draw(&call.visitor, "Purge", action, back))
}

/// Takes them away.
pub(crate) async fn purge(Query(search): Query<Search>, call: Call) -> PageResult {
    let (clock, started_at) = (call.broker.clock(), call.broker.clock().now());
    let mut query = all(search.dead_letters(&call.visitor)?, NUMBERS_MAX);
    let (mut removed, mut held) = (0, 0);
    let is_whole = loop {
        let purged = call.broker.purge_dead_letters(call.by(), query.clone());
        let purged = purged.await?;
        removed += purged.removed;
        held += purged.held;
        query.before = purged.next_before;
        if query.before.is_none() || clock.now().since(started_at) >= PURGE_TIME {
            break query.before.is_none();
        }
    };
    let one = "dead letter has been purged";
    let mut said = print::plural(removed, one, "dead letters have been purged");
    if held > 0 {
        let stay = print::plural(held, "is held", "are held");
        said.push_str(&format!("; {stay} by receivers and stay"));
    }
    let flash = match is_whole {
        true => Flash::done(format!("{said}.")),
        false => Flash::failed(format!("{said}. There are more: purge again.")),
    };
    let back = format!("{LIST}{}", search.query());
    call.visitor.leave(flash, &back).await
}

fn all(filter: DeadLetterFilter, limit: usize) -> DeadLetterQuery {
    DeadLetterQuery {
        filter,
        limit,
        before: None,
    }
}

/// The records of all that are meant, as Azure writes them: one on a line, or as one array.
pub(crate) async fn download(
    Query(search): Query<Search>,
    Query(asked): Query<HashMap<String, String>>,
    call: Call,
) -> PageResult {
    let (kind, name, [opening, between, end]) = match asked.get("form").map(String::as_str) {
        Some("json") => ("application/json", "dead-letters.json", ["[", ",", "]\n"]),
        _ => (NDJSON, "dead-letters.ndjson", [""; 3]),
    };
    let first = (
        all(search.dead_letters(&call.visitor)?, FILE_BATCH),
        opening,
    );
    Ok(streamed(name, kind, first, move |(mut query, mut sign)| {
        let site = Arc::clone(&call.site);
        async move {
            let page = site.views.dead_letters(query.clone()).await?;
            let (registry, mut out) = (site.broker.registry(), Vec::new());
            for row in page.rows {
                let event = site.views.event(row.event).await?;
                let record = |event: EventDetail| row.record(&event.stored, &registry);
                // What went meanwhile is left out.
                if let Some(record) = event.and_then(record) {
                    out.extend([sign.as_bytes(), &on_one_line(record), b"\n"].concat());
                    sign = between;
                }
            }
            query.before = page.next_before;
            let rest = query.before.is_some().then_some((query, sign));
            if rest.is_none() {
                // Nothing at all is an empty array.
                let opened = if sign == opening { opening } else { "" };
                out.extend([opened, end].concat().bytes());
            }
            Ok((out, rest))
        }
    }))
}
