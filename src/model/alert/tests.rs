use super::*;

/// 2026-11-21T06:40:00Z.
const START: Timestamp = Timestamp::from_ms(1_795_243_200_000);

fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

fn rule(condition: AlertCondition) -> StoredAlertRule {
    StoredAlertRule {
        id: AlertRuleId(1),
        name: AlertRuleName::parse("a-rule").expect("a name"),
        rule: AlertRule {
            enabled: true,
            condition,
        },
        alerts: Vec::new(),
        told_at: None,
        created_at: START,
        updated_at: START,
    }
}

fn failing_for_10_min() -> StoredAlertRule {
    rule(AlertCondition::EndpointFailing { minutes: 10 })
}

/// Endpoints by their letters: `a` fails since the start, `a+` works, `a?` is unknown, and `a@600` fails since then.
fn endpoints(words: &str) -> AlertObservations {
    let health = |word: &str| {
        let failing = |since| EndpointHealth::Failing {
            since: at(since),
            detail: "503".to_owned(),
        };
        let (of, health) = match word.split_at(1) {
            (of, "+") => (of, EndpointHealth::Working),
            (of, "?") => (of, EndpointHealth::Unknown),
            (of, "") => (of, failing(0)),
            (of, since) => (of, failing(since[1..].parse().expect("seconds"))),
        };
        (of.to_owned(), health)
    };
    AlertObservations {
        endpoints: words.split_whitespace().map(health).collect(),
        ..AlertObservations::default()
    }
}

/// Evaluates the rule with what it was left with, and returns the message as one line.
fn step(
    rule: &mut StoredAlertRule,
    facts: &AlertObservations,
    is_heard: bool,
    seconds: u64,
) -> String {
    let (alerts, message) = rule.evaluate(facts, is_heard, at(seconds));
    rule.alerts = alerts;
    if message.is_some() {
        rule.told_at = Some(at(seconds));
    }
    message.map_or_else(String::new, |it| {
        format!("{} | {}", it.subject, it.text.replace('\n', " | "))
    })
}

/// Each line: seconds, the endpoints, and the message.
fn play(rule: &mut StoredAlertRule, lines: &[(u64, &str, &str)]) {
    for (seconds, words, expected) in lines {
        let said = step(rule, &endpoints(words), true, *seconds);
        assert_eq!(said, *expected, "at {seconds} s: {words}");
    }
}

const FAILING: &str = "Endpoint failing: a | a: 503";
const RESOLVED: &str = "Resolved: Endpoint failing: a | Resolved: a";

#[test]
fn an_alert_is_told_once_when_it_begins_and_once_when_it_is_over() {
    let lines = [
        (0, "a+", ""),
        (599, "a", ""),
        (600, "a", FAILING),
        (610, "a", ""),
        (9_000, "a", ""),
        (9_010, "a+", RESOLVED),
        (9_100, "a+", ""),
    ];
    play(&mut failing_for_10_min(), &lines);
}

#[test]
fn what_begins_together_is_one_message() {
    let lines = [
        (
            600,
            "a b c",
            "Endpoint failing: a and 2 more | a: 503 | b: 503 | c: 503",
        ),
        (
            700,
            "a+ b c",
            "Resolved: Endpoint failing: a | Resolved: a | Still firing: b and 1 more",
        ),
        (
            800,
            "a@200 b+ c",
            "Endpoint failing: a | a: 503 | Resolved: b | Still firing: c",
        ),
    ];
    play(&mut failing_for_10_min(), &lines);
}

#[test]
fn there_is_one_message_a_minute_and_nothing_is_lost_meanwhile() {
    let mut rule = failing_for_10_min();
    let lines = [
        (600, "a", FAILING),
        (610, "a b", ""),
        (620, "a+ b", ""),
        (659, "a+ b", ""),
        (660, "a+ b", "Endpoint failing: b | b: 503 | Resolved: a"),
    ];
    play(&mut rule, &lines);
    // What comes and goes between two messages is not worth one.
    play(
        &mut rule,
        &[(670, "b c", ""), (680, "b c+", ""), (720, "b", "")],
    );
    // Nor is what goes and comes back.
    play(
        &mut rule,
        &[(725, "b+ d", "Endpoint failing: d | d: 503 | Resolved: b")],
    );
    play(
        &mut rule,
        &[(730, "d+", ""), (740, "d", ""), (800, "d", "")],
    );
}

#[test]
fn a_restart_neither_repeats_nor_forgets() {
    let lines = [
        (600, "a", FAILING),
        (700, "a?", ""),
        // It fails again, for less than ten minutes as far as is known.
        (800, "a@790", ""),
        (900, "a+", RESOLVED),
    ];
    play(&mut failing_for_10_min(), &lines);
    // Nothing begins by not being known.
    play(
        &mut failing_for_10_min(),
        &[(600, "a?", ""), (700, "a@650", "")],
    );
}

#[test]
fn what_is_gone_and_what_is_switched_off_is_over() {
    let mut rule = failing_for_10_min();
    play(&mut rule, &[(600, "a", FAILING), (700, "", RESOLVED)]);
    play(&mut rule, &[(800, "a", FAILING)]);
    rule.rule.enabled = false;
    play(&mut rule, &[(900, "a", RESOLVED), (1_000, "a", "")]);
}

#[test]
fn whoever_comes_late_hears_what_still_fires() {
    let mut rule = failing_for_10_min();
    assert_eq!(step(&mut rule, &endpoints("a b"), false, 600), "");
    assert_eq!(rule.firing().count(), 2);
    assert_eq!(step(&mut rule, &endpoints("a b+"), false, 610), "");
    assert_eq!(step(&mut rule, &endpoints("a"), true, 620), FAILING);
}

#[test]
fn a_clock_that_was_set_back_does_not_silence_a_rule() {
    let mut rule = failing_for_10_min();
    rule.told_at = Some(at(100_000));
    assert_eq!(step(&mut rule, &endpoints("a"), true, 600), FAILING);
}

#[test]
fn alerts_and_lines_are_bounded() {
    let many = (0..=ALERTS_PER_RULE_MAX).map(|number| {
        let health = EndpointHealth::Failing {
            since: START,
            detail: "ä".repeat(ALERT_DETAIL_BYTES_MAX),
        };
        (number.to_string(), health)
    });
    let facts = AlertObservations {
        endpoints: many.collect(),
        ..AlertObservations::default()
    };
    let (alerts, message) = failing_for_10_min().evaluate(&facts, true, at(600));
    assert_eq!(alerts.len(), ALERTS_PER_RULE_MAX);
    assert!(alerts[0].detail.len() <= ALERT_DETAIL_BYTES_MAX);
    let text = message.expect("a message").text;
    assert_eq!(text.lines().count(), ALERT_LINES_MAX + 1);
    let more = format!("and {} more", ALERTS_PER_RULE_MAX - ALERT_LINES_MAX);
    assert!(text.ends_with(&more), "{text}");
}

/// What a condition finds in these facts ten minutes after the start.
fn check(condition: AlertCondition, facts: &AlertObservations, expected: &str) {
    let of = format!("{condition:?}");
    let said = step(&mut rule(condition), facts, true, 600);
    assert_eq!(said, expected, "{of}");
}

#[test]
fn every_condition_finds_what_it_is_about() {
    let of = |name: &str| name.to_owned();
    let topic = TopicName::parse("orders").expect("a name");
    let facts = AlertObservations {
        oldest_pending: vec![(of("orders/a"), START), (of("orders/b"), at(1))],
        dead_letters: BTreeMap::from([
            (5, vec![(of("orders/a"), 3), (of("orders/b"), 4)]),
            (6, vec![]),
        ]),
        disk_free: Some(1 << 20),
        last_events: vec![(topic.clone(), START)],
        expiring: vec![
            (of("token ci"), at(600)),
            (of("token cd"), at(86_400 + 601)),
        ],
        backup: Some(Err(of("no such directory"))),
        ..AlertObservations::default()
    };
    check(
        AlertCondition::OldPending { minutes: 9 },
        &facts,
        "Deliveries pending too long: orders/a and 1 more | orders/a: oldest pending since 2026-11-21 06:40:00 UTC \
         | orders/b: oldest pending since 2026-11-21 06:40:01 UTC",
    );
    check(AlertCondition::OldPending { minutes: 10 }, &facts, "");
    check(
        AlertCondition::DeadLetters {
            count: 4,
            minutes: 5,
        },
        &facts,
        "Dead letters: orders/b | orders/b: dead letters within 5 min: 4",
    );
    check(
        AlertCondition::DeadLetters {
            count: 1,
            minutes: 6,
        },
        &facts,
        "",
    );
    check(
        AlertCondition::DiskSpace { megabytes: 2 },
        &facts,
        "Low disk space: disk | disk: 1 MiB free",
    );
    check(AlertCondition::DiskSpace { megabytes: 1 }, &facts, "");
    let quiet = "No events: orders | orders: no event since 2026-11-21 06:40:00 UTC";
    let no_events = |minutes| AlertCondition::NoEvents {
        topic: topic.clone(),
        minutes,
    };
    check(no_events(9), &facts, quiet);
    check(no_events(10), &facts, "");
    check(
        AlertCondition::Expiring { days: 1 },
        &facts,
        "Certificate or token expiring: token ci | token ci: expired at 2026-11-21 06:50:00 UTC",
    );
    check(
        AlertCondition::BackupFailed,
        &facts,
        "Backup failed: backup | backup: no such directory",
    );
    check(
        AlertCondition::BackupFailed,
        &AlertObservations::default(),
        "",
    );
}

#[test]
fn a_disk_that_is_just_about_full_does_not_come_and_go() {
    let mut rule = rule(AlertCondition::DiskSpace { megabytes: 100 });
    let mut free = |megabytes: u64, seconds| {
        let facts = AlertObservations {
            disk_free: Some(megabytes << 20),
            ..AlertObservations::default()
        };
        !step(&mut rule, &facts, true, seconds).is_empty()
    };
    let told = [
        free(99, 0),
        free(101, 100),
        free(99, 200),
        free(109, 300),
        free(110, 400),
    ];
    assert_eq!(told, [true, false, false, false, true]);
}

#[test]
fn a_message_is_tried_again_ever_later_and_then_no_more() {
    let waits = (1..=ALERT_ATTEMPTS_MAX).map(|attempts| next_attempt(attempts, START));
    let waits: Vec<_> = waits
        .map(|at| at.map(|at| at.since(START).as_secs()))
        .collect();
    assert_eq!(waits, [Some(60), Some(120), Some(240), Some(480), None]);
}
