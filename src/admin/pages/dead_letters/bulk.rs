//! What is done with all dead letters that a filter means: send them again as a replay job, take them out of
//! their queues, or keep them as a file. Each says first how many there are.

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::lists::download::{Batches, NDJSON, on_one_line, streamed};
use crate::admin::page::*;
use crate::admin::pages::dead_letters::asked::Asked;
use crate::admin::pages::replays::{filters, replay_page};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::name::TopicName;
use crate::model::replay::{ReplaySource, Replayed};
use crate::store::StoreError;
use crate::store::views::{DeadLetterQuery, NUMBERS_MAX};
use crate::wire::dead_letter::RecordOf;
use crate::wire::resource::{self, ReplayContext};

const LIST: &str = "/admin/dead-letters";

/// How long one request removes dead letters; whoever sent it may send it again.
const PURGE_TIME: Duration = Duration::from_secs(10);

/// Dead letters read for a file at once: they bound its memory together with the size of an event.
const FILE_BITE: usize = 20;

fn source(site: &Site, visitor: &Visitor, asked: &Asked) -> Result<ReplaySource, PageError> {
    Ok(ReplaySource {
        of: Replayed::DeadLetters,
        filter: filter(site, visitor, asked)?,
    })
}

fn filter(site: &Site, visitor: &Visitor, asked: &Asked) -> Result<DeadLetterFilter, PageError> {
    let nothing = |_| PageError::NotFound("dead letter that this filter could mean".to_owned());
    asked
        .filter(&site.broker.registry(), visitor)
        .map_err(nothing)
}

fn some(count: u64) -> Result<u64, PageError> {
    match count {
        0 => Err(PageError::Conflict(
            "No dead letters match this filter.".to_owned(),
        )),
        count => Ok(count),
    }
}

/// Shows how many would be sent again, and asks where and how fast.
pub(crate) async fn ask_to_replay(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let count = some(
        site.broker
            .preview_replay(&source(&site, &visitor, &asked)?)
            .await?
            .0,
    )?;
    let form = Form::of([("kind", "Subscription".to_owned())]);
    Ok(draw_form(&site, &visitor, &asked, &form, count, None))
}

/// Starts the replay job.
pub(crate) async fn replay(
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let source = source(&site, &visitor, &asked)?;
    let request = match read(&site, &form) {
        Ok(request) => request,
        Err(refusal) => {
            let count = some(site.broker.preview_replay(&source).await?.0)?;
            return Ok(draw_form(
                &site,
                &visitor,
                &asked,
                &form,
                count,
                Some(refusal),
            ));
        }
    };
    let job = site
        .broker
        .start_replay(&visitor.caller, source, request.target, request.rate)
        .await?;
    let over = print::plural(job.request.total, "dead letter", "dead letters");
    let message = format!("Replay job {} has been started over {over}.", job.id);
    visitor
        .leave(Flash::done(message), &replay_page(job.id))
        .await
}

/// Target and rate, by the rules of the management API.
fn read(site: &Site, form: &Form) -> Result<resource::ReplayRequest, Refusal> {
    let registry = site.broker.registry();
    let context = ReplayContext {
        registry: &registry,
        require_https: site.egress.require_https,
    };
    let mut body = json!({ "target": target(form) });
    if let Some(rate) = Some(form.decimal("eventsPerSecond")).filter(|rate| !rate.is_null()) {
        body["eventsPerSecond"] = rate;
    }
    resource::parse_replay(&body, context).map_err(Refusal::from)
}

/// The target that the form stands for.
pub(crate) fn target(form: &Form) -> Value {
    match form.text("kind").split_once(' ') {
        None if form.text("kind") == "Url" => json!({ "kind": "Url", "url": form.text("url") }),
        None => json!({ "kind": form.filled("kind") }),
        Some((kind, topic)) => json!({ "kind": kind, "topic": topic }),
    }
}

/// The fields that [`target`] reads. `own` is the topic of what is sent, if it is all of one.
pub(crate) fn target_fields(site: &Site, form: &Form, own: Option<&str>) -> Vec<Field> {
    let registry = site.broker.registry();
    let others = registry.made_topics().map(|topic| &topic.topic.name);
    let others = others.filter(|name| Some(name.as_str()) != own);
    let others = others.map(|name| (format!("Topic {name}"), name.to_string()));
    let back = match own {
        None => "All subscriptions of the topic that it was published to".to_owned(),
        Some(own) => format!("All subscriptions of {own}, the topic that it was published to"),
    };
    let own_ones = [
        (
            "Subscription",
            "Only the event subscription that gave it up".to_owned(),
        ),
        ("Topic", back),
        ("Url", "A URL that you type".to_owned()),
    ];
    let own_ones = own_ones.map(|(kind, text)| (kind.to_owned(), text));
    let groups = [
        ("What it was meant for, or a URL", own_ones.into()),
        (
            "All subscriptions of another topic",
            others.collect::<Vec<_>>(),
        ),
    ];
    let groups = groups
        .into_iter()
        .filter(|(_, options)| !options.is_empty());
    vec![
        Field::grouped_choice("kind", "Who gets it", groups.collect(), form).at("target.kind").hint(
            "For all subscriptions of a topic it becomes a new event: each gets it whose filter it passes.",
        ),
        Field::url("url", "URL", form)
            .hint("It gets one request for each.")
            .only_for("only-url")
            .at("target.url"),
    ]
}

fn draw_form(
    site: &Site,
    visitor: &Visitor,
    asked: &Asked,
    form: &Form,
    count: u64,
    refusal: Option<Refusal>,
) -> Response {
    let mut fields = target_fields(site, form, None);
    fields.push(
        Field::number("eventsPerSecond", "Events per second", form)
            .hint("Empty: as fast as the receivers keep up."),
    );
    let title = print::plural(count, "dead letter", "dead letters");
    let page = FormPage {
        intro: format!(
            "{title} would be resubmitted by a replay job, which can be paused and cancelled. What is \
             dead-lettered later is not part of it. {}",
            chosen(site, visitor, asked)
        ),
        sections: vec![Section {
            title: "Replay job",
            fields,
        }],
        button: "Start replay job",
        back: asked.at(LIST),
    };
    page.draw(Frame::new(visitor, format!("Resubmit {title}?")), refusal)
}

/// Which dead letters are meant, in a sentence.
fn chosen(site: &Site, visitor: &Visitor, asked: &Asked) -> String {
    let Ok(filter) = filter(site, visitor, asked) else {
        return String::new(); // it has been read before, or nothing would be asked
    };
    let chosen = filters(&filter, &site.broker.registry()).into_iter();
    let chosen: Vec<String> = chosen
        .map(|each| format!("{} {}", each.label.to_lowercase(), each.text))
        .collect();
    match chosen.is_empty() {
        true => "These are all dead letters that there are.".to_owned(),
        false => format!("These are those of: {}.", chosen.join(", ")),
    }
}

/// Asks before dead letters are taken away, with their exact number.
pub(crate) async fn ask_to_purge(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let filter = filter(&site, &visitor, &asked)?;
    let count = some(site.views.count_dead_letters(filter).await?)?;
    let count = print::plural(count, "dead letter", "dead letters");
    let question = Question::new(format!("Purge {count}?"))
        .would(format!(
            "{count} would be taken out of their queues for good."
        ))
        .would("Nobody can receive or resubmit them any more. Those that a receiver holds stay.")
        .would("Their events stay where they are, for reading, as long as retention keeps them.")
        .dangerously();
    Ok(question.draw(&visitor, "Purge", asked.at(&visitor.path), asked.at(LIST)))
}

/// Takes them away.
pub(crate) async fn purge(
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let mut query = DeadLetterQuery {
        filter: filter(&site, &visitor, &asked)?,
        before: None,
        limit: NUMBERS_MAX,
    };
    let started_at = site.broker.clock().now();
    let (mut removed, mut held) = (0, 0);
    let is_whole = loop {
        let purged = site
            .broker
            .purge_dead_letters(&visitor.caller, query.clone())
            .await?;
        removed += purged.removed;
        held += purged.held;
        match purged.next_before {
            None => break true,
            next if site.broker.clock().now().since(started_at) < PURGE_TIME => {
                query.before = next;
            }
            Some(_) => break false,
        }
    };
    visitor
        .leave(purged(removed, held, is_whole), &asked.at(LIST))
        .await
}

fn purged(removed: usize, held: usize, is_whole: bool) -> Flash {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let one = "dead letter has been purged";
    let mut message = print::plural(number(removed), one, "dead letters have been purged");
    if held > 0 {
        let stay = print::plural(number(held), "is held", "are held");
        message.push_str(&format!("; {stay} by receivers and stay"));
    }
    match is_whole {
        true => Flash::done(format!("{message}.")),
        false => Flash::failed(format!("{message}. There are more: purge again.")),
    }
}

/// What a download asks for besides the filter.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileForm {
    form: String,
}

/// Dead letters on their way into a file.
struct Writing {
    site: Arc<Site>,
    query: DeadLetterQuery,
    is_array: bool,
    is_first: bool,
    is_over: bool,
}

/// The records of all that are meant, as Azure writes them: one on a line, or as one array.
pub(crate) async fn download(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
    Query(FileForm { form }): Query<FileForm>,
) -> PageResult {
    let is_array = form == "json";
    let query = DeadLetterQuery {
        filter: filter(&site, &visitor, &asked)?,
        before: None,
        limit: FILE_BITE,
    };
    let (kind, name) = match is_array {
        true => ("application/json", "dead-letters.json"),
        false => (NDJSON, "dead-letters.ndjson"),
    };
    let writing = Writing {
        site,
        query,
        is_array,
        is_first: true,
        is_over: false,
    };
    Ok(streamed(name, kind, writing))
}

impl Batches for Writing {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let mut out = Vec::new();
        if self.is_first && self.is_array {
            out.push(b'[');
        }
        let views = &self.site.views;
        let page = views.dead_letters(self.query.clone()).await?;
        let registry = self.site.broker.registry();
        for row in page.rows {
            let Some(event) = views.event(row.event).await? else {
                continue; // it went meanwhile
            };
            let topic = TopicName::parse(&row.topic).ok();
            let Some((facts, topic)) = row.dead_letter_facts().zip(topic) else {
                continue;
            };
            let subscription = registry.subscription(row.subscription_id);
            let of = RecordOf {
                topic: &topic,
                topic_resource_id: &registry.resource_id(&topic),
                definition: subscription.map(|(_, each)| &each.definition),
            };
            if self.is_array && !self.is_first {
                out.push(b',');
            }
            out.extend(on_one_line(of.write(&event.stored, &facts)));
            out.push(b'\n');
            self.is_first = false;
        }
        self.query.before = page.next_before;
        self.is_over = page.next_before.is_none();
        if self.is_over && self.is_array {
            out.extend(b"]\n");
        }
        Ok(Some(out.into()))
    }
}
