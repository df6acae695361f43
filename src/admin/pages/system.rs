//! The page of the system: what runs where, how it stands, and what its log says.

use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::admin::bare::draw_with;
use crate::admin::page::*;
use crate::admin::pages::log_lines::{LogForm, LogLine};
use crate::admin::pages::outbound_check::{self, TRIAL, Tried};
use crate::admin::pages::url_trial::{Typed, UrlForm};
use crate::admin::paths::subscription_page;
use crate::admin::widgets::facts::Facts;
use crate::admin::widgets::figure::Figure;
use crate::base::TimeScale;
use crate::broker::Account;
use crate::broker::diagnostics::{
    Audited, Facts as Known, Integrity, IntegrityCheck, OutboundCheck, Report,
};
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
    version: &'static str,
    uptime: Duration,
    /// Checks that found something.
    failed: usize,
    figures: Vec<Figure>,
    disk: Check,
    connectivity: Check,
    clock: Check,
    process: Facts,
    storage: Facts,
    work: Facts,
    accounts: Accounts,
    integrity: IntegrityText,
    outbound_check: Option<Tried>,
    /// For whoever may try it.
    trial: Option<UrlForm>,
    /// Whether what was typed there is no URL.
    is_typo: bool,
    places: Vec<(&'static str, String)>,
    log: Vec<LogLine>,
    log_choices: Vec<(String, &'static str, bool)>,
    /// Whether the visitor may have the support bundle.
    may_bundle: bool,
    licence: &'static str,
    components: Vec<String>,
    component_licences: String,
    recipe: Recipe,
}

/// What was found, by a look at what is known.
struct Check {
    badge: Badge,
    text: String,
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
    log: LogForm,
}

/// The page.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(log): Query<LogForm>,
) -> PageResult {
    let asked = Asked {
        log,
        ..Asked::default()
    };
    draw_page(&site, &visitor, asked).await
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
    let checking = site.diagnostics.check_integrity(&visitor.caller).await?;
    let flash = match tokio::time::timeout(INTEGRITY_WAIT, checking).await {
        Ok(_) => Flash::done("The integrity check has ended."),
        Err(_) => Flash::done("The integrity check is running; load this page again."),
    };
    visitor.leave(flash, &format!("{PATH}#integrity")).await
}

async fn draw_page(site: &Site, visitor: &Visitor, asked: Asked) -> PageResult {
    let (facts, report) = (site.diagnostics.facts(), site.diagnostics.report().await?);
    let status = asked.typed.status();
    let accounts = match asked.counted {
        Some(counted) => counted,
        None => Accounts::balanced(&report),
    };
    let integrity = IntegrityText::new(&report.integrity);
    let bound = site.broker.options().retention.bytes_max;
    let disk = Check::of_disk(&report, bound);
    let (connectivity, clock) = Check::of_connection(report.outbound_check.as_ref());
    let checks = [
        &accounts.badge,
        &integrity.badge,
        &disk.badge,
        &connectivity.badge,
        &clock.badge,
    ];
    let page = SystemPage {
        frame: Frame::new(visitor, "System"),
        version: facts.version,
        uptime: Duration::from_secs(report.at.since(facts.started_at).as_secs()),
        failed: checks
            .iter()
            .filter(|badge| badge.tone == Tone::Bad)
            .count(),
        figures: figures(&report, bound),
        disk,
        connectivity,
        clock,
        process: process(facts, &report),
        storage: storage(facts, &report),
        work: work(&report),
        accounts,
        integrity,
        outbound_check: report.outbound_check.as_ref().map(Tried::new),
        is_typo: status != StatusCode::OK,
        trial: TRIAL.form(visitor, asked.typed),
        places: facts.places.clone(),
        log: asked.log.chosen(&site.diagnostics.log()),
        log_choices: asked.log.choices(PATH),
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
    let process = Facts::default()
        .text("Version", facts.version)
        .moment("Started", facts.started_at)
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
    let storage = Facts::default()
        .text("File size", print::bytes(sizes.file))
        .text("Used", part(sizes.used()))
        .text("Free inside", part(sizes.free))
        .text("Write-ahead log", print::bytes(sizes.log));
    let storage = match report.engine_status.checkpointed_at {
        Some(at) => storage.moment("Last checkpoint", at),
        None => storage,
    };
    storage
        .text("Schema", report.schema.version.to_string())
        .text("SQLite", facts.sqlite)
}

/// How much of everything that is bounded is in use.
fn figures(report: &Report, bound: Option<u64>) -> Vec<Figure> {
    let number = |count: usize| print::count(count as u64);
    let of = |most: usize| format!("of {}", number(most));
    let used = report.storage.sizes.used();
    let busy = report.busy;
    let busy = busy.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    let workers = print::plural(report.workers as u64, "thread", "threads");
    let storage = Figure::new("storage", "Storage used", print::bytes(used));
    vec![
        storage.sub(bound.map_or_else(
            || "no limit".to_owned(),
            |most| format!("{} of {}", print::share(used, most), print::bytes(most)),
        )),
        commits(&report.engine_status.commit_times),
        Figure::new("in-flight", "Requests in flight", number(report.in_flight))
            .sub(of(report.in_flight_max)),
        Figure::new("connections", "Connections", number(report.connections))
            .sub(of(report.connections_max)),
        Figure::new("busy", "CPU", busy).sub(format!("{workers}, {} tasks", number(report.tasks))),
    ]
}

fn commits(times: &CommitTimes) -> Figure {
    let figure = |value| Figure::new("commits", "Disk commit p50", value);
    match times.commits {
        0 => figure("–".to_owned()).sub("none since the start"),
        commits => figure(print::lap(times.median)).sub(format!(
            "{} at most, last {}",
            print::lap(times.longest),
            print::count(commits as u64)
        )),
    }
}

impl Check {
    /// Whether there is room to write.
    fn of_disk(report: &Report, bound: Option<u64>) -> Self {
        let free = report.storage.sizes.disk_free.map(print::bytes);
        let free = free.map_or_else(
            || "Not told".to_owned(),
            |free| format!("{free} free on disk"),
        );
        let left = bound.map(|most| most.saturating_sub(report.storage.sizes.used()));
        let left = left.map_or_else(String::new, |left| {
            format!(", {} to the limit", print::bytes(left))
        });
        let (tone, word, then) = match (report.disk_is_low, report.storage.pressure) {
            (true, _) => (Tone::Bad, "Full", ": publishers must wait"),
            (false, Some(_)) => (Tone::Warn, "At the limit", ": delivered events go early"),
            (false, None) => (Tone::Good, "Enough space", ""),
        };
        Self {
            badge: Badge::new(tone, word),
            text: format!("{free}{left}{then}."),
        }
    }

    /// What the last connection said of the network and of the clock.
    fn of_connection(tried: Option<&OutboundCheck>) -> (Self, Self) {
        let (connectivity, clock) = match tried {
            None => (
                Badge::new(Tone::Rest, "Not tested since the start."),
                Badge::new(Tone::Rest, "Not compared since the start."),
            ),
            Some(tried) => (outbound_check::reached(tried), outbound_check::clock(tried)),
        };
        let check = |badge: Badge| Self {
            text: badge.word.clone(),
            badge,
        };
        (check(connectivity), check(clock))
    }
}

fn work(report: &Report) -> Facts {
    let (engine_status, totals) = (&report.engine_status, &report.totals);
    let number = |count: usize| print::count(count as u64);
    let of = |count: usize, most: usize| format!("{} of at most {}", number(count), number(most));
    let store = match engine_status.readers {
        0 => "none of its own".to_owned(),
        readers => format!("1 writes, {readers} read"),
    };
    let waiting = of(engine_status.changes_waiting, engine_status.changes_max);
    Facts::default()
        .text("Pending", print::count(totals.pending))
        .text("Dead letters", print::count(totals.dead_letters))
        .text(
            "On probation",
            print::plural(report.on_probation as u64, "endpoint", "endpoints"),
        )
        .text("Write queue", waiting)
        .text("Database threads", store)
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
                "matched = pending + delivered + dead-lettered + dropped, for {accounts}, {how}."
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
            IntegrityCheck::Running { since, found } => {
                text.badge = Badge::new(Tone::Warn, "Being checked");
                text.at = Some(Time::at(*since));
                text.text = format!("{} of {} tables so far.", found.checked, found.tables);
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
                    (false, _) => Badge::new(
                        Tone::Bad,
                        "Damaged: restore a back-up, or run everpost salvage",
                    ),
                    (true, true) => Badge::new(Tone::Good, "Sound"),
                    (true, false) => Badge::new(Tone::Warn, "Sound as far as was checked"),
                };
            }
        }
    }
}
