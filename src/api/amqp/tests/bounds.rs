//! Peers that mean harm, or nothing at all.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;

use super::super::limits::{
    CLOSE_DEADLINE, CONNECTION_BYTES, FRAME_STEPS_MAX, HANDLE_MAX, INCOMING_WINDOW, LINK_STEPS,
    LINKS_MAX, SESSIONS_MAX, UNFINISHED_DEADLINE,
};
use super::super::tasks::memory_to_take;
use super::*;
use crate::base::budget::Budget;
use crate::wire::amqp::condition::{
    AmqpError, DECODE_ERROR, FRAMING_ERROR, HANDLE_IN_USE, ILLEGAL_STATE, INVALID_FIELD,
    LINK_STOLEN, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, TRANSFER_LIMIT_EXCEEDED, UNATTACHED_HANDLE,
};

/// The condition of the first error that the peer is told.
fn told(peer: &mut Peer) -> Option<String> {
    let errors = peer.all().into_iter().filter_map(|each| match each {
        Performative::Close(error) | Performative::End(error) => error,
        Performative::Detach(detach) => detach.error,
        Performative::Open(_)
        | Performative::Begin(_)
        | Performative::Attach(_)
        | Performative::Flow(_)
        | Performative::Transfer(_)
        | Performative::Disposition(_) => None,
    });
    let mut conditions = errors.map(|error| error.condition.into_owned());
    conditions.next()
}

#[test]
fn broken_frames_close_the_connection_with_a_reason() {
    for (bytes, condition) in [
        (&[0, 1, 0, 1, 2, 0, 0, 0][..], FRAMING_ERROR),
        (&[0, 0, 0, 8, 1, 0, 0, 0], FRAMING_ERROR),
        (&[0, 0, 0, 8, 2, 1, 0, 0], FRAMING_ERROR),
        (&[0, 0, 0, 9, 2, 0, 0, 0, 0x40], DECODE_ERROR),
        (
            &[0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x77, 0x45],
            DECODE_ERROR,
        ),
        (
            &[0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x12, 0x45],
            DECODE_ERROR,
        ),
    ] {
        let mut peer = Peer::begun();
        peer.connection.receive(bytes, NOW);
        assert_eq!(told(&mut peer).as_deref(), Some(condition), "{bytes:?}");
        assert!(peer.connection.is_closed());
        // Nothing that follows is looked at.
        peer.send(&begin(1));
        assert!(peer.all().is_empty());
    }
}

#[test]
fn frames_in_the_wrong_place_close_the_connection() {
    let attach = Performative::Attach(Box::new(attach(0, LinkRole::Sender)));
    for (channel, performative, condition) in [
        (0, open(512), ILLEGAL_STATE),
        (0, begin(1), ILLEGAL_STATE),
        (7, attach.clone(), ILLEGAL_STATE),
        (SESSIONS_MAX, begin(1), RESOURCE_LIMIT_EXCEEDED),
    ] {
        let mut peer = Peer::begun();
        peer.send_on(channel, &performative);
        assert_eq!(
            told(&mut peer).as_deref(),
            Some(condition),
            "{performative:?}"
        );
    }
    // Before the open there is nothing but the open, and the error needs one of ours to stand behind.
    let mut peer = Peer::new();
    let mut bytes = Protocol::Amqp.header().to_vec();
    frame(&mut bytes, 0, &attach);
    peer.connection.receive(&bytes, NOW);
    peer.take();
    peer.skip_header();
    assert!(matches!(peer.next(), Some((0, Performative::Open(_)))));
    assert_eq!(told(&mut peer).as_deref(), Some(ILLEGAL_STATE));
    assert!(peer.connection.is_closed());
}

#[test]
fn faults_of_a_session_end_it_alone() {
    let in_use = Performative::Attach(Box::new(attach(0, LinkRole::Sender)));
    let unattached = [
        grant(9, 0, 1),
        Performative::Transfer(transfer(9, 0, "x")),
        detach(9),
    ];
    let cases = unattached.into_iter().map(|each| (each, UNATTACHED_HANDLE));
    for (performative, condition) in cases.chain([(in_use, HANDLE_IN_USE)]) {
        let mut peer = Peer::begun();
        let link = peer.sending(0);
        peer.send_on(1, &begin(1));
        peer.all();
        peer.send(&performative);
        assert_eq!(
            told(&mut peer).as_deref(),
            Some(condition),
            "{performative:?}"
        );
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
        );
        // What was on its way means nothing; the other session goes on.
        peer.send(&Performative::Transfer(transfer(0, 0, "x")));
        assert!(peer.all().is_empty() && peer.event().is_none());
        peer.send_on(
            1,
            &Performative::Attach(Box::new(attach(0, LinkRole::Sender))),
        );
        assert!(matches!(
            peer.event(),
            Some(ConnectionEvent::Attached { .. })
        ));
        // Once the client has ended it, too, it may begin anew.
        peer.send(&Performative::End(None));
        peer.send(&begin(1));
        assert!(matches!(&peer.all()[..], [Performative::Begin(_)]));
    }
}

#[test]
fn credit_and_windows_cannot_be_overdrawn() {
    let mut peer = Peer::begun();
    peer.sending(0);
    for id in 0..1_001 {
        peer.send(&Performative::Transfer(transfer(0, id, "x")));
    }
    assert_eq!(told(&mut peer).as_deref(), Some(TRANSFER_LIMIT_EXCEEDED));
    assert!(peer.connection.wants_input());
    // Before the link is accepted there is none.
    let mut peer = Peer::begun();
    peer.send(&Performative::Attach(Box::new(attach(0, LinkRole::Sender))));
    peer.send(&Performative::Transfer(transfer(0, 0, "x")));
    assert_eq!(told(&mut peer).as_deref(), Some(TRANSFER_LIMIT_EXCEEDED));
    // A window is renewed for whoever keeps to it. A message of many small frames is no trick.
    let mut peer = Peer::begun();
    peer.sending(0);
    for _ in 0..3 * INCOMING_WINDOW {
        peer.send(&Performative::Transfer(Transfer {
            more: true,
            ..transfer(0, 0, "x")
        }));
    }
    assert_eq!(told(&mut peer), None);
}

#[test]
fn links_are_counted_over_all_sessions() {
    let mut peer = Peer::with(account(128 * 1_024 * 1_024));
    peer.send_on(1, &begin(1));
    let count = u32::try_from(LINKS_MAX).expect("a small number");
    for handle in 0..count {
        let attach = Performative::Attach(Box::new(attach(handle, LinkRole::Receiver)));
        peer.send_on(u16::try_from(handle % 2).expect("a bit"), &attach);
    }
    peer.all();
    // Odd handles are those of the other session.
    peer.send(&Performative::Attach(Box::new(attach(
        1,
        LinkRole::Receiver,
    ))));
    // One link too many costs none of the others.
    let frames = peer.all();
    let [Performative::Attach(_), Performative::Detach(rejected)] = &frames[..] else {
        panic!("{frames:?}");
    };
    let condition = rejected.error.as_ref().map(|error| &*error.condition);
    assert_eq!(condition, Some(RESOURCE_LIMIT_EXCEEDED));
    assert_eq!(peer.connection.counts()[0], LINKS_MAX + 1);
    peer.send(&detach(1));
    assert_eq!(peer.connection.counts()[0], LINKS_MAX);
}

#[test]
fn what_was_agreed_is_kept() {
    let mut peer = Peer::begun();
    let beyond = attach(HANDLE_MAX + 1, LinkRole::Receiver);
    peer.send(&Performative::Attach(Box::new(beyond)));
    assert_eq!(told(&mut peer).as_deref(), Some(FRAMING_ERROR));

    let mut peer = Peer::new();
    let mut bytes = Protocol::Amqp.header().to_vec();
    frame(&mut bytes, 0, &open(511));
    peer.connection.receive(&bytes, NOW);
    peer.take();
    peer.skip_header();
    assert!(matches!(peer.next(), Some((0, Performative::Open(_)))));
    assert_eq!(told(&mut peer).as_deref(), Some(INVALID_FIELD));

    // Messages come over links over which the peer sends.
    let mut peer = Peer::begun();
    peer.receiving(0, 1);
    peer.send(&Performative::Transfer(transfer(0, 0, "x")));
    assert_eq!(told(&mut peer).as_deref(), Some(NOT_ALLOWED));

    // The frames of a message belong together.
    for other in [
        transfer(0, 8, "x"),
        Transfer {
            message_format: Some(1),
            ..transfer(0, 7, "x")
        },
    ] {
        let mut peer = Peer::begun();
        peer.sending(0);
        peer.send(&Performative::Transfer(Transfer {
            more: true,
            ..transfer(0, 7, "x")
        }));
        peer.send(&Performative::Transfer(other));
        assert_eq!(told(&mut peer).as_deref(), Some(INVALID_FIELD));
    }
}

#[test]
fn a_link_that_is_attached_again_is_stolen() {
    let mut peer = Peer::begun();
    let first = peer.sending(0);
    let named = |role| Attach {
        name: "link-0".to_owned(),
        ..attach(1, role)
    };
    // In the other direction it is another link.
    let receiving = peer.attached(Attach {
        handle: 2,
        ..named(LinkRole::Receiver)
    });
    peer.all();
    peer.send(&Performative::Attach(Box::new(named(LinkRole::Sender))));
    let frames = peer.all();
    let [Performative::Detach(stolen)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert_eq!(stolen.handle, 0);
    let condition = stolen.error.as_ref().map(|error| &*error.condition);
    assert_eq!(condition, Some(LINK_STOLEN));
    assert!(matches!(peer.event(), Some(ConnectionEvent::Detached { link, .. }) if link == first));
    let second = peer.event();
    assert!(matches!(second, Some(ConnectionEvent::Attached { link, .. }) if link != receiving));
}

#[test]
fn a_link_that_ends_costs_what_came_over_it_and_no_more() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 4_000);
    for _ in 0..4_000 {
        peer.connection.deliver(link, vec![handout(1, 1)]);
    }
    peer.all();
    while peer.event().is_some() {}
    let mut frames = Vec::new();
    for handle in 1..=1_000 {
        let again = Attach {
            name: "again".to_owned(),
            ..attach(handle, LinkRole::Receiver)
        };
        frame(&mut frames, 0, &Performative::Attach(Box::new(again)));
    }
    for handle in 1..=1_000 {
        frame(&mut frames, 0, &detach(handle));
    }
    peer.connection.receive(&frames, NOW);
    let mut turns = 1;
    while peer.connection.can_proceed() {
        assert!(!peer.connection.wants_input(), "others have their turn");
        peer.connection.proceed(NOW);
        turns += 1;
    }
    let needed = 2_000 * LINK_STEPS / FRAME_STEPS_MAX;
    assert_eq!(turns, needed, "what others got is not looked at");
    let stolen = peer.all().into_iter().filter(|each| match each {
        Performative::Detach(detach) => detach.error.is_some(),
        Performative::Open(_)
        | Performative::Begin(_)
        | Performative::Attach(_)
        | Performative::Flow(_)
        | Performative::Transfer(_)
        | Performative::Disposition(_)
        | Performative::End(_)
        | Performative::Close(_) => false,
    });
    assert_eq!(stolen.count(), 999);
    // It is still settled where it was handed out, and its end is as long as it is.
    while peer.event().is_some() {}
    peer.send(&disposition(1, 4_000, DeliveryState::Accepted));
    let decided = peer.event();
    assert!(
        matches!(&decided, Some(ConnectionEvent::Disposition { deliveries, .. }) if deliveries.len() == 4_000),
        "{decided:?}"
    );
}

#[test]
fn no_rejection_is_silent() {
    let large = |settled| {
        [true, true, false].map(|more| Transfer {
            more,
            settled: Some(settled),
            ..transfer(0, 2, vec![0; 40_000])
        })
    };
    // Who waits for an answer hears it, and the link goes on.
    let mut peer = Peer::begun();
    peer.sending(0);
    for part in large(false) {
        peer.send(&Performative::Transfer(part));
    }
    assert!(matches!(&peer.all()[..], [Performative::Disposition(_)]));
    // Who does not hears that the link has ended: of one that is too large, and of one that could not be stored.
    let mut peer = Peer::begun();
    peer.sending(0);
    for part in large(true) {
        peer.send(&Performative::Transfer(part));
    }
    let size = Some("amqp:link:message-size-exceeded");
    assert_eq!(told(&mut peer).as_deref(), size);
    let mut peer = Peer::begun();
    let link = peer.sending(0);
    peer.send(&Performative::Transfer(Transfer {
        settled: Some(true),
        ..transfer(0, 3, "x")
    }));
    let full = AmqpError::new(RESOURCE_LIMIT_EXCEEDED, "the queue is full");
    let rejected = DeliveryState::Rejected(Some(full));
    peer.connection.settle_incoming(link, vec![(3, rejected)]);
    assert_eq!(told(&mut peer).as_deref(), Some(RESOURCE_LIMIT_EXCEEDED));
    // Who waits for a reply would wait for ever.
    let mut peer = Peer::begun();
    peer.send(&Performative::Attach(Box::new(attach(0, LinkRole::Sender))));
    let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
        panic!("an attach");
    };
    peer.connection
        .accept(link, Acceptance::of_requests(100_000));
    peer.all();
    for part in large(false) {
        peer.send(&Performative::Transfer(part));
    }
    assert_eq!(told(&mut peer).as_deref(), size);
}

#[test]
fn links_settle_as_the_peer_asks() {
    for settles in [
        SenderSettles::Unsettled,
        SenderSettles::Settled,
        SenderSettles::Mixed,
    ] {
        for role in [LinkRole::Sender, LinkRole::Receiver] {
            let mut peer = Peer::begun();
            peer.attached(Attach {
                sender_settles: settles,
                ..attach(0, role)
            });
            let frames = peer.all();
            let Some(Performative::Attach(answer)) = frames.first() else {
                panic!("{frames:?}");
            };
            assert_eq!(answer.sender_settles, settles);
        }
    }
}

#[test]
fn messages_that_are_never_answered_stop_the_reading() {
    let mut peer = Peer::begun();
    let link = peer.sending(0);
    let mut id = 0;
    let mut storing = Vec::new();
    while peer.connection.wants_input() {
        peer.send(&Performative::Transfer(Transfer {
            more: true,
            ..transfer(0, id, vec![0; 50_000])
        }));
        peer.send(&Performative::Transfer(transfer(0, id, vec![0; 50_000])));
        storing.extend(peer.event());
        id += 1;
        assert!(id < 200, "16 MiB are not without end");
    }
    assert_eq!(
        told(&mut peer),
        None,
        "whoever waits for the store does nothing wrong"
    );
    storing.clear();
    let settled = (0..id).map(|id| (id, DeliveryState::Accepted)).collect();
    peer.connection.settle_incoming(link, settled);
    peer.connection.proceed(NOW);
    assert!(peer.connection.wants_input());
}

#[test]
fn what_is_not_finished_in_time_ends() {
    let part = || {
        Performative::Transfer(Transfer {
            more: true,
            ..transfer(0, 0, "x")
        })
    };
    let late = NOW + UNFINISHED_DEADLINE;
    // A message: its link ends, and the connection if nothing else comes in.
    for is_silent in [true, false] {
        let mut peer = Peer::begun();
        let link = peer.sending(0);
        peer.sending(1);
        peer.send(&part());
        assert_eq!(peer.connection.deadline(), late);
        peer.connection.tick(late);
        assert_eq!(told(&mut peer).as_deref(), Some(RESOURCE_LIMIT_EXCEEDED));
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
        );
        let silent = late + UNFINISHED_DEADLINE;
        assert!(peer.connection.deadline() <= silent);
        if !is_silent {
            let mut heartbeat = Vec::new();
            write_frame(&mut heartbeat, FrameKind::Amqp, 0, |_| {});
            peer.connection.receive(&heartbeat, late);
        }
        peer.connection.tick(silent);
        let expected = is_silent.then_some(RESOURCE_LIMIT_EXCEEDED);
        assert_eq!(told(&mut peer).as_deref(), expected);
        peer.connection.tick(silent + CLOSE_DEADLINE);
        assert_eq!(peer.connection.is_closed(), is_silent);
    }
    // One that ends in time, and one that begins later on the same link.
    let mut peer = Peer::begun();
    peer.sending(0);
    peer.send(&part());
    peer.send(&Performative::Transfer(transfer(0, 0, "x")));
    let mut bytes = Vec::new();
    frame(&mut bytes, 0, &part());
    peer.connection
        .receive(&bytes, NOW + Duration::from_secs(20));
    peer.connection.tick(late);
    assert_eq!(told(&mut peer), None);
    peer.connection.tick(late + Duration::from_secs(20));
    assert_eq!(told(&mut peer).as_deref(), Some(RESOURCE_LIMIT_EXCEEDED));
    // A frame.
    let mut peer = Peer::begun();
    peer.connection.receive(&bytes[..bytes.len() - 1], NOW);
    assert_eq!(peer.connection.deadline(), late);
    peer.connection.tick(late);
    assert!(peer.connection.is_closed());
    // One that follows another at once is another.
    let mut peer = Peer::begun();
    let twice = bytes.repeat(2);
    peer.sending(0);
    peer.connection.receive(&bytes[..9], NOW);
    peer.connection
        .receive(&twice[9..bytes.len() + 9], NOW + Duration::from_secs(20));
    peer.connection.tick(late);
    assert!(!peer.connection.is_closed());
}

/// Frames that take more than they give, and how they are repeated.
type Demand = fn(&mut Peer, u32);

#[test]
fn all_that_is_kept_for_a_peer_is_counted() {
    const LIMIT: usize = 256 * 1_024;
    let nulls = || vec![(Value::symbol("a"), Value::List(vec![Value::Null; 4_000]))];
    let demands: [(&str, Demand, bool); 6] = [
        (
            "sessions",
            |peer, n| peer.send_on(u16::try_from(n % 1_023 + 1).expect("small"), &begin(1)),
            true,
        ),
        (
            "links with long names",
            |peer, n| {
                let mut attach = attach(n, LinkRole::Receiver);
                attach.name = format!("{n}{}", "x".repeat(10_000));
                peer.send(&Performative::Attach(Box::new(attach)));
            },
            true,
        ),
        (
            "frames that are not whole",
            |peer, n| {
                let bytes: &[u8] = if n == 0 {
                    &[0, 1, 0, 0, 2, 0, 0, 0]
                } else {
                    &[0]
                };
                peer.connection.receive(bytes, NOW);
            },
            false,
        ),
        (
            "messages that are not whole",
            |peer, n| {
                if n < 8 {
                    peer.sending(n);
                }
                let part = transfer(n % 8, n % 8, vec![0; 10_000]);
                peer.send(&Performative::Transfer(Transfer { more: true, ..part }));
            },
            true,
        ),
        (
            "messages without a window",
            |peer, n| {
                if n == 0 {
                    peer.receiving(0, 1_000_000);
                }
                drop(peer.connection.deliver(1, vec![handout(1, 10)]));
            },
            false,
        ),
        (
            "messages that are not settled",
            |peer, n| {
                if n == 0 {
                    peer.attached(attach(0, LinkRole::Receiver));
                    peer.send(&grant(0, 0, 1_000_000));
                }
                drop(peer.connection.deliver(1, vec![handout(1, 10)]));
            },
            false,
        ),
    ];
    for (kind, demand, is_told) in demands {
        let mut peer = Peer::with(account(LIMIT));
        let (mut condition, mut counted) = (None, 0);
        let measured = allocation_counter::measure(|| {
            for n in 0..10_000 {
                demand(&mut peer, n);
                while peer.event().is_some() {}
                peer.take();
                counted = counted.max(peer.connection.account().taken());
                condition = condition.take().or(told(&mut peer));
                peer.output = BytesMut::new();
            }
        });
        assert!(counted <= LIMIT + 16 * 1_024, "{kind}: {counted}");
        // Frames are copied while they are read and written.
        let kept = measured.bytes_max;
        assert!(
            kept <= LIMIT as u64 + 64 * 1_024,
            "{kind}: {kept} for {counted}"
        );
        let expected = is_told.then_some(RESOURCE_LIMIT_EXCEEDED);
        assert_eq!(condition.as_deref(), expected, "{kind}");
        let account = peer.connection.account().clone();
        drop(peer);
        assert_eq!(account.taken(), 0, "{kind}");
    }
    // An answer needs nothing of the properties, nor of filters that are not known.
    let mut peer = Peer::with(account(LIMIT));
    let measured = allocation_counter::measure(|| {
        for n in 0..20 {
            let mut attach = attach(n, LinkRole::Receiver);
            attach.properties = nulls();
            attach.source = Some(LinkSource {
                filter: nulls(),
                ..LinkSource::default()
            });
            peer.send(&Performative::Attach(Box::new(attach)));
            while peer.event().is_some() {}
        }
    });
    assert!(measured.bytes_current < 40 * 1_024, "{measured:?}");
}

#[test]
fn messages_that_never_end_close_the_connection() {
    let mut peer = Peer::begun();
    for handle in 0..200 {
        peer.sending(handle);
    }
    for handle in 0..200 {
        for _ in 0..2 {
            let part = transfer(handle, handle, vec![0; 45_000]);
            peer.send(&Performative::Transfer(Transfer { more: true, ..part }));
        }
    }
    assert_eq!(told(&mut peer).as_deref(), Some(RESOURCE_LIMIT_EXCEEDED));
}

#[derive(Clone, Debug)]
enum Step {
    Send(u16, Performative),
    Bytes(Vec<u8>),
    Accept(LinkId),
    SettleIncoming(LinkId, u32),
    SettleOutgoing(LinkId, u64),
    Deliver(LinkId, usize),
    Drained(LinkId, u32),
    Detach(LinkId),
    Tick(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0..4u32;
    let link = || 1..8u64;
    let role = || prop_oneof![Just(LinkRole::Sender), Just(LinkRole::Receiver)];
    let edge = || prop_oneof![0..12u32, Just(u32::MAX), Just(u32::MAX / 2), any::<u32>()];
    let state = prop_oneof![
        Just(None),
        Just(Some(DeliveryState::Accepted)),
        Just(Some(DeliveryState::Received)),
        Just(Some(DeliveryState::Released)),
    ];
    let flow = (
        (
            prop::option::of(edge()),
            edge(),
            prop::option::of(small.clone()),
        ),
        (
            prop::option::of(edge()),
            prop::option::of(edge()),
            any::<bool>(),
            any::<bool>(),
        ),
    );
    let sent = prop_oneof![
        Just(begin(3)),
        (small.clone(), role())
            .prop_map(|(h, role)| Performative::Attach(Box::new(attach(h, role)))),
        flow.prop_map(|((next, window, handle), (count, credit, drain, echo))| {
            Performative::Flow(Flow {
                next_incoming_id: next,
                incoming_window: window,
                next_outgoing_id: 0,
                outgoing_window: 1,
                handle,
                delivery_count: count,
                link_credit: credit,
                available: None,
                drain,
                echo,
            })
        }),
        (
            small.clone(),
            prop::option::of(edge()),
            0..3_000usize,
            any::<[bool; 3]>()
        )
            .prop_map(|(handle, delivery_id, length, [settled, more, aborted])| {
                Performative::Transfer(Transfer {
                    delivery_id,
                    settled: Some(settled),
                    more,
                    aborted,
                    ..transfer(handle, 0, vec![0; length])
                })
            },),
        (
            role(),
            edge(),
            prop::option::of(edge()),
            any::<bool>(),
            state
        )
            .prop_map(|(role, first, last, settled, state)| {
                Performative::Disposition(Disposition {
                    role,
                    first,
                    last,
                    settled,
                    state,
                })
            },),
        small.prop_map(detach),
        Just(Performative::End(None)),
    ];
    prop_oneof![
        40 => (0..2u16, sent).prop_map(|(channel, each)| Step::Send(channel, each)),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Bytes),
        8 => link().prop_map(Step::Accept),
        4 => (link(), 0..12u32).prop_map(|(link, id)| Step::SettleIncoming(link, id)),
        4 => (link(), 0..12u64).prop_map(|(link, id)| Step::SettleOutgoing(link, id)),
        8 => (link(), 0..2_000usize).prop_map(|(link, length)| Step::Deliver(link, length)),
        2 => (link(), edge()).prop_map(|(link, limit)| Step::Drained(link, limit)),
        2 => link().prop_map(Step::Detach),
        1 => (0..400_000u64).prop_map(Step::Tick),
    ]
}

fn take_step(peer: &mut Peer, step: Step, now: &mut Timestamp) {
    let error = || crate::wire::amqp::AmqpError::new(ILLEGAL_STATE, "");
    let connection = &mut peer.connection;
    match step {
        Step::Send(channel, performative) => {
            let mut bytes = Vec::new();
            frame(&mut bytes, channel, &performative);
            connection.receive(&bytes, *now);
        }
        Step::Bytes(bytes) => connection.receive(&bytes, *now),
        Step::Accept(link) => {
            let message_bytes_max = Some(4_000);
            connection.accept(
                link,
                Acceptance {
                    message_bytes_max,
                    ..Acceptance::default()
                },
            );
        }
        Step::SettleIncoming(link, id) => {
            connection.settle_incoming(link, vec![(id, DeliveryState::Accepted)]);
        }
        Step::SettleOutgoing(link, id) => {
            connection.settle_outgoing(link, vec![(id, DeliveryState::Accepted)]);
        }
        Step::Deliver(link, length) => drop(connection.deliver(link, vec![handout(1, length)])),
        Step::Drained(link, limit) => connection.drained(link, limit),
        Step::Detach(link) => connection.detach(link, error()),
        Step::Tick(ms) => {
            *now = *now + std::time::Duration::from_millis(ms);
            connection.tick(*now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever a peer does and in whatever order it is answered: nothing panics, counts come back to zero, every
    /// link ends once, nothing is said of one before its answer or after its end, and what is written can be read.
    #[test]
    fn nothing_that_peers_do_is_a_danger(steps in prop::collection::vec(step(), 0..80)) {
        let mut peer = Peer::begun();
        let mut now = NOW;
        let (mut begun, mut ended) = (0, 0);
        let mut answered = HashSet::new();
        for step in steps {
            take_step(&mut peer, step, &mut now);
            while let Some(event) = peer.event() {
                begun += u32::from(matches!(event, ConnectionEvent::Attached { .. }));
                ended += u32::from(matches!(event, ConnectionEvent::Detached { .. }));
            }
            peer.take();
            while let Some(frame) = next_frame(&mut peer.output, FRAME_BYTES_MAX).expect("frames") {
                if frame.body.is_empty() {
                    continue;
                }
                let of = frame.channel;
                match Performative::decode(frame.body).expect("a performative") {
                    Performative::Attach(each) => {
                        prop_assert!(answered.insert((of, each.handle)));
                    }
                    Performative::Detach(each) => {
                        prop_assert!(answered.remove(&(of, each.handle)));
                    }
                    Performative::Transfer(each) => {
                        prop_assert!(answered.contains(&(of, each.handle)));
                    }
                    Performative::Flow(flow) => {
                        let is_known = |handle| answered.contains(&(of, handle));
                        prop_assert!(flow.handle.is_none_or(is_known));
                    }
                    Performative::End(_) => answered.retain(|(channel, _)| *channel != of),
                    Performative::Open(_)
                    | Performative::Begin(_)
                    | Performative::Disposition(_)
                    | Performative::Close(_) => {}
                }
            }
            prop_assert!(peer.output.is_empty());
        }
        peer.connection.end();
        while let Some(event) = peer.event() {
            ended += u32::from(matches!(event, ConnectionEvent::Detached { .. }));
        }
        prop_assert_eq!(begun, ended);
        prop_assert_eq!(peer.connection.counts(), [0; 2]);
        prop_assert_eq!(peer.connection.account().taken(), CONNECTION_BYTES);
    }

    #[test]
    fn no_bytes_are_a_danger(bytes in prop::collection::vec(any::<u8>(), 0..300), sasl in any::<bool>()) {
        let mut peer = Peer::new();
        let protocol = if sasl { Protocol::Sasl } else { Protocol::Amqp };
        peer.connection.receive(&protocol.header(), NOW);
        peer.connection.receive(&bytes, NOW);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_little_memory_is_handed_one_message_after_the_other() {
    // Nobody has more than half.
    let account = Budget::of(2_048).account([None, None], usize::MAX);
    let bytes_max = |limit: usize| if limit > 1 { 1_000 } else { 100 };
    let (all, limit) = memory_to_take(&account, 7, bytes_max).await;
    assert_eq!((all.bytes(), limit), (1_000, 7));
    let waiting = memory_to_take(&account, 7, bytes_max);
    let (one, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(all);
        std::mem::forget(account.take(900).expect("memory of somebody else"));
    });
    assert_eq!((one.0.bytes(), one.1), (100, 1));
}
