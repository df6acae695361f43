//! The page of the system: what runs where, how it stands, and what its log says.

use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};

use crate::admin::bare::draw_with;
use crate::admin::page::*;
use crate::admin::pages::log_lines::{LogForm, LogLine};
use crate::admin::pages::outbound_check::{TRIAL, Tried};
use crate::admin::pages::url_trial::{Typed, UrlForm};
use crate::base::TimeScale;
use crate::broker::diagnostics::{Audited, Facts, IntegrityCheck, Report};
use crate::broker::{Account, Verified};

/// How long the button that has the database looked through waits for the end of it; a small one is
/// looked through by then.
const INTEGRITY_WAIT: Duration = Duration::from_secs(2);

/// Where the page is.
const PATH: &str = "/admin/system";

#[derive(Template)]
#[template(path = "pages/system.html")]
struct SystemPage<'a> {
    frame: Frame,
    facts: &'a Facts,
    report: &'a Report,
    /// The limit of what is stored.
    bound: Option<u64>,
    /// What a count of the rows has said, if they were counted.
    counted: Option<Vec<Audited>>,
    /// For whoever may try it.
    trial: Option<UrlForm>,
    /// Whether what was typed there is no URL.
    is_typo: bool,
    log: Vec<LogLine<'a>>,
    log_form: LogForm,
    recipe: Recipe,
}

/// What stands on the page besides how things are.
#[derive(Default)]
struct Asked {
    counted: Option<Vec<Audited>>,
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
    let asked = Asked {
        counted: Some(site.diagnostics.recount(&visitor.caller).await?),
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
    let ended = tokio::time::timeout(INTEGRITY_WAIT, checking).await;
    let flash = Flash::done(match ended {
        Ok(_) => "The integrity check has ended.",
        Err(_) => "The integrity check is running; load this page again.",
    });
    visitor.leave(flash, &format!("{PATH}#integrity")).await
}

async fn draw_page(site: &Site, visitor: &Visitor, asked: Asked) -> PageResult {
    let (report, lines) = (site.diagnostics.report().await?, site.diagnostics.log());
    let status = asked.typed.status();
    let page = SystemPage {
        frame: Frame::new(visitor, "System"),
        facts: site.diagnostics.facts(),
        report: &report,
        bound: site.broker.options().retention.bytes_max,
        counted: asked.counted,
        is_typo: status != StatusCode::OK,
        trial: TRIAL.form(visitor, asked.typed),
        log: asked.log.chosen(&lines),
        log_form: asked.log,
        recipe: Recipe::everpost_alone("everpost doctor")
            .everpost("everpost storage")
            .everpost("everpost support-bundle"),
    };
    Ok(draw_with(status, &page))
}

impl SystemPage<'_> {
    fn uptime(&self) -> Duration {
        let up = self.report.at.since(self.facts.started_at);
        Duration::from_secs(up.as_secs())
    }

    /// Of the storage, the delivery counts, the database, the clock and the way out.
    fn checks(&self) -> [Badge; 5] {
        let Report {
            outbound_check,
            storage,
            disk_is_low,
            ..
        } = self.report;
        let disk = match storage.pressure {
            _ if *disk_is_low => Badge::new(Tone::Bad, "Full"),
            Some(_) => Badge::new(Tone::Warn, "At the limit"),
            None => Badge::new(Tone::Good, "Enough space"),
        };
        let counts = match self.uneven().is_empty() {
            true => Badge::new(Tone::Good, "Consistent"),
            false => Badge::new(Tone::Bad, "Inconsistent"),
        };
        let tried = outbound_check.as_ref().map(Tried);
        let (clock, connectivity) = match tried {
            Some(tried) => (tried.clock(), tried.reached()),
            None => (
                Badge::new(Tone::Rest, "Not compared since the start."),
                Badge::new(Tone::Rest, "Not tested since the start."),
            ),
        };
        [disk, counts, self.integrity(), clock, connectivity]
    }

    fn failed(&self) -> usize {
        let checks = self.checks().into_iter();
        checks.filter(|badge| badge.tone == Tone::Bad).count()
    }

    /// The delivery counts that something is to be said about. Without a count of the rows there is only what the
    /// counters say of each other.
    fn uneven(&self) -> Vec<(&Account, Option<&Verified>)> {
        let Some(counted) = &self.counted else {
            return self.report.unbalanced().map(|it| (it, None)).collect();
        };
        let agrees = |it: &Audited| it.verified.as_ref().is_some_and(|found| found.agrees);
        let uneven = counted
            .iter()
            .filter(|it| !it.account.totals.balance() || !agrees(it));
        uneven
            .map(|it| (&it.account, it.verified.as_ref()))
            .collect()
    }

    fn integrity(&self) -> Badge {
        let (tone, word) = match &self.report.integrity {
            IntegrityCheck::Never => (Tone::Rest, "Not checked since the start"),
            IntegrityCheck::Running { .. } => (Tone::Warn, "Being checked"),
            IntegrityCheck::Done { found, .. } => match found {
                Err(_) => (Tone::Bad, "Could not be checked"),
                Ok(it) if !it.faults.is_empty() => (
                    Tone::Bad,
                    "Damaged: restore a back-up, or run everpost salvage",
                ),
                Ok(it) if it.is_complete() => (Tone::Good, "Sound"),
                Ok(_) => (Tone::Warn, "Sound as far as was checked"),
            },
        };
        Badge::new(tone, word)
    }

    /// How busy the threads are.
    fn busy(&self) -> String {
        let busy = self.report.busy;
        busy.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
    }
}
