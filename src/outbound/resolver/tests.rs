use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A name server that returns its answers in order, then the last one for ever, and counts look-ups.
struct NameServer {
    responses: Mutex<VecDeque<Result<&'static str, io::ErrorKind>>>,
    requested: AtomicUsize,
}

impl NameServer {
    fn new(responses: &[Result<&'static str, io::ErrorKind>]) -> Arc<Self> {
        Arc::new(Self {
            responses: Mutex::new(responses.iter().copied().collect()),
            requested: AtomicUsize::new(0),
        })
    }

    fn lookup(self: &Arc<Self>) -> Lookup {
        let server = Arc::clone(self);
        Arc::new(move |_| Box::pin(std::future::ready(server.next())))
    }

    fn next(&self) -> io::Result<Vec<IpAddr>> {
        self.requested.fetch_add(1, Ordering::SeqCst);
        let mut responses = self.responses.lock().unwrap();
        let response = responses.pop_front().expect("an answer");
        if responses.is_empty() {
            responses.push_back(response);
        }
        Ok(addresses(response?))
    }

    fn requested(&self) -> usize {
        self.requested.load(Ordering::SeqCst)
    }
}

fn addresses(text: &str) -> Vec<IpAddr> {
    text.split_whitespace()
        .map(|each| each.parse().expect("an address"))
        .collect()
}

fn guard(allow: &str, server: &Arc<NameServer>, clock: &Clock) -> Guard {
    let policy = EgressPolicy {
        allow: allow
            .split_whitespace()
            .map(|net| net.parse().expect("a network"))
            .collect(),
        ..EgressPolicy::default()
    };
    Guard::new(policy, clock.clone(), server.lookup())
}

fn clock() -> Clock {
    Clock::simulated(Timestamp::from_ms(1_000_000))
}

/// `expected` holds the addresses, or a part of the error.
async fn check(allow: &str, response: Result<&'static str, io::ErrorKind>, expected: &str) {
    let server = NameServer::new(&[response]);
    let found = guard(allow, &server, &clock())
        .addresses("shop.example")
        .await;
    match found {
        Ok(found) => assert_eq!(found, addresses(expected), "{response:?}"),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains(expected),
                "{response:?}: {text}, expected {expected}"
            );
        }
    }
}

#[tokio::test]
async fn one_forbidden_address_spoils_the_answer() {
    check("", Ok("93.184.216.34"), "93.184.216.34").await;
    check(
        "",
        Ok("93.184.216.34 2606:4700::1"),
        "93.184.216.34 2606:4700::1",
    )
    .await;
    check("", Ok("127.0.0.1"), "127.0.0.1 is a loopback").await;
    check("", Ok("93.184.216.34 127.0.0.1"), "127.0.0.1 is a loopback").await;
    check("", Ok("10.0.0.1 93.184.216.34"), "10.0.0.1 is a private").await;
    check(
        "",
        Ok("93.184.216.34 ::ffff:127.0.0.1"),
        "127.0.0.1 is a loopback",
    )
    .await;
    check("", Ok("93.184.216.34 64:ff9b::7f00:1"), "a NAT64").await;
    check("", Ok("2606:4700::1 fd00:ec2::254"), "metadata").await;
    check("", Ok("2606:4700::1 169.254.169.254"), "metadata").await;
    check(
        "127.0.0.0/8",
        Ok("127.0.0.1 93.184.216.34"),
        "127.0.0.1 93.184.216.34",
    )
    .await;
    check("127.0.0.0/8", Ok("127.0.0.1 ::1"), "::1 is a loopback").await;
    check("127.0.0.0/8 ::1/128", Ok("127.0.0.1 ::1"), "127.0.0.1 ::1").await;
}

#[tokio::test]
async fn a_failing_name_server_opens_nothing() {
    check(
        "",
        Ok(""),
        "shop.example cannot be resolved: it has no address",
    )
    .await;
    check(
        "",
        Err(io::ErrorKind::NotFound),
        "shop.example cannot be resolved",
    )
    .await;
}

#[tokio::test]
async fn addresses_behind_the_sixteenth_are_judged_too() {
    let many = "93.184.216.34 ".repeat(40);
    let leaked: &'static str = format!("{many} 127.0.0.1").leak();
    check("", Ok(leaked), "127.0.0.1 is a loopback").await;
    let server = NameServer::new(&[Ok(many.leak())]);
    let found = guard("", &server, &clock()).addresses("many.example").await;
    assert_eq!(found.expect("all are public").len(), ADDRESSES_MAX);
}

#[tokio::test]
async fn answers_are_kept_for_a_while() {
    let clock = clock();
    let server = NameServer::new(&[
        Ok("93.184.216.34"),
        Err(io::ErrorKind::NotFound),
        Ok("1.1.1.1"),
    ]);
    let guard = guard("", &server, &clock);
    for (wait_s, expected, requested) in [
        (0, "93.184.216.34", 1),
        (29, "93.184.216.34", 1),
        (1, "", 2),
        (4, "", 2),
        (1, "1.1.1.1", 3),
    ] {
        clock.advance(Duration::from_secs(wait_s));
        let found = guard.addresses("shop.example").await.unwrap_or_default();
        assert_eq!(
            (found, server.requested()),
            (addresses(expected), requested)
        );
    }
}

#[tokio::test]
async fn a_rebinding_name_server_never_gets_through() {
    let clock = clock();
    let responses = [Ok("93.184.216.34"), Ok("127.0.0.1")].repeat(5_000);
    let server = NameServer::new(&responses);
    let guard = guard("", &server, &clock);
    for round in 0..10_000 {
        let found = guard.addresses("rebind.example").await;
        assert_eq!(found.is_ok(), round % 2 == 0, "round {round}");
        clock.advance(ADDRESSES_KEPT);
    }
    assert_eq!(server.requested(), 10_000);
}

#[tokio::test]
async fn no_more_names_are_kept_than_there_is_room_for() {
    let clock = clock();
    let server = NameServer::new(&[Ok("93.184.216.34")]);
    let guard = guard("", &server, &clock);
    for number in 0..NAMES_KEPT_MAX * 2 + 1 {
        let found = guard.addresses(&format!("{number}.example")).await;
        assert!(found.is_ok());
        assert!(guard.0.known.lock().unwrap().len() <= NAMES_KEPT_MAX);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_name_server_is_given_up() {
    let lookup: Lookup = Arc::new(|_| Box::pin(std::future::pending()));
    let guard = Guard::new(EgressPolicy::default(), clock(), lookup);
    let error = guard
        .addresses("slow.example")
        .await
        .expect_err("no answer");
    assert_eq!(
        error.to_string(),
        "the look-up of slow.example took longer than 5 s"
    );
}

/// A resolver whose name server answers for names in `good.test` only, and the names that it was asked for.
fn mostly_silent() -> (Guard, Arc<Mutex<Vec<String>>>) {
    let requested = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&requested);
    let lookup: Lookup = Arc::new(move |name| {
        let answer = name.ends_with("good.test").then(|| addresses("1.1.1.1"));
        counted.lock().unwrap().push(name);
        Box::pin(async move {
            match answer {
                Some(found) => Ok(found),
                None => std::future::pending().await,
            }
        })
    });
    let guard = Guard::new(EgressPolicy::default(), clock(), lookup);
    (guard, requested)
}

/// How many of these names were given up because they took too long, and how many found no place.
async fn give_up(guard: &Guard, names: impl Iterator<Item = String>) -> (usize, usize) {
    let mut askers = tokio::task::JoinSet::new();
    for name in names {
        let guard = guard.clone();
        askers.spawn(async move { guard.addresses(&name).await });
    }
    let given_up = askers.join_all().await;
    let without = given_up
        .iter()
        .filter(|each| **each == Err(ResolveError::NoPlace))
        .count();
    assert!(given_up.iter().all(Result::is_err));
    (given_up.len() - without, without)
}

#[tokio::test(start_paused = true)]
async fn look_ups_that_hang_do_not_pile_up() {
    let (guard, requested) = mostly_silent();
    let names = (0..200).map(|number| format!("{number}.example"));
    let given_up = give_up(&guard, names).await;
    assert_eq!(given_up, (LOOKUPS_MAX, 200 - LOOKUPS_MAX));
    assert_eq!(requested.lock().unwrap().len(), LOOKUPS_MAX);
    let others = guard.addresses("shop.good.test").await;
    assert_eq!(others, Err(ResolveError::NoPlace));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_once_at_a_time() {
    let (guard, requested) = mostly_silent();
    for _ in 0..2 {
        let names = (0..200).map(|_| "shop.slow.test".to_owned());
        assert_eq!(give_up(&guard, names).await, (200, 0));
        guard.forget("shop.slow.test");
    }
    assert_eq!(*requested.lock().unwrap(), ["shop.slow.test"]);
    let others = guard.addresses("shop.good.test").await;
    assert_eq!(others, Ok(addresses("1.1.1.1")));
}

#[tokio::test(start_paused = true)]
async fn the_names_of_a_domain_leave_places_for_others() {
    let (guard, requested) = mostly_silent();
    let names = (0..200).map(|number| format!("{number}.of.slow.test"));
    let given_up = give_up(&guard, names).await;
    let most = LOOKUPS_PER_DOMAIN_MAX;
    assert_eq!(given_up, (most, 200 - most));
    assert_eq!(requested.lock().unwrap().len(), most);
    let others = guard.addresses("shop.good.test").await;
    assert_eq!(others, Ok(addresses("1.1.1.1")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_too_late_is_kept() {
    let (answer, answered) = watch::channel(false);
    let lookup: Lookup = Arc::new(move |_| {
        let mut waiting = answered.clone();
        Box::pin(async move {
            let _ = waiting.wait_for(|is_there| *is_there).await;
            Ok(addresses("1.1.1.1"))
        })
    });
    let guard = Guard::new(EgressPolicy::default(), clock(), lookup);
    assert!(guard.addresses("slow.example").await.is_err());
    answer.send_replace(true);
    while guard.addresses("slow.example").await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn domains_have_owners() {
    for (name, expected) in [
        ("shop", "shop"),
        ("shop.test", "shop.test"),
        ("a.b.shop.test.", "shop.test"),
        ("a.shop.co.uk", "shop.co.uk"),
        ("shop.co.uk", "shop.co.uk"),
        ("a.b.shop.uk", "shop.uk"),
        ("a.shop.co.test", "co.test"),
    ] {
        assert_eq!(domain(name), expected, "{name}");
    }
}
