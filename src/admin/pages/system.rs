//! The page of the system: what runs where, how it stands, and what its log says.

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::lists::download::file;
use crate::admin::page::*;
use crate::admin::pages::log_lines::{LogForm, LogLine};
use crate::admin::pages::outbound_check::Tried;
use crate::admin::pages::url_trial::{self, UrlForm};
use crate::base::TimeScale;
use crate::broker::diagnostics::{Audited, Facts, IntegrityCheck, Report};
use crate::broker::{Account, Verified};

/// How long the button that has the database looked through waits for the end of it; a small one is
/// looked through by then.
const INTEGRITY_WAIT: Duration = Duration::from_secs(2);

const TRY_WAY_OUT: &str = "/admin/system/try-way-out";

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
    /// For the URL to test.
    form: Filled<UrlForm>,
    log: Vec<LogLine<'a>>,
    log_form: LogForm,
    recipe: Recipe,
}

/// The page.
pub(crate) async fn show(Query(log): Query<LogForm>, call: Call) -> PageResult {
    draw_page(&call, None, UrlForm::empty(), log).await
}

/// The page with a count of the rows themselves.
pub(crate) async fn count(call: Call) -> PageResult {
    let counted = call.diagnostics.recount(call.by()).await?;
    draw_page(&call, Some(counted), UrlForm::empty(), LogForm::default()).await
}

/// The page with what became of a request to a URL.
pub(crate) async fn try_way_out(call: Call) -> PageResult {
    let (form, url) = url_trial::read(&call.form);
    if let Some(url) = url {
        call.diagnostics.try_way_out(call.by(), &url).await?;
    }
    draw_page(&call, None, form, LogForm::default()).await
}

/// The support bundle as a file.
pub(crate) async fn support_bundle(call: Call) -> PageResult {
    let bundle = call.diagnostics.bundle(call.by()).await?;
    let bundle = format!("{bundle:#}\n");
    Ok(file("everpost-support.json", "application/json", bundle))
}

/// Has the database looked through.
pub(crate) async fn check(call: Call) -> PageResult {
    let checking = call.diagnostics.check_integrity(call.by()).await?;
    let ended = tokio::time::timeout(INTEGRITY_WAIT, checking).await;
    let flash = Flash::done(match ended {
        Ok(_) => "The integrity check has ended.",
        Err(_) => "The integrity check is running; load this page again.",
    });
    call.visitor.leave(flash, "/admin/system#integrity").await
}

async fn draw_page(
    call: &Call,
    counted: Option<Vec<Audited>>,
    form: Filled<UrlForm>,
    log_form: LogForm,
) -> PageResult {
    let (report, lines) = (call.diagnostics.report().await?, call.diagnostics.log());
    let page = SystemPage {
        frame: Frame::new(&call.visitor, "System"),
        facts: call.diagnostics.facts(),
        report: &report,
        bound: call.broker.options().retention.bytes_max,
        counted,
        form,
        log: log_form.chosen(&lines),
        log_form,
        recipe: Recipe::everpost_alone("everpost doctor")
            .everpost("everpost storage")
            .everpost("everpost support-bundle"),
    };
    Ok(draw_with(page.form.status(), &page))
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
