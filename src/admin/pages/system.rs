//! The page of the system: what runs where, how it stands, and what its log says.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::admin::bare::draw_with;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::outbound_check::{TRIAL, Tried};
use crate::admin::pages::url_trial::{Typed, UrlForm};
use crate::admin::paths::subscription_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::facts::Facts;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Flash, Time, Tone};
use crate::base::TimeScale;
use crate::broker::Account;
use crate::broker::diagnostics::{Audited, Facts as Known, Integrity, IntegrityCheck, Report};
use crate::store::accounts::Role;
use crate::store::{CommitTimes, StoreError};

/// How long the button that has the database looked through waits for the end of it; a small one is
/// looked through by then.
const INTEGRITY_WAIT: Duration = Duration::from_secs(2);

/// Where the page is.
const PATH: &str = "/admin/system";

#[derive(Template)]
#[template(path = "pages/system.html")]
struct SystemPage {
    frame: Frame,
    process: Facts,
    storage: Facts,
    work: Facts,
    accounts: Accounts,
    integrity: IntegrityText,
    outbound_check: Option<Tried>,
    /// For whoever may try it.
    trial: Option<UrlForm>,
    places: Vec<(&'static str, String)>,
    log: Vec<String>,
    /// Whether the visitor may have the support bundle.
    may_bundle: bool,
    licence: &'static str,
    components: Vec<String>,
    component_licences: String,
    recipe: Recipe,
}

/// Whether every delivery is accounted for.
struct Accounts {
    badge: Badge,
    text: String,
    rows: Vec<AccountRow>,
}

/// An account that something is to be said about.
struct AccountRow {
    name: String,
    href: String,
    text: String,
}

/// What the last look through the database has found.
struct IntegrityText {
    badge: Badge,
    at: Option<Time>,
    text: String,
    faults: Vec<String>,
    is_running: bool,
}

/// What stands on the page besides how things are.
#[derive(Default)]
struct Asked {
    /// What a count of the rows has said, if they were counted.
    counted: Option<Accounts>,
    typed: Typed,
}

/// The page.
pub(crate) async fn show(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    draw_page(&site, &visitor, Asked::default()).await
}

/// The page with a count of the rows themselves.
pub(crate) async fn count(
    State(site): State<Arc<Site>>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let counted = Accounts::counted(&site.diagnostics.recount(&visitor.caller).await?);
    let asked = Asked {
        counted: Some(counted),
        ..Asked::default()
    };
    draw_page(&site, &visitor, asked).await
}

/// The page with what became of a request to a URL.
pub(crate) async fn try_way_out(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let (typed, url) = Typed::read(form);
    if let Some(url) = url {
        site.diagnostics.try_way_out(&visitor.caller, &url).await?;
    }
    let asked = Asked {
        typed,
        ..Asked::default()
    };
    draw_page(&site, &visitor, asked).await
}

/// The support bundle as a file.
pub(crate) async fn support_bundle(
    State(site): State<Arc<Site>>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let bundle = site.diagnostics.bundle(&visitor.caller).await?;
    let name = "attachment; filename=\"everpost-support.json\"";
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CONTENT_DISPOSITION, name),
    ];
    Ok((headers, format!("{bundle:#}\n")).into_response())
}

/// Has the database looked through.
pub(crate) async fn check(
    State(site): State<Arc<Site>>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let checking = site.diagnostics.check_integrity(&visitor.caller);
    let flash = match tokio::time::timeout(INTEGRITY_WAIT, checking).await {
        Ok(checked) => {
            checked?;
            Flash::done("The integrity check has ended.")
        }
        Err(_) => Flash::done("The integrity check is running; load this page again."),
    };
    visitor.flash(flash).await?;
    Ok(Redirect::to(&format!("{PATH}#integrity")).into_response())
}

async fn draw_page(site: &Site, visitor: &Visitor, asked: Asked) -> PageResult {
    let (facts, report) = (site.diagnostics.facts(), site.diagnostics.report().await?);
    let status = asked.typed.status();
    let page = SystemPage {
        frame: Frame::new(visitor, "System"),
        process: process(facts, &report),
        storage: storage(facts, &report),
        work: work(&report),
        accounts: match asked.counted {
            Some(counted) => counted,
            None => Accounts::balanced(&report),
        },
        integrity: IntegrityText::new(&report.integrity),
        outbound_check: report.outbound_check.as_ref().map(Tried::new),
        trial: TRIAL.form(visitor, asked.typed),
        places: facts.places.clone(),
        log: site.diagnostics.log(),
        may_bundle: visitor.role >= Role::Admin,
        licence: facts.licence,
        components: facts.components.clone(),
        component_licences: facts.component_licences.join(", "),
        recipe: Recipe::everpost_alone("everpost doctor")
            .everpost("everpost storage")
            .everpost("everpost support-bundle"),
    };
    Ok(draw_with(status, &page))
}

fn process(facts: &Known, report: &Report) -> Facts {
    let runs_for = Duration::from_secs(report.at.since(facts.started_at).as_secs());
    let process = Facts::default()
        .text("Version", format!("Everpost {}", facts.version))
        .moment("Started", facts.started_at)
        .text("Uptime", print::span(runs_for))
        .moment("Server time", report.at)
        .text("Platform", &facts.platform);
    match report.time_scale {
        TimeScale::REAL => process,
        scale => {
            let factor = scale.factor();
            let text = format!("{factor} times faster than real, for tests and demonstrations");
            process.text("Waits pass", text)
        }
    }
}

fn storage(facts: &Known, report: &Report) -> Facts {
    let sizes = &report.storage.sizes;
    let part = |bytes: u64| {
        let pages = print::plural(bytes / sizes.page.max(1), "page", "pages");
        format!("{}, {pages}", print::bytes(bytes))
    };
    let disk = match (sizes.disk_free, report.disk_is_low) {
        (None, _) => "not told".to_owned(),
        (Some(free), false) => print::bytes(free),
        (Some(free), true) => format!("{}: publishers must wait", print::bytes(free)),
    };
    let storage = Facts::default()
        .text("Database file", print::bytes(sizes.file))
        .text("Used", part(sizes.used()))
        .text("Free", part(sizes.free))
        .text(
            "Write-ahead log",
            format!(
                "{}, which are in use and go into the file by themselves",
                print::bytes(sizes.log)
            ),
        );
    let storage = match report.engine_status.checkpointed_at {
        Some(at) => storage.moment("Log last written to the file", at),
        None => storage,
    };
    storage
        .text(
            "Commits to the disk",
            commits(&report.engine_status.commit_times),
        )
        .text("Free on disk", disk)
        .text("Schema", report.schema.version.to_string())
        .text("SQLite", facts.sqlite)
}

fn commits(times: &CommitTimes) -> String {
    match times.commits {
        0 => "none since the start".to_owned(),
        commits => format!(
            "{} each (the median), {} at the longest, of the last {}",
            print::lap(times.median),
            print::lap(times.longest),
            print::count(commits as u64),
        ),
    }
}

fn work(report: &Report) -> Facts {
    let (engine_status, totals) = (&report.engine_status, &report.totals);
    let number = |count: usize| print::count(count as u64);
    let of = |count: usize, most: usize| format!("{} of at most {}", number(count), number(most));
    let store = match engine_status.readers {
        0 => "none of its own".to_owned(),
        readers => format!("1 that writes, {readers} that read"),
    };
    let busy = match report.busy {
        Some(share) => format!(", busy {:.0} % of the last seconds", share * 100.0),
        None => String::new(),
    };
    let runtime = format!(
        "{}, with {} tasks{busy}",
        report.workers,
        number(report.tasks)
    );
    let waiting = of(engine_status.changes_waiting, engine_status.changes_max);
    Facts::default()
        .text("Pending", print::count(totals.pending))
        .text("Dead letters", print::count(totals.dead_letters))
        .text(
            "Requests in flight",
            of(report.in_flight, report.in_flight_max),
        )
        .text("Subscriptions on probation", number(report.on_probation))
        .text(
            "Connections of clients",
            of(report.connections, report.connections_max),
        )
        .text("Write queue", waiting)
        .text("Threads of the store", store)
        .text("Threads of the runtime", runtime)
}

impl Accounts {
    /// By the counters alone.
    fn balanced(report: &Report) -> Self {
        let rows: Vec<AccountRow> = report
            .unbalanced()
            .map(|account| AccountRow::new(account, unbalanced(account)))
            .collect();
        Self::of(rows, report.accounts.len(), "by the counters")
    }

    /// By a count of the rows.
    fn counted(audited: &[Audited]) -> Self {
        let rows: Vec<AccountRow> = audited.iter().filter_map(AccountRow::counted).collect();
        Self::of(
            rows,
            audited.len(),
            "by the counters and a count of what is stored",
        )
    }

    fn of(rows: Vec<AccountRow>, all: usize, how: &str) -> Self {
        let accounts = print::plural(all as u64, "event subscription", "event subscriptions");
        let badge = match rows.len() {
            0 => Badge::new(Tone::Good, "Consistent"),
            _ => Badge::new(Tone::Bad, "Inconsistent"),
        };
        Self {
            badge,
            text: format!(
                "Of every event subscription, matched = pending + delivered + dead-lettered + dropped. \
                 Looked at: {accounts}, {how}."
            ),
            rows,
        }
    }
}

impl AccountRow {
    fn new(account: &Account, text: String) -> Self {
        let (topic, name) = (account.topic.as_str(), account.subscription.as_str());
        Self {
            name: format!("{topic}/{name}"),
            href: subscription_page(topic, name),
            text,
        }
    }

    /// What there is to say after a count; nothing where all agrees.
    fn counted(audited: &Audited) -> Option<Self> {
        let account = &audited.account;
        let text = match &audited.verified {
            _ if !account.totals.balance() => unbalanced(account),
            None => "There was no time to count it; `everpost doctor` takes as long as it needs."
                .to_owned(),
            Some(verified) if verified.agrees => return None,
            Some(verified) => format!(
                "The counters say {} pending and {} dead letters, a count {} and {}.",
                account.totals.pending,
                account.totals.dead_letters,
                verified.recount.pending,
                verified.recount.dead_letters
            ),
        };
        Some(Self::new(account, text))
    }
}

fn unbalanced(account: &Account) -> String {
    let totals = &account.totals;
    format!(
        "{} matched, but {} pending, {} delivered, {} dead-lettered and {} dropped.",
        totals.matched, totals.pending, totals.delivered, totals.dead_lettered, totals.dropped
    )
}

impl IntegrityText {
    fn new(check: &IntegrityCheck) -> Self {
        let mut text = Self {
            badge: Badge::new(Tone::Rest, "Not checked since the start"),
            at: None,
            text: String::new(),
            faults: Vec::new(),
            is_running: false,
        };
        match check {
            IntegrityCheck::Never => {}
            IntegrityCheck::Running { since } => {
                text.badge = Badge::new(Tone::Warn, "Being checked");
                text.at = Some(Time::at(*since));
                text.is_running = true;
            }
            IntegrityCheck::Done { at, took, found } => {
                text.at = Some(Time::at(*at));
                text.show(found, *took);
            }
        }
        text
    }

    fn show(&mut self, found: &Result<Integrity, StoreError>, took: Duration) {
        let took = print::span(took);
        match found {
            Err(error) => {
                self.badge = Badge::new(Tone::Bad, "Could not be checked");
                self.text = format!("After {took}: {error}.");
            }
            Ok(found) => {
                let (checked, tables) = (found.checked, found.tables);
                self.text = format!("{checked} of {tables} tables in {took}.");
                self.faults.clone_from(&found.faults);
                self.badge = match (found.faults.is_empty(), found.is_complete()) {
                    (false, _) => Badge::new(Tone::Bad, "Damaged: restore a back-up"),
                    (true, true) => Badge::new(Tone::Good, "Sound"),
                    (true, false) => Badge::new(Tone::Warn, "Sound as far as was checked"),
                };
            }
        }
    }
}
