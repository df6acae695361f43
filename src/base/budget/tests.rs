use std::pin::pin;

use futures_util::poll;

use super::closing::{LEAVING_BYTES_MAX, LITTLE_PART};
use super::*;

#[test]
fn nobody_takes_everything() {
    let budget = Budget::of(64);
    let groups = MemoryGroups::default();
    let account = |group: &'static str| budget.account([Some(groups.of(group)), None], usize::MAX);
    let ones = |account: &MemoryAccount| -> Vec<TakenBytes> {
        (0..99).map_while(|_| account.take(1).ok()).collect()
    };
    let (first, same, other) = (account("a"), account("a"), account("b"));
    let mut kept = ones(&first);
    assert_eq!(kept.len(), 32, "half, beside nobody");
    assert_eq!(same.take(1).err(), Some(NothingLeft), "the group counts");
    assert_eq!(ones(&other).len(), 16, "half of what is left");
    kept.clear();
    assert_eq!((budget.taken(), first.taken()), (0, 0));
    assert_eq!(ones(&same).len(), 32);
}

#[test]
fn an_account_has_a_limit_of_its_own() {
    let budget = Budget::of(1_000);
    let account = budget.account([None, None], 10);
    assert!(account.has_room(10) && !account.has_room(11));
    let mut taken = account.take(7).expect("room");
    assert_eq!(taken.add(4), Err(NothingLeft));
    assert_eq!(taken.resize(10), Ok(()));
    taken.give_back(9);
    assert_eq!((taken.bytes(), account.taken(), budget.left()), (1, 1, 999));
    taken.resize_anyway(20);
    assert_eq!(
        (account.taken(), budget.taken()),
        (20, 20),
        "it is there already"
    );
    assert!(!account.has_room(1));
    drop(taken);
    assert_eq!((account.taken(), budget.taken()), (0, 0));
}

#[test]
fn the_largest_goes_first() {
    let budget = Budget::new(100, 0, Duration::MAX, Duration::MAX);
    let groups = MemoryGroups::default();
    let account =
        |group: &'static str| budget.closable_account([Some(groups.of(group)), None], 100);
    let (small, large) = (account("many"), account("many"));
    let (alone, poor) = (account("alone"), account("poor"));
    let few = small.take(10).expect("room");
    let many = large.take(35).expect("room");
    let _alone = alone.take(25).expect("room");
    assert!(large.take(90).is_err());
    assert!(!large.has_to_close(), "its own wish does not close it");
    assert!(poor.take(40).is_err());
    assert!(large.has_to_close(), "of the largest group the largest");
    assert!(poor.take(40).is_err());
    assert!(
        !small.has_to_close() && !alone.has_to_close(),
        "one is enough"
    );
    drop((many, large));
    assert!(poor.take(70).is_err());
    assert!(alone.has_to_close(), "the other group is the largest now");
    assert!(!small.has_to_close());
    drop(few);
}

#[test]
fn whoever_keeps_little_has_a_moment_beyond_its_share() {
    let budget = Budget::with_reserve(1_000_000, 400_000);
    let groups = MemoryGroups::default();
    let account = |group: &'static str| budget.account([Some(groups.of(group)), None], 500_000);
    let mut others = account("others").nothing();
    others.add_anyway(700_000);
    let (little, same, much) = (account("little"), account("little"), account("much"));
    let mut kept = (little.take(LITTLE_BYTES).expect("room"), much.nothing());
    kept.1.add_anyway(LITTLE_BYTES + 1);
    assert!(!same.has_room(10_000) && same.has_room_for_a_moment(400_000));
    assert!(!same.has_room_for_a_moment(400_001));
    assert!(much.take_for_a_moment(1).is_err());
    let taken = budget.taken();
    let moment = same.take_for_a_moment(300_000).expect("room");
    assert!(same.take_for_a_moment(1).is_err(), "it keeps much now");
    assert!(account("new").take_for_a_moment(100_001).is_err());
    assert!(account("new").take_for_a_moment(100_000).is_ok());
    assert!(account("new").take(10_000).is_ok(), "others miss nothing");
    assert_eq!(budget.taken(), taken);
    drop(moment);
    assert!(same.take_for_a_moment(400_000).is_ok());
    assert!(same.take_for_a_moment(500_001).is_err(), "its own limit");
}

#[test]
fn what_is_soon_gone_does_not_close_for_more_of_the_same_address() {
    let budget = Budget::of_passing(100);
    let groups = MemoryGroups::default();
    let account =
        |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
    let (first, same, other) = (account(1), account(1), account(2));
    let _kept = (first.take(40), other.take(15));
    assert!(same.take(10).is_err() && same.take(50).is_err());
    assert!(!first.has_to_close() && !other.has_to_close());
    let even = account(3);
    let half_as_much = even.take(25).expect("room");
    assert!(even.take(10).is_err() && !first.has_to_close());
    drop(half_as_much);
    assert!(other.take(35).is_err());
    assert!(first.has_to_close() && !other.has_to_close());
}

#[test]
fn what_is_soon_gone_closes_for_another_key_of_the_same_queue() {
    let budget = Budget::of_passing(100);
    let groups = MemoryGroups::default();
    let shown = |address: usize, key: &str| {
        let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
        account.note_key(|| PresentedKey {
            holder: "queue".to_owned(),
            key: Some(key.to_owned()),
        });
        account
    };
    let (many, same, one) = (shown(1, "many"), shown(1, "many"), shown(2, "one"));
    let _kept = many.take(40).expect("room");
    assert!(same.take(21).is_err() && !many.has_to_close());
    assert!(one.take(21).is_err() && many.has_to_close());
    let also_many = shown(3, "many");
    assert!(also_many.take(20).is_ok(), "its key has not all yet");
}

#[test]
fn small_ones_go_whose_group_keeps_more() {
    for (of_group, goes) in [(5, true), (2, false)] {
        let budget = Budget::of(100);
        let groups = MemoryGroups::default();
        let account = |group: &'static str| {
            budget.closable_account([Some(groups.of(group)), None], usize::MAX)
        };
        let many: Vec<_> = (0..of_group).map(|_| account("many")).collect();
        let small: Vec<_> = many.iter().map(|each| each.take(3)).collect();
        let asking = account("asking");
        let kept = asking.take(7).expect("room");
        assert!(asking.take(85).is_err());
        let mut asked = many.iter().map(MemoryAccount::asked_to_close);
        assert_eq!(asked.any(CancellationToken::is_cancelled), goes);
        drop((small, kept));
    }
}

#[test]
fn strangers_go_before_those_who_are_known() {
    let budget = Budget::of(100);
    let groups = MemoryGroups::default();
    let account =
        |group: &'static str| budget.closable_account([Some(groups.of(group)), None], usize::MAX);
    let (known, stranger) = (account("known"), account("stranger"));
    known.note_known();
    let much = known.take(40).expect("room");
    let little = stranger.take(20).expect("room");
    assert!(stranger.take(50).is_err());
    assert!(!known.has_to_close() && !stranger.has_to_close());
    assert!(known.take(21).is_err());
    assert!(!stranger.has_to_close(), "nobody has so much");
    assert!(account("new").take(50).is_err());
    assert!(stranger.has_to_close(), "although it has less");
    drop((stranger, little));
    let stranger = account("stranger");
    let little = stranger.take(20).expect("room");
    let asking = account("also known");
    asking.note_known();
    let half = asking.take(25).expect("room");
    assert!(asking.take(20).is_err());
    assert!(stranger.has_to_close(), "it has less than who asks");
    drop((stranger, little, half));
    assert!(account("new").take(70).is_err());
    assert!(known.has_to_close(), "there are no strangers");
    drop(much);
}

#[test]
fn one_key_has_no_more_from_many_addresses() {
    let budget = Budget::of(1_000);
    let groups = MemoryGroups::default();
    let account =
        |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
    let with_key = |address, key: &str| {
        let account = account(address);
        account.note_key(|| PresentedKey::alone(key.to_owned()));
        account
    };
    let mut kept: Vec<_> = (0..50)
        .map(|address| with_key(address, "key").take(10).expect("room"))
        .collect();
    assert!(with_key(50, "key").take(10).is_err(), "it has half");
    assert!(with_key(50, "other").take(10).is_ok());
    for (key, closes) in [("other", false), ("key", true)] {
        let stranger = account(50);
        let _before = stranger.take(10).expect("room");
        stranger.note_key(|| PresentedKey::alone(key.to_owned()));
        assert_eq!(stranger.has_to_close(), closes, "{key}");
    }
    let of_key = budget.0.keys.of(("key".to_owned(), None));
    let counted = || of_key.0.load(Ordering::Relaxed);
    kept[0].add_anyway(10);
    kept[0].give_back(15);
    kept.truncate(40);
    assert_eq!((counted(), budget.taken()), (395, 395));
    drop(kept);
    assert_eq!(counted(), 0);
}

#[test]
fn a_part_of_a_group_leaves_as_much_of_it_as_it_has() {
    let budget = Budget::of(1_000);
    let groups = MemoryGroups::default();
    let account = |group: &'static str, part: &'static str| {
        let of_group = [Some(groups.of((group, ""))), None];
        let part = PartOfGroup {
            group: groups.of((group, part)),
            times: 1,
        };
        budget.account_within(of_group, part, usize::MAX)
    };
    let large = account("topic", "large");
    let most = large.take(250).expect("a quarter");
    assert!(account("topic", "large").take(1).is_err());
    let other = account("topic", "other").take(80).expect("room");
    assert!(account("topic", "third").take(30).is_ok());
    assert!(account("elsewhere", "large").take(160).is_ok());
    drop((most, other));
    assert_eq!(groups.of(("topic", "large")).taken(), 0);
    assert!(large.take(250).is_ok());
}

#[test]
fn the_largest_part_of_a_group_makes_room_for_the_others() {
    let budget = Budget::new(1_000, 0, Duration::ZERO, Duration::ZERO);
    let groups = MemoryGroups::default();
    let account = |part: &'static str| {
        let part = PartOfGroup {
            group: groups.of(part),
            times: 31,
        };
        budget.closable_account_within([Some(groups.of("queue")), None], part, usize::MAX)
    };
    let other = account("other");
    let _kept = other.take(12).expect("room");
    let many: Vec<_> = (0..60).map(|_| account("many")).collect();
    let taken: Vec<_> = many.iter().filter_map(|each| each.take(10).ok()).collect();
    assert!((45..=48).contains(&taken.len()), "{}", taken.len());
    let asked = || many.iter().filter(|each| each.has_to_close()).count();
    let before = asked();
    assert!(other.take(12).is_ok() && asked() == before, "it is left");
    assert!(other.take(20).is_err());
    assert!(asked() > before && !other.has_to_close());
}

#[test]
fn whoever_keeps_most_for_a_key_makes_room_for_others_who_show_it() {
    let budget = Budget::of(1_000);
    let groups = MemoryGroups::default();
    let shown = |address: usize| {
        let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
        let taken = account.take(10).expect("room");
        account.note_key(|| PresentedKey::alone("key".to_owned()));
        (account, taken)
    };
    let many: Vec<_> = (0..50).map(|number| shown(number % 2)).collect();
    let asked = || {
        many.iter()
            .filter(|(account, _)| account.has_to_close())
            .count()
    };
    assert_eq!(asked(), 0);
    let (new, _kept) = shown(2);
    assert_eq!((asked(), new.has_to_close()), (1, false));
    assert!(new.take(10).is_err());
    assert_eq!((asked(), new.has_to_close()), (2, false));
}

#[test]
fn one_key_of_a_queue_leaves_something_to_the_others() {
    let budget = Budget::of(1_000);
    let groups = MemoryGroups::default();
    let shown = |address: usize, key: &str| {
        let account = budget.closable_account([Some(groups.of(address)), None], usize::MAX);
        let taken = account.take(10).expect("room");
        account.note_key(|| PresentedKey {
            holder: "queue".to_owned(),
            key: Some(key.to_owned()),
        });
        (account, taken)
    };
    let is_asked = |(account, _): &(MemoryAccount, TakenBytes)| account.has_to_close();
    let others: Vec<_> = (0..4).map(|_| shown(0, "other")).collect();
    let mut many = Vec::new();
    while !many.iter().chain(&others).any(is_asked) {
        many.push(shown(1 + many.len(), "many"));
    }
    assert_eq!(many.len(), 45);
    assert!(!others.iter().any(is_asked), "their address has most");
    assert!(others[0].0.take(10).is_ok());
}

#[test]
fn what_is_kept_for_one_key_goes_if_strangers_have_less() {
    for (of_stranger, goes) in [(20, true), (45, false)] {
        let budget = Budget::of(100);
        let account = || budget.closable_account([None, None], usize::MAX);
        let (one, other, stranger) = (account(), account(), account());
        let taken = (one.take(20), other.take(20));
        for each in [&one, &other] {
            each.note_key(|| PresentedKey::alone("key".to_owned()));
        }
        let mut strangers = stranger.nothing();
        strangers.add_anyway(of_stranger);
        let mut rest = budget.account([None, None], 100).nothing();
        rest.add_anyway(budget.left());
        assert!(account().take(2).is_err());
        let asked = [&one, &other]
            .into_iter()
            .filter(|each| each.has_to_close());
        assert_eq!(asked.count() == 1, goes, "{of_stranger}");
        drop((taken, strangers, rest));
    }
}

#[test]
fn whoever_has_its_share_closes_nobody_who_has_shown_a_key() {
    let budget = Budget::of(100);
    let groups = MemoryGroups::default();
    let account =
        |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
    let known = account(1);
    known.note_key(|| PresentedKey::alone("key".to_owned()));
    let _kept = (known.take(20), account(2).take(39));
    let same = account(2);
    assert!(same.take(25).is_err());
    assert!(!known.has_to_close());
    assert!(!same.ask_for_a_place(), "it is no stranger's place");
    assert!(!known.has_to_close());
}

#[test]
fn not_all_are_looked_at_again_where_nobody_had_to_go() {
    for (known_for, looks_again) in [(Duration::ZERO, true), (Duration::MAX, false)] {
        let budget = Budget::new(100, 0, CLOSING_PATIENCE, known_for);
        let account = || budget.closable_account([None, None], 100);
        let (asking, large) = (account(), account());
        let _kept = (asking.take(20), large.take(20));
        assert!(asking.take(70).is_err());
        let before = budget.0.closable.lock().unwrap().len();
        drop(account()); // a look forgets it
        let listed = || budget.0.closable.lock().unwrap().len();
        assert_eq!(listed(), before + 1);
        assert!(asking.take(70).is_err());
        assert_eq!(listed() == before, looks_again);
        assert!(!large.has_to_close());
        // Who has less knows of it at once.
        assert!(account().take(90).is_err());
        assert_ne!(asking.has_to_close(), large.has_to_close());
    }
}

#[test]
fn those_who_share_a_key_are_not_looked_at_again_in_vain() {
    let show = |account: &MemoryAccount| {
        account.note_key(|| PresentedKey::alone("key".to_owned()));
    };
    let looks = |budget: &Budget, ask: &dyn Fn()| {
        drop(budget.closable_account([None, None], 100)); // a look forgets it
        let listed = || budget.0.closable.lock().unwrap().len();
        let before = listed();
        ask();
        listed() < before
    };
    for (known_for, looks_again) in [(Duration::ZERO, true), (Duration::MAX, false)] {
        let new_budget = || Budget::new(100, 0, CLOSING_PATIENCE, known_for);
        let budget = new_budget();
        let account = || budget.closable_account([None, None], 100);
        let (asking, other) = (account(), account());
        let _kept = (asking.take(20), other.take(10));
        [&asking, &other].into_iter().for_each(show);
        let ask = || assert!(asking.take(45).is_err());
        assert!(looks(&budget, &ask));
        assert_eq!(looks(&budget, &ask), looks_again);
        // Requests that a proxy passes on cannot be closed.
        let of_proxy = new_budget();
        let show_by_proxy = || {
            let request = of_proxy.account([None, None], 100);
            let mut taken = request.nothing();
            taken.add_anyway(60);
            show(&request);
        };
        assert!(looks(&of_proxy, &show_by_proxy));
        assert_eq!(looks(&of_proxy, &show_by_proxy), looks_again);
    }
}

#[test]
fn who_is_gone_is_not_the_next_one_any_more() {
    let budget = Budget::new(100, 0, CLOSING_PATIENCE, Duration::MAX);
    let account = || budget.closable_account([None, None], 100);
    let (largest, next) = (account(), account());
    let kept = (largest.take(30), next.take(10));
    assert!(largest.take(65).is_err());
    drop((largest, kept.0));
    assert!(account().take(95).is_err());
    assert!(next.has_to_close());
}

#[test]
fn who_cannot_close_any_more_keeps_nobody_from_closing() {
    let budget = Budget::of(100);
    let account = || budget.closable_account([None, None], 100);
    let (upgraded, other) = (account(), account());
    let _kept = (upgraded.take(40), other.take(20));
    upgraded.stay();
    assert!(account().take(90).is_err());
    assert!(other.has_to_close());
}

#[test]
fn who_was_asked_and_does_not_go_keeps_nobody_else() {
    for (patience, is_next_asked) in [(Duration::MAX, false), (Duration::ZERO, true)] {
        let budget = Budget::new(100, 0, patience, KNOWN_FOR);
        let account = || budget.closable_account([None, None], 100);
        let (stuck, next) = (account(), account());
        let _kept = (stuck.take(40), next.take(20));
        assert!(account().take(90).is_err());
        assert!(stuck.has_to_close() && !next.has_to_close());
        assert!(account().take(90).is_err());
        assert_eq!(next.has_to_close(), is_next_asked);
        stuck.stay();
        assert!(account().take(90).is_err());
        assert!(next.has_to_close(), "its connection is gone");
    }
}

/// Strangers who have taken all of a budget, so many bytes each, the first ones first. Each is from an address of its own, but
/// for one in four.
fn strangers_alike(budget: &Budget, bytes: usize) -> Vec<(MemoryAccount, TakenBytes)> {
    let groups = MemoryGroups::default();
    let address = |number: usize| if number % 4 == 3 { 3 } else { number };
    let next = |number| {
        let account = budget.closable_account([Some(groups.of(address(number))), None], usize::MAX);
        let mut taken = account.nothing();
        taken.add_anyway(bytes);
        (account, taken)
    };
    let count = budget.bytes_max() / bytes;
    (0..count).map(next).collect()
}

fn asked_to_close(accounts: &[(MemoryAccount, TakenBytes)]) -> Vec<usize> {
    let asked = accounts.iter().enumerate();
    let asked = asked.filter(|(_, (account, _))| account.has_to_close());
    asked.map(|(place, _)| place).collect()
}

#[test]
fn strangers_who_are_alike_leave_for_whoever_keeps_little() {
    const BYTES: usize = 13_000;
    let budget = Budget::new(100 * LITTLE_PART * BYTES, 0, Duration::MAX, KNOWN_FOR);
    let strangers = strangers_alike(&budget, BYTES);
    let new = budget.closable_account([None, None], usize::MAX);
    let mut taken = new.take(4_000).expect("what one of them has");
    assert_eq!(asked_to_close(&strangers), [3], "the first of the largest");
    assert!(new.has_room(12_000) && !new.has_room(LITTLE_BYTES));
    for bytes in [12_000, 16_000] {
        assert_eq!(taken.add(bytes), Ok(()));
    }
    assert_eq!(asked_to_close(&strangers), [3, 7, 11, 15]);
    assert!(budget.taken() > budget.bytes_max(), "they are not gone yet");
    assert!(new.take(LITTLE_BYTES).is_err(), "that is not little");
    drop(strangers);
    assert_eq!(budget.taken(), 32_000);
}

#[test]
fn strangers_leave_for_whoever_has_shown_a_key() {
    const BYTES: usize = 100_000;
    let budget = Budget::new(30_000_000, 0, Duration::MAX, KNOWN_FOR);
    let strangers = strangers_alike(&budget, BYTES);
    let known = budget.closable_account([None, None], usize::MAX);
    known.note_known();
    let mut taken = known.take(3_000_000).expect("what thirty have");
    assert_eq!(asked_to_close(&strangers).len(), 30);
    assert_eq!(taken.add(2_000_000), Ok(()));
    assert_eq!(asked_to_close(&strangers).len(), 80, "its share counts");
    assert_eq!(taken.add(1), Err(NothingLeft), "that is all at once");
    assert!(budget.taken() <= budget.bytes_max() + LEAVING_BYTES_MAX);
    let before = asked_to_close(&strangers).len();
    assert!(known.take(20_000_000).is_err());
    assert!(asked_to_close(&strangers).len() <= before + 1, "in vain");
}

#[test]
fn who_has_shown_a_key_is_no_stranger() {
    let budget = Budget::of(100 * LITTLE_PART);
    let mut known = strangers_alike(&budget, 10);
    known.pop();
    for (account, _) in &known {
        account.note_known();
    }
    assert_eq!(budget.0.of_strangers.load(Ordering::Relaxed), 0);
    let account = || budget.closable_account([None, None], usize::MAX);
    let (stranger, new) = (account(), account());
    let mut kept = stranger.nothing();
    kept.add_anyway(10);
    assert!(new.take(5).is_ok());
    assert!(stranger.has_to_close() && asked_to_close(&known).is_empty());
    let strangers = budget.0.strangers.lock().unwrap().len();
    assert_eq!(strangers, 2, "the others are not looked at again");
}

#[test]
fn what_goes_as_a_strangers_alone_stays_once_a_key_is_shown() {
    for (is_known, goes) in [(false, true), (true, false)] {
        let budget = Budget::of(100);
        let (first, new) = (
            budget.closable_account([None, None], usize::MAX),
            budget.closable_account([None, None], usize::MAX),
        );
        first.stay_once_known();
        if is_known {
            first.note_known();
        }
        let _kept = first.take(50).expect("room");
        assert!(new.take(60).is_err());
        assert_eq!(first.has_to_close(), goes);
    }
}

#[test]
fn the_first_stranger_leaves_its_place() {
    let budget = Budget::new(1_000_000, 0, Duration::MAX, KNOWN_FOR);
    let (first, second, new) = (
        budget.closable_account([None, None], usize::MAX),
        budget.closable_account([None, None], usize::MAX),
        budget.closable_account([None, None], usize::MAX),
    );
    let kept = [&first, &second, &new].map(|each| each.take(500));
    assert!(new.ask_for_a_place());
    assert!(first.has_to_close());
    assert!(new.ask_for_a_place(), "the first one is about to go");
    assert!(!second.has_to_close());
    drop(kept);
}

#[test]
fn whoever_has_many_places_gets_one_of_those_who_have_more() {
    let budget = Budget::new(1_000_000, 0, Duration::MAX, KNOWN_FOR);
    let groups = MemoryGroups::default();
    let account =
        |address: usize| budget.closable_account([Some(groups.of(address)), None], usize::MAX);
    let (large, small, asking) = (account(1), account(2), account(3));
    let kept = (
        large.take(100_000).expect("room"),
        small.take(30_000).expect("room"),
        asking.take(60_000).expect("room"),
    );
    assert!(asking.ask_for_a_place());
    assert!(large.has_to_close() && !small.has_to_close());
    drop((large, kept.0));
    assert!(!asking.ask_for_a_place(), "nobody has more");
    assert!(!small.has_to_close());
}

#[tokio::test]
async fn one_account_takes_more_than_there_is_and_groups_take_turns() {
    let budget = Budget::of(100);
    let groups = MemoryGroups::default();
    let account = |key: &str| budget.account([Some(groups.of(key.to_owned())), None], 100);
    let (busy, other, quiet) = (account("busy"), account("busy"), account("quiet"));
    let first = busy.turn_beyond().await;
    let mut second = pin!(busy.turn_beyond());
    let mut third = pin!(other.turn_beyond());
    let mut of_quiet = pin!(quiet.turn_beyond());
    assert!(poll!(&mut second).is_pending());
    assert!(poll!(&mut third).is_pending());
    assert!(poll!(&mut of_quiet).is_pending());
    drop(first);
    let next = second.await;
    assert!(poll!(&mut of_quiet).is_pending());
    drop(next);
    let next = of_quiet.await;
    assert!(poll!(&mut third).is_pending());
    drop(next);
    drop(third.await);
}

#[test]
fn groups_without_accounts_are_forgotten() {
    let groups = MemoryGroups::default();
    for key in 0..10_000 {
        drop(groups.of(key));
    }
    assert!(groups.0.lock().unwrap().len() < 100);
    let kept = groups.of(7);
    assert!(Arc::ptr_eq(&kept.0, &groups.of(7).0));
}
