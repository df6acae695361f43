//! The system page: components, their state, and the log.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Query;
use axum::response::{IntoResponse, Redirect};
use serde::{Deserialize, Serialize};

use crate::admin::action::{Call, Names, name_of};
use crate::admin::bare::draw_with;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::sheet::{Head, Sheet, SheetFields};
use crate::admin::lists::download::file;
use crate::admin::lists::filter::given;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::page;
use crate::admin::pages::url_trial::{self, UrlForm, UrlTrialResult};
use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Flash, Time, Tone, filters, print};
use crate::base::{TimeScale, Timestamp, WallClock};
use crate::broker::diagnostics::{Audited, IntegrityCheck, Report};
use crate::broker::{BackupRejected, BackupRequest};
use crate::model::backup::{BackupPlace, BackupStatus};

/// The time that the button of the integrity check waits for the result, which is enough for a small database.
const INTEGRITY_WAIT: Duration = Duration::from_secs(2);

/// The number of backups on the page; `GET /everpost/backups` returns all.
const BACKUPS_SHOWN: usize = 7;

const TEST_CONNECTION: &str = "/admin/system/test-connection";

pub(crate) async fn show(Query(asked): Query<Names>, call: Call) -> PageResult {
    draw_page(&call, None, UrlForm::empty(), name_of(&asked, "log")).await
}

/// Shows the page with a fresh count of the rows.
pub(crate) async fn count(call: Call) -> PageResult {
    let counted = call.diagnostics.recount(call.by()).await?;
    draw_page(&call, Some(counted), UrlForm::empty(), "").await
}

/// Shows the page with the result of a test request to a URL.
pub(crate) async fn test_connection(call: Call) -> PageResult {
    let (form, url) = url_trial::read(&call.form);
    if let Some(url) = url {
        call.diagnostics.test_connection(call.by(), &url).await?;
    }
    draw_page(&call, None, form, "").await
}

pub(crate) async fn support_bundle(call: Call) -> PageResult {
    let bundle = call.diagnostics.bundle(call.by()).await?;
    let bundle = format!("{bundle:#}\n");
    Ok(file("everpost-support.json", "application/json", bundle))
}

/// Starts an integrity check of the database.
pub(crate) async fn check(call: Call) -> PageResult {
    let checking = call.diagnostics.check_integrity(call.by()).await?;
    let ended = tokio::time::timeout(INTEGRITY_WAIT, checking).await;
    let page = "/admin/system#integrity";
    if ended.is_ok() {
        return Ok(Redirect::to(page).into_response()); // which says what came of it
    }
    let flash = Flash::done("The integrity check is running; load this page again.");
    call.visitor.leave(flash, page).await
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BackupForm {
    /// Empty for the directory of the schedule.
    directory: String,
}

impl Sheet<()> for BackupForm {
    const HEAD: Head = (SheetFields::Backup, "Back up now", "/admin/system");

    /// Returns the backup directory of the schedule.
    fn remark(call: &Call) -> String {
        let schedule = call.broker.backups().schedule;
        schedule.map_or_else(String::new, |plan| plan.directory)
    }

    async fn save(&self, call: &Call) -> PageResult {
        let place = given(&self.directory).map(|text| {
            BackupPlace::parse(&text)
                .map_err(|problem| BackupRejected::Place(text.clone(), problem.to_owned()))
        });
        let request = BackupRequest {
            place: place.transpose()?,
            ..BackupRequest::default()
        };
        call.broker.back_up(call.by(), &request).await?;
        let flash = Flash::done("The backup has started.");
        call.visitor.leave(flash, "/admin/system#backups").await
    }
}

/// Draws the page with the result of a row count, if there was one, and with the selected log lines.
async fn draw_page(
    call: &Call,
    counted: Option<Vec<Audited>>,
    form: FilledForm<UrlForm>,
    log: &str,
) -> PageResult {
    let report = call.diagnostics.report().await?;
    let was_counted = counted.is_some();
    let uneven = uneven(&report, counted);
    let recipe = Recipe::everpost_alone("everpost doctor").everpost("everpost storage");
    let page = page!("pages/system.html", &call.visitor, "System", {
        checks: [Badge; 5] = checks(&report, uneven.is_empty()),
        report: Report = report,
        backups: BackupStatus = call.broker.backups(),
        was_counted: bool = was_counted,
        uneven: Vec<Audited> = uneven,
        // For the URL to test.
        form: FilledForm<UrlForm> = form,
        lines: Vec<String> = call.diagnostics.log(),
        log: String = log.to_owned(),
        recipe: Recipe = recipe.everpost("everpost support-bundle"),
        site: Arc<Site> = Arc::clone(&call.site),
    });
    Ok(draw_with(page.form.status(), &page))
}

/// Returns the delivery counts to report. Without a row count, only counters that do not balance are reported.
fn uneven(report: &Report, counted: Option<Vec<Audited>>) -> Vec<Audited> {
    let Some(mut counted) = counted else {
        let unbalanced = report.unbalanced().cloned();
        let uncounted = unbalanced.map(|account| Audited {
            account,
            verified: None,
        });
        return uncounted.collect();
    };
    counted.retain(|Audited { account, verified }| {
        !account.totals.balance() || verified.is_none_or(|found| !found.agrees)
    });
    counted
}

/// Returns the results for storage, delivery counts, database, clock and outbound connectivity.
fn checks(report: &Report, counts_are_even: bool) -> [Badge; 5] {
    let disk = match report.storage.pressure {
        _ if report.disk_is_low => Badge::new(Tone::Bad, "Full"),
        Some(_) => Badge::new(Tone::Warn, "At the limit"),
        None => Badge::new(Tone::Good, "Enough space"),
    };
    let counts = if counts_are_even {
        Badge::new(Tone::Good, "Consistent")
    } else {
        Badge::new(Tone::Bad, "Inconsistent")
    };
    let compare = "Not compared yet. Test a connection to compare.";
    let untried = [compare, "Not tested yet."].map(|word| Badge::new(Tone::Rest, word));
    let tried = report.outbound_check.as_ref().map(UrlTrialResult);
    let [clock, reached] = tried.map_or(untried, |it| [it.clock(), it.reached()]);
    let clock = own_clock(report.wall_clock).unwrap_or(clock);
    [
        disk,
        counts,
        integrity(&report.integrity, &report.found_at_start),
        clock,
        reached,
    ]
}

/// Returns a badge for the machine's clock if the server does not follow it.
fn own_clock(wall_clock: WallClock) -> Option<Badge> {
    let said = match wall_clock {
        WallClock::Agrees => return None,
        WallClock::Ahead(by) => format!(
            "The machine's clock has jumped ahead by {}. It is followed if it stays there for some minutes.",
            print::span(by)
        ),
        WallClock::Behind(by) => format!(
            "The machine's clock was set back by {}. Time goes on from where it was until the clock has caught up.",
            print::span(by)
        ),
    };
    Some(Badge::new(Tone::Bad, said))
}

#[rustfmt::skip] // a table
fn integrity(check: &IntegrityCheck, found_at_start: &[String]) -> Badge {
    match check {
        IntegrityCheck::Never if !found_at_start.is_empty() => Badge::new(Tone::Bad, "Damage was found at the start"),
        IntegrityCheck::Never => Badge::new(Tone::Rest, "Not checked since the start"),
        IntegrityCheck::Running { .. } => Badge::new(Tone::Warn, "Being checked"),
        IntegrityCheck::Done { found: Err(_), .. } => Badge::new(Tone::Bad, "Could not be checked"),
        IntegrityCheck::Done { found: Ok(it), .. } if !it.faults.is_empty() =>
            Badge::new(Tone::Bad, "Damaged: restore a backup, or run everpost salvage"),
        IntegrityCheck::Done { found: Ok(it), .. } if !found_at_start.is_empty() || !it.repaired.is_empty() =>
            Badge::new(Tone::Warn, "Damage was found and mended as far as it could be"),
        IntegrityCheck::Done { found: Ok(it), .. } if it.is_complete() => Badge::new(Tone::Good, "Passed"),
        IntegrityCheck::Done { found: Ok(_), .. } => Badge::new(Tone::Warn, "Passed as far as it came"),
    }
}

fn count_of(checks: &[Badge], tone: Tone) -> usize {
    checks.iter().filter(|badge| badge.tone == tone).count()
}

/// A line of the log. A line that does not start in the format of the log has only text.
struct LogLine<'a> {
    at: Option<Timestamp>,
    level: &'a str,
    tone: Tone,
    text: &'a str,
}

impl<'a> LogLine<'a> {
    /// `2026-11-23T07:50:12.724Z  WARN something happened`.
    fn read(line: &'a str) -> Option<Self> {
        let (at, rest) = line.split_once(' ')?;
        let (level, text) = rest.trim_start().split_once(' ')?;
        Some(Self {
            at: Some(at.parse().ok()?),
            level,
            tone: match level {
                "ERROR" => Tone::Bad,
                "WARN" => Tone::Warn,
                "INFO" | "DEBUG" | "TRACE" => Tone::Good,
                _ => return None,
            },
            text: text.trim_start(),
        })
    }

    fn unread(text: &'a str) -> Self {
        let (at, level, tone) = (None, "", Tone::Good);
        Self {
            at,
            level,
            tone,
            text,
        }
    }
}

/// Returns the selected lines, newest first: `warnings`, `errors`, or all if empty.
fn log_lines<'a>(lines: &'a [String], asked: &str) -> Vec<LogLine<'a>> {
    let least = match asked {
        "errors" => Tone::Bad,
        "warnings" => Tone::Warn,
        _ => Tone::Good,
    };
    let newest_first = lines
        .iter()
        .rev()
        .map(|line| LogLine::read(line).unwrap_or_else(|| LogLine::unread(line)));
    newest_first.filter(|line| line.tone >= least).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_followed_is_shown() {
        let told = |clock| own_clock(clock).map(|badge| badge.word).unwrap_or_default();
        assert_eq!(told(WallClock::Agrees), "");
        let day = Duration::from_secs(86_400);
        let ahead = told(WallClock::Ahead(day));
        assert!(ahead.contains("jumped ahead by 1 d"), "{ahead}");
        let behind = told(WallClock::Behind(day));
        assert!(behind.contains("set back by 1 d"), "{behind}");
    }

    #[test]
    fn damage_that_was_found_at_the_start_is_shown_until_it_is_gone() {
        let found = ["a bad frame in the log".to_owned()];
        let never = IntegrityCheck::Never;
        for (found_at_start, expected) in [
            (&found[..], "Damage was found at the start"),
            (&[], "Not checked since the start"),
        ] {
            let badge = integrity(&never, found_at_start);
            assert_eq!(badge.word, expected);
        }
    }

    #[test]
    fn lines_are_taken_apart_and_chosen_by_their_level() {
        let lines = [
            "2026-11-23T07:50:12.724123Z  INFO listening url=\"http://x\"",
            "2026-11-23T07:50:13.724123Z  WARN endpoint on probation",
            "2026-11-23T07:50:14.724123Z ERROR the disk is full",
            "something else",
        ];
        let lines = lines.map(str::to_owned);
        for (log, expected) in [
            (
                "",
                vec![
                    "something else",
                    "the disk is full",
                    "endpoint on probation",
                    "listening url=\"http://x\"",
                ],
            ),
            (
                "warnings",
                vec!["the disk is full", "endpoint on probation"],
            ),
            ("errors", vec!["the disk is full"]),
        ] {
            let chosen = log_lines(&lines, log);
            let texts: Vec<_> = chosen.iter().map(|line| line.text).collect();
            assert_eq!(texts, expected, "{log}");
            assert!(
                chosen
                    .iter()
                    .all(|line| line.at.is_some() || line.level.is_empty())
            );
        }
    }
}
