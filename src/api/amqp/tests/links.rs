//! Opening, credit, transfers and dispositions.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::api::amqp::event::Decision;
use crate::api::amqp::limits::OUTPUT_BYTES_MAX;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::batch::BATCH_FORMAT;
use crate::wire::amqp::condition::{MESSAGE_LOCK_LOST, NOT_FOUND};
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::state::Modified;
use crate::wire::amqp::value::get;

fn sasl_init(mechanism: &str, response: &[u8]) -> Vec<u8> {
    let mut bytes = Protocol::Sasl.header().to_vec();
    let response = Value::Binary(Bytes::copy_from_slice(response));
    let init = Value::composite(0x41, vec![Value::symbol(mechanism), response]);
    write_frame(&mut bytes, FrameKind::Sasl, 0, |out| {
        out.extend(init.to_bytes());
    });
    bytes
}

/// Everything that a client may say before it has heard anything.
fn pipelined() -> Vec<u8> {
    let mut bytes = sasl_init("MSSBCBS", b"");
    bytes.extend(Protocol::Amqp.header());
    frame(&mut bytes, 0, &open(FRAME_BYTES_MAX));
    frame(&mut bytes, 5, &begin(100));
    frame(
        &mut bytes,
        5,
        &Performative::Attach(Box::new(attach(0, LinkRole::Receiver))),
    );
    frame(&mut bytes, 5, &grant(0, 0, 10));
    bytes
}

fn answer(peer: &mut Peer) -> Vec<u8> {
    let mut output = peer.connection.take_output(NOW);
    while let Some(event) = peer.event() {
        if let ConnectionEvent::Attached { link, .. } = event {
            peer.connection.accept(link, Acceptance::default());
        }
        output.extend(peer.connection.take_output(NOW));
    }
    output
}

#[test]
fn a_client_may_say_everything_at_once_or_bit_by_bit() {
    let bytes = pipelined();
    let mut peer = Peer::new();
    peer.connection.receive(&bytes, NOW);
    let at_once = answer(&mut peer);
    let mut peer = Peer::new();
    let mut bit_by_bit = Vec::new();
    for byte in &bytes {
        peer.connection.receive(&[*byte], NOW);
        bit_by_bit.extend(answer(&mut peer));
    }
    assert_eq!(at_once, bit_by_bit);
    let mut heard = BytesMut::from(at_once.as_slice());
    assert_eq!(heard.split_to(8).as_ref(), Protocol::Sasl.header());
    let mut sasl = || {
        next_frame(&mut heard, 512)
            .expect("frames")
            .expect("a frame")
            .body
    };
    let offer = String::from_utf8_lossy(&sasl()).into_owned();
    for mechanism in ["MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL"] {
        assert!(offer.contains(mechanism), "{offer}");
    }
    assert!(sasl().ends_with(&[0x50, 0]), "the outcome is 0");
    assert_eq!(heard.split_to(8).as_ref(), Protocol::Amqp.header());
    let peer = &mut Peer {
        connection: Connection::new(String::new(), account(CLIENT_BYTES_MAX), NOW),
        output: heard,
    };
    let Some((0, Performative::Open(open))) = peer.next() else {
        panic!("an open");
    };
    assert!(open.channel_max >= 255 && open.max_frame_size == 65_536);
    assert_eq!(open.idle_timeout_ms, Some(120_000));
    let Some((5, Performative::Begin(begin))) = peer.next() else {
        panic!("a begin on the client's channel");
    };
    assert_eq!(begin.remote_channel, Some(5));
    let Some((5, Performative::Attach(attach))) = peer.next() else {
        panic!("an attach");
    };
    assert_eq!(
        (attach.role, attach.initial_delivery_count),
        (LinkRole::Sender, Some(0))
    );
    assert_eq!(
        attach.source.and_then(|source| source.address),
        Some("orders".to_owned())
    );
}

#[test]
fn keys_are_looked_at_and_what_follows_waits() {
    for (is_right, code) in [(true, 0), (false, 1)] {
        let mut peer = Peer::new();
        let mut bytes = sasl_init("PLAIN", b"\0rule\0key");
        bytes.extend(Protocol::Amqp.header());
        peer.connection.receive(&bytes, NOW);
        let Some(ConnectionEvent::Plain(plain)) = peer.event() else {
            panic!("credentials");
        };
        assert_eq!((plain.rule.as_str(), plain.key.reveal()), ("rule", "key"));
        assert!(!peer.connection.wants_input());
        peer.connection.take_output(NOW);
        peer.connection.authenticated(is_right, NOW);
        assert_eq!(peer.connection.is_closed(), !is_right);
        peer.take();
        let outcome = next_frame(&mut peer.output, 512)
            .expect("frames")
            .expect("a frame");
        assert!(outcome.body.ends_with(&[0x50, code]));
        assert_eq!(peer.output.is_empty(), !is_right, "the header that follows");
    }
    for (mechanism, response) in [("PLAIN", &b"key"[..]), ("SCRAM-SHA-256", b"")] {
        let mut peer = Peer::new();
        peer.connection
            .receive(&sasl_init(mechanism, response), NOW);
        assert!(peer.connection.is_closed(), "{mechanism}");
    }
}

#[test]
fn what_speaks_another_protocol_hears_ours() {
    for header in [
        b"AMQP\x00\x00\x09\x01",
        b"AMQP\x02\x01\x00\x00",
        b"GET / HT",
    ] {
        let mut peer = Peer::new();
        peer.connection.receive(header, NOW);
        assert_eq!(peer.connection.take_output(NOW), Protocol::Sasl.header());
        assert!(peer.connection.is_closed());
    }
}

#[test]
fn rejected_links_have_no_ends_and_a_reason() {
    for role in [LinkRole::Sender, LinkRole::Receiver] {
        let mut peer = Peer::begun();
        peer.send(&Performative::Attach(Box::new(attach(4, role))));
        let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
            panic!("an attach");
        };
        peer.connection
            .detach(link, AmqpError::new(NOT_FOUND, "gone"));
        let frames = peer.all();
        let [Performative::Attach(answer), Performative::Detach(detach)] = &frames[..] else {
            panic!("{frames:?}");
        };
        assert_eq!((&answer.source, &answer.target), (&None, &None));
        assert!(detach.closed);
        assert_eq!(
            detach.error.as_ref().map(|error| error.condition.as_ref()),
            Some(NOT_FOUND)
        );
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
        );
        // The handle is free once the client has answered.
        peer.send(&super::detach(4));
        assert!(peer.all().is_empty());
        peer.send(&Performative::Attach(Box::new(attach(4, role))));
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Attached { link: new, .. }) if new != link)
        );
        // An answer to the first one comes too late.
        peer.connection.accept(link, Acceptance::default());
        assert!(peer.all().is_empty());
    }
}

#[test]
fn a_link_that_ends_before_its_answer_is_answered_first() {
    for by_peer in [false, true] {
        let mut peer = Peer::begun();
        peer.send(&Performative::Attach(Box::new(attach(
            4,
            LinkRole::Receiver,
        ))));
        let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
            panic!("an attach");
        };
        if by_peer {
            peer.send(&super::detach(4));
        } else {
            let error = AmqpError::new(NOT_FOUND, "gone");
            peer.connection.detach(link, error);
        }
        // Whoever opens it is told of the end too late.
        peer.connection.accept(link, Acceptance::default());
        let frames = peer.all();
        let [Performative::Attach(answer), Performative::Detach(detached)] = &frames[..] else {
            panic!("{frames:?}");
        };
        assert_eq!((&answer.source, &answer.target), (&None, &None));
        assert_eq!(detached.error.is_some(), !by_peer);
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
        );
        if !by_peer {
            peer.send(&super::detach(4));
        }
        assert!(peer.all().is_empty(), "it has ended once");
        assert!(peer.event().is_none());
    }
}

#[test]
fn messages_are_handed_out_within_credit() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 2);
    let rest = peer
        .connection
        .deliver(link, (1..=3).map(|tag| handout(tag, 10)).collect());
    let tags: Vec<_> = rest.into_iter().map(|each| each.tag).collect();
    assert_eq!(tags, [handout(3, 10).tag]);
    let frames = peer.all();
    for (frame, tag) in frames.iter().zip(1..) {
        let Performative::Transfer(transfer) = frame else {
            panic!("{frame:?}");
        };
        assert_eq!(transfer.delivery_id, Some(u32::from(tag)));
        assert_eq!(transfer.delivery_tag, Some(Bytes::from(vec![tag; 16])));
        assert_eq!(transfer.payload, vec![tag; 10]);
        assert_eq!((transfer.settled, transfer.more), (Some(false), false));
    }
    assert_eq!(frames.len(), 2);
    peer.send(&grant(0, 2, 1));
    assert!(matches!(
        peer.event(),
        Some(ConnectionEvent::Credit { limit: 3, .. })
    ));
    assert!(
        peer.connection
            .deliver(link, vec![handout(3, 10)])
            .is_empty()
    );
    // Credit that was taken back, and credit that counts from long ago.
    peer.send(&grant(0, 1, 1));
    assert_eq!(peer.connection.deliver(link, vec![handout(4, 10)]).len(), 1);
}

#[test]
fn ids_of_a_session_are_contiguous_over_its_links() {
    let mut peer = Peer::begun();
    let links = [peer.receiving(0, 10), peer.receiving(1, 10)];
    for tag in 0..6u8 {
        let link = links[usize::from(tag) % 2];
        peer.connection.deliver(link, vec![handout(tag, 1)]);
    }
    let frames = peer.all();
    let ids = frames.into_iter().map(into_transfer);
    let ids: Vec<_> = ids.map(|each| (each.handle, each.delivery_id)).collect();
    let expected: Vec<_> = (0..6).map(|n| (n % 2, Some(n + 1))).collect();
    assert_eq!(ids, expected);
}

#[test]
fn large_messages_take_several_frames_within_the_window() {
    let mut peer = Peer::begun_with(2, 512);
    let link = peer.attached(attach(0, LinkRole::Receiver));
    let credit = |next_incoming_id, incoming_window| {
        let Performative::Flow(flow) = grant(0, 0, 10) else {
            unreachable!("a flow");
        };
        Performative::Flow(Flow {
            next_incoming_id: Some(next_incoming_id),
            incoming_window,
            ..flow
        })
    };
    peer.send(&credit(1, 2));
    peer.all();
    assert!(
        peer.connection
            .deliver(link, vec![handout(7, 1_000), handout(8, 1)])
            .is_empty()
    );
    let first = peer.all();
    assert_eq!(first.len(), 2, "the window is used up");
    assert!(peer.connection.unsent_bytes() > 0);
    peer.send(&credit(3, 2));
    let second = peer.all();
    let both = first.into_iter().chain(second);
    let transfers: Vec<Transfer> = both.map(into_transfer).collect();
    let [a, b, c, d] = &transfers[..] else {
        panic!("{transfers:?}");
    };
    assert_eq!([a.more, b.more, c.more, d.more], [true, true, false, false]);
    assert_eq!(
        [a, b, c]
            .map(|each| each.payload.len())
            .iter()
            .sum::<usize>(),
        1_000
    );
    assert_eq!(d.payload, vec![8]);
    assert_eq!(peer.connection.unsent_bytes(), 0);
}

#[test]
fn draining_gives_up_what_is_left() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 10);
    peer.connection.deliver(link, vec![handout(1, 1)]);
    peer.all();
    let Performative::Flow(flow) = grant(0, 1, 9) else {
        unreachable!("a flow");
    };
    peer.send(&Performative::Flow(Flow {
        drain: true,
        next_incoming_id: Some(2),
        ..flow
    }));
    assert!(matches!(
        peer.event(),
        Some(ConnectionEvent::Credit {
            limit: 10,
            drain: true,
            ..
        })
    ));
    // An answer to another flow than the newest is none.
    peer.connection.drained(link, 5);
    assert!(peer.all().is_empty());
    peer.connection.deliver(link, vec![handout(2, 1)]);
    peer.connection.drained(link, 10);
    let frames = peer.all();
    let [Performative::Transfer(_), Performative::Flow(flow)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert!(flow.drain);
    assert_eq!(
        (flow.handle, flow.delivery_count, flow.link_credit),
        (Some(0), Some(10), Some(0))
    );
    assert_eq!(peer.connection.deliver(link, vec![handout(3, 1)]).len(), 1);
}

#[test]
fn an_echo_is_answered() {
    let mut peer = Peer::begun();
    peer.receiving(0, 10);
    let Performative::Flow(flow) = grant(0, 0, 10) else {
        unreachable!("a flow");
    };
    peer.send(&Performative::Flow(Flow {
        echo: true,
        ..flow.clone()
    }));
    let frames = peer.all();
    assert!(matches!(&frames[..], [Performative::Flow(flow)] if flow.link_credit == Some(10)));
    peer.send(&Performative::Flow(Flow {
        echo: true,
        handle: None,
        ..flow
    }));
    let frames = peer.all();
    assert!(matches!(&frames[..], [Performative::Flow(flow)] if flow.handle.is_none()));
}

#[test]
fn the_properties_of_a_batch_do_not_count_against_the_size_of_messages() {
    let mut peer = Peer::begun();
    peer.send(&Performative::Attach(Box::new(attach(0, LinkRole::Sender))));
    let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
        panic!("an attach");
    };
    let acceptance = Acceptance {
        message_bytes_max: Some(100),
        ..Acceptance::default()
    };
    peer.connection.accept(link, acceptance);
    peer.all();
    let section = |code: u8, bytes: usize| {
        let mut section = vec![0x00, 0x53, code, 0xa0, bytes as u8];
        section.resize(section.len() + bytes, 0);
        section
    };
    let properties = b"\x00\x53\x73\xc0\x22\x01\xa1\x1f0123456789abcdef0123456789abcde".to_vec();
    for (id, format, properties, body, is_taken) in [
        (7, BATCH_FORMAT, &properties, 95, true),
        (8, BATCH_FORMAT, &properties, 96, false),
        (9, 0, &Vec::new(), 95, true),
        (10, 0, &properties, 95, false),
    ] {
        let payload = [properties.clone(), section(0x75, body)].concat();
        peer.send(&Performative::Transfer(Transfer {
            message_format: Some(format),
            ..transfer(0, id, payload)
        }));
        let event = peer.event();
        assert_eq!(event.is_some(), is_taken, "{id}: {event:?}");
        if is_taken {
            let settled = vec![(id, DeliveryState::Accepted)];
            peer.connection.settle_incoming(link, settled);
        }
        peer.all();
    }
}

#[test]
fn clients_are_told_how_large_batches_are_where_messages_are_larger() {
    const USUAL: u64 = 1_048_576;
    let name = "com.microsoft:max-message-batch-size";
    for (bytes, expected) in [
        (USUAL / 4, None),
        (USUAL, None),
        (2 * USUAL, Some(Value::Long(1_048_576))),
    ] {
        let mut peer = Peer::begun();
        peer.send(&Performative::Attach(Box::new(attach(0, LinkRole::Sender))));
        let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
            panic!("an attach");
        };
        peer.connection.accept(link, Acceptance::of_messages(bytes));
        let frames = peer.all();
        let Some(Performative::Attach(answer)) = frames.first() else {
            panic!("{frames:?}");
        };
        assert_eq!(answer.max_message_size, Some(bytes));
        assert_eq!(get(&answer.properties, name), expected.as_ref(), "{bytes}");
    }
}

#[test]
fn messages_come_in_whole_and_are_answered_after() {
    let mut peer = Peer::begun();
    peer.send(&Performative::Attach(Box::new(attach(0, LinkRole::Sender))));
    let Some(ConnectionEvent::Attached { link, .. }) = peer.event() else {
        panic!("an attach");
    };
    let acceptance = Acceptance {
        message_bytes_max: Some(100),
        ..Acceptance::default()
    };
    peer.connection.accept(link, acceptance);
    let frames = peer.all();
    let [Performative::Attach(answer), Performative::Flow(flow)] = &frames[..] else {
        panic!("{frames:?}");
    };
    // Whatever the client asked for: one answer, the last one.
    assert_eq!(answer.receiver_settles, ReceiverSettles::First);
    assert_eq!(answer.max_message_size, Some(100));
    assert_eq!(
        (flow.link_credit, flow.delivery_count),
        (Some(1_000), Some(0))
    );
    peer.send(&Performative::Transfer(Transfer {
        more: true,
        ..transfer(0, 7, "ab")
    }));
    assert!(peer.event().is_none());
    // Frames after the first may leave out what it said.
    peer.send(&Performative::Transfer(Transfer {
        delivery_id: None,
        delivery_tag: None,
        message_format: None,
        settled: None,
        ..transfer(0, 0, "cd")
    }));
    let Some(ConnectionEvent::Message {
        delivery: 7,
        format: 0,
        payload,
        ..
    }) = peer.event()
    else {
        panic!("a message");
    };
    assert_eq!(payload, "abcd");
    assert!(peer.all().is_empty(), "nothing before it is settled");
    for (id, body) in [(8, "x"), (9, "y"), (10, "z")] {
        peer.send(&Performative::Transfer(transfer(0, id, body)));
    }
    peer.send(&Performative::Transfer(Transfer {
        settled: Some(true),
        ..transfer(0, 11, "!")
    }));
    let lost = DeliveryState::Rejected(Some(AmqpError::new(MESSAGE_LOCK_LOST, "")));
    let settled = vec![
        (7, DeliveryState::Accepted),
        (8, DeliveryState::Accepted),
        (9, lost.clone()),
        (10, DeliveryState::Accepted),
        (11, DeliveryState::Accepted), // which the client does not wait for
        (99, DeliveryState::Accepted), // which never was
    ];
    peer.connection.settle_incoming(link, settled);
    let frames = peer.all();
    let answers: Vec<_> = frames
        .into_iter()
        .map(|each| {
            let Performative::Disposition(each) = each else {
                panic!("{each:?}");
            };
            assert!(each.settled && each.role == LinkRole::Receiver);
            (each.first, each.last, each.state)
        })
        .collect();
    let accepted = Some(DeliveryState::Accepted);
    let expected = [
        (7, Some(8), accepted.clone()),
        (9, None, Some(lost)),
        (10, None, accepted),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn aborted_and_oversized_messages_leave_the_link_as_it_was() {
    let mut peer = Peer::begun();
    let link = peer.sending(0);
    peer.send(&Performative::Transfer(Transfer {
        more: true,
        ..transfer(0, 1, "ab")
    }));
    peer.send(&Performative::Transfer(Transfer {
        aborted: true,
        ..transfer(0, 1, "")
    }));
    for more in [true, true, true, false] {
        let part = transfer(0, 2, vec![0; 40_000]);
        peer.send(&Performative::Transfer(Transfer { more, ..part }));
    }
    let frames = peer.all();
    let [Performative::Disposition(rejected)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert!(matches!(
        &rejected.state,
        Some(DeliveryState::Rejected(Some(_)))
    ));
    peer.send(&Performative::Transfer(transfer(0, 3, "fine")));
    assert!(
        matches!(peer.event(), Some(ConnectionEvent::Message { delivery: 3, link: of, .. }) if of == link)
    );
}

#[test]
fn credit_is_renewed_as_messages_are_settled() {
    let mut peer = Peer::begun();
    let link = peer.sending(0);
    for id in 0..600 {
        peer.send(&Performative::Transfer(transfer(0, id, "x")));
    }
    assert!(peer.all().is_empty(), "600 of 1000 are under way");
    let settled = (0..600).map(|id| (id, DeliveryState::Accepted)).collect();
    peer.connection.settle_incoming(link, settled);
    let frames = peer.all();
    let [Performative::Disposition(_), Performative::Flow(flow)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert_eq!(
        (flow.delivery_count, flow.link_credit),
        (Some(600), Some(1_000))
    );
}

#[test]
fn ranges_are_settled_link_by_link_and_once() {
    let mut peer = Peer::begun();
    let links = [peer.receiving(0, 10), peer.receiving(1, 10)];
    for tag in 0..6u8 {
        peer.connection
            .deliver(links[usize::from(tag) % 2], vec![handout(tag, 1)]);
    }
    peer.all();
    peer.send(&disposition(2, 5, DeliveryState::Accepted));
    let mut answers = Vec::new();
    while let Some(event) = peer.event() {
        let ConnectionEvent::Disposition {
            link,
            deliveries,
            decision,
            settled: false,
        } = event
        else {
            panic!("{event:?}");
        };
        assert_eq!(decision, Decision::Now(ReceiverOutcome::Complete));
        answers.push((
            link,
            deliveries.iter().map(|each| each.id).collect::<Vec<_>>(),
        ));
    }
    assert_eq!(answers, [(links[0], vec![3, 5]), (links[1], vec![2, 4])]);
    // Said again, and for what never was.
    peer.send(&disposition(2, 5, DeliveryState::Released));
    peer.send(&disposition(100, 4_000_000_000, DeliveryState::Accepted));
    peer.send(&disposition(0, 0, DeliveryState::Accepted));
    peer.send(&disposition(6, 1, DeliveryState::Accepted));
    peer.send(&disposition(6, 6, DeliveryState::Received));
    assert!(peer.event().is_none());
    let both = [2, 3].map(|id| (id, DeliveryState::Accepted));
    peer.connection.settle_outgoing(links[0], both.to_vec());
    let frames = peer.all();
    let [Performative::Disposition(answer)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert_eq!(
        (answer.role, answer.first, answer.last),
        (LinkRole::Sender, 2, Some(3))
    );
    // What the client has settled itself needs no answer.
    let Performative::Disposition(settling) = disposition(1, 6, DeliveryState::Released) else {
        unreachable!("a disposition");
    };
    peer.send(&Performative::Disposition(Disposition {
        settled: true,
        ..settling
    }));
    let told: Vec<_> = std::iter::from_fn(|| peer.event()).collect();
    assert_eq!(told.len(), 2);
    peer.connection
        .settle_outgoing(links[0], vec![(1, DeliveryState::Released)]);
    assert!(peer.all().is_empty());
}

#[test]
fn a_link_takes_its_deliveries_along() {
    let mut peer = Peer::begun_with(1, 512);
    let (link, other) = (
        peer.attached(attach(0, LinkRole::Receiver)),
        peer.attached(attach(1, LinkRole::Receiver)),
    );
    for handle in [0, 1] {
        let Performative::Flow(flow) = grant(handle, 0, 10) else {
            unreachable!("a flow");
        };
        peer.send(&Performative::Flow(Flow {
            incoming_window: 1,
            ..flow
        }));
    }
    peer.all();
    peer.connection.deliver(link, vec![handout(1, 2_000)]);
    peer.connection.deliver(other, vec![handout(2, 1)]);
    assert_eq!(peer.all().len(), 1);
    peer.send(&detach(0));
    let Performative::Flow(flow) = grant(1, 0, 10) else {
        unreachable!("a flow");
    };
    peer.send(&Performative::Flow(Flow {
        next_incoming_id: Some(2),
        incoming_window: 9,
        ..flow
    }));
    let frames = peer.all();
    let [Performative::Detach(_), Performative::Transfer(transfer)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert_eq!((transfer.handle, transfer.payload.as_ref()), (1, &[2][..]));
    assert_eq!(peer.connection.unsent_bytes(), 0);
    peer.send(&disposition(1, 1, DeliveryState::Accepted));
    // What the client has not got whole was given back at once, and nobody hears of it again.
    let mut settled = Vec::new();
    while let Some(event) = peer.event() {
        if let ConnectionEvent::Disposition {
            link,
            decision,
            settled: is_settled,
            ..
        } = event
        {
            settled.push((link, decision, is_settled));
        }
    }
    assert_eq!(
        settled,
        [(link, Decision::Now(ReceiverOutcome::Release), true)]
    );
}

#[test]
fn what_was_handed_out_can_be_settled_after_its_link() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 10);
    peer.connection
        .deliver(link, vec![handout(1, 1), handout(2, 1)]);
    peer.all();
    peer.send(&detach(0));
    assert!(matches!(&peer.all()[..], [Performative::Detach(_)]));
    assert!(matches!(peer.event(), Some(ConnectionEvent::Detaching { link: of }) if of == link));
    // Nothing more is handed out over it.
    let returned = peer.connection.deliver(link, vec![handout(3, 1)]);
    assert_eq!(returned.len(), 1);
    for id in [1, 2] {
        peer.send(&disposition(id, id, DeliveryState::Accepted));
        assert!(
            matches!(peer.event(), Some(ConnectionEvent::Disposition { link: of, .. }) if of == link)
        );
        assert!(peer.event().is_none(), "the link goes once all is settled");
        let settled = vec![(u64::from(id), DeliveryState::Accepted)];
        peer.connection.settle_outgoing(link, settled);
        assert!(matches!(&peer.all()[..], [Performative::Disposition(_)]));
    }
    assert!(
        matches!(peer.event(), Some(ConnectionEvent::Detached { link: of, by_peer: true }) if of == link)
    );
    // What is settled again is not the client's any more, and it is told.
    peer.send(&disposition(1, 2, DeliveryState::Accepted));
    let frames = peer.all();
    let [Performative::Disposition(lost)] = &frames[..] else {
        panic!("{frames:?}");
    };
    assert!(matches!(
        &lost.state,
        Some(DeliveryState::Rejected(Some(_)))
    ));
}

#[test]
fn what_is_not_settled_ends_as_the_client_asks() {
    let mut peer = Peer::begun();
    let mut with_default = attach(0, LinkRole::Receiver);
    with_default.source = Some(LinkSource {
        address: Some("orders".to_owned()),
        default_outcome: Some(Box::new(DeliveryState::Released)),
        ..LinkSource::default()
    });
    let link = peer.attached(with_default);
    peer.send(&grant(0, 0, 10));
    peer.all();
    peer.event();
    peer.connection.deliver(link, vec![handout(1, 1)]);
    peer.send(&detach(0));
    assert!(matches!(
        peer.event(),
        Some(ConnectionEvent::Disposition {
            decision: Decision::Now(ReceiverOutcome::Release),
            settled: true,
            ..
        })
    ));
    assert!(matches!(peer.event(), Some(ConnectionEvent::Detached { link: of, .. }) if of == link));
}

#[test]
fn sessions_and_connections_end_with_their_links() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 10);
    peer.send(&Performative::End(None));
    assert!(matches!(&peer.all()[..], [Performative::End(None)]));
    assert!(
        matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
    );
    peer.send(&begin(10));
    let link = peer.receiving(0, 10);
    peer.all();
    peer.send(&Performative::Close(None));
    assert!(matches!(&peer.all()[..], [Performative::Close(None)]));
    assert!(
        matches!(peer.event(), Some(ConnectionEvent::Detached { link: gone, .. }) if gone == link)
    );
    assert!(peer.connection.is_closed());
}

#[test]
fn silence_is_broken_and_ended() {
    let mut peer = Peer::begun(); // which wants to hear something every 60 s
    assert_eq!(peer.connection.deadline(), NOW + Duration::from_secs(30));
    peer.connection.tick(NOW + Duration::from_secs(29));
    assert!(peer.connection.take_output(NOW).is_empty());
    let later = NOW + Duration::from_secs(30);
    peer.connection.tick(later);
    assert_eq!(peer.connection.take_output(later), [0, 0, 0, 8, 2, 0, 0, 0]);
    assert_eq!(peer.connection.deadline(), NOW + Duration::from_secs(60));
    // A heartbeat of the peer counts, too.
    peer.connection.receive(&[0, 0, 0, 8, 2, 0, 0, 0], later);
    let late = later + Duration::from_secs(240);
    peer.connection.tick(late);
    let frames = peer.all();
    assert!(
        matches!(&frames[..], [Performative::Close(Some(_))]),
        "{frames:?}"
    );
    assert!(!peer.connection.is_closed(), "the peer may answer");
    peer.connection.tick(late + Duration::from_secs(5));
    assert!(peer.connection.is_closed());
}

proptest! {
    /// However large messages are and whatever the windows, they arrive whole and in order.
    #[test]
    fn what_is_handed_out_arrives(
        sizes in prop::collection::vec(0..3_000usize, 1..12),
        window in 1..5u32,
        frame_size in 512..2_000u32,
    ) {
        let mut peer = Peer::begun_with(window, frame_size);
        let link = peer.attached(attach(0, LinkRole::Receiver));
        let messages = (0..).zip(&sizes).map(|(tag, size)| handout(tag, *size));
        let mut seen = 1;
        let flow = |seen: u32| {
            let Performative::Flow(flow) = grant(0, 0, 100) else {
                unreachable!("a flow");
            };
            Performative::Flow(Flow { next_incoming_id: Some(seen), incoming_window: window, ..flow })
        };
        peer.send(&flow(seen));
        peer.all();
        prop_assert!(peer.connection.deliver(link, messages.collect()).is_empty());
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut is_whole = true;
        loop {
            let frames = peer.all();
            prop_assert!(frames.len() <= window as usize);
            if frames.is_empty() {
                break;
            }
            for frame in frames {
                let Performative::Transfer(transfer) = frame else {
                    panic!("{frame:?}");
                };
                seen += 1;
                if std::mem::replace(&mut is_whole, !transfer.more) {
                    found.push(Vec::new());
                }
                found.last_mut().expect("a message").extend(transfer.payload);
            }
            peer.send(&flow(seen));
        }
        prop_assert!(is_whole);
        let expected: Vec<Vec<u8>> =
            (0..).zip(&sizes).map(|(tag, size)| vec![tag; *size]).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn what_a_frame_says_of_many_links_is_kept_once() {
    let mut peer = Peer::begun();
    let links: Vec<_> = (0..5).map(|handle| peer.receiving(handle, 10)).collect();
    for link in links {
        peer.connection.deliver(link, vec![handout(1, 1)]);
    }
    peer.all();
    while peer.event().is_some() {}
    let set = vec![("note".into(), Value::String("x".repeat(1_000)))];
    let state = DeliveryState::Modified(Modified {
        annotations: set,
        ..Modified::default()
    });
    peer.send(&disposition(1, 5, state));
    let decided = std::iter::from_fn(|| {
        let event = peer.event()?;
        let ConnectionEvent::Disposition {
            decision: Decision::Now(outcome),
            ..
        } = event
        else {
            panic!("{event:?}");
        };
        Some(outcome)
    });
    let decided: Vec<_> = decided.collect();
    assert_eq!(decided.len(), 5);
    assert!(decided.iter().all(|each| each.is_shared(&decided[0])));
}

#[test]
fn frames_wait_until_what_others_caused_is_written() {
    let mut peer = Peer::begun();
    let link = peer.receiving(0, 4_000);
    for _ in 0..4_000 {
        peer.connection.deliver(link, vec![handout(1, 1)]);
    }
    peer.all();
    while peer.event().is_some() {}
    // Every second one is settled, and each frame of forty bytes is answered with two thousand frames.
    let mut frames = Vec::new();
    for id in (1..=4_000).step_by(2) {
        let Performative::Disposition(one) = disposition(id, id, DeliveryState::Accepted) else {
            unreachable!("a disposition");
        };
        let settled = Disposition {
            settled: true,
            ..one
        };
        frame(&mut frames, 0, &Performative::Disposition(settled));
    }
    for _ in 0..100 {
        frame(
            &mut frames,
            0,
            &disposition(1, 4_000, DeliveryState::Accepted),
        );
    }
    peer.connection.receive(&frames, NOW);
    let mut pauses = 0;
    while peer.connection.can_proceed() {
        assert!(!peer.connection.wants_input());
        assert!(peer.connection.output_bytes() < 2 * OUTPUT_BYTES_MAX);
        drop(peer.connection.take_output(NOW));
        while peer.event().is_some() {}
        peer.connection.proceed(NOW);
        pauses += 1;
    }
    assert!(pauses > 10, "{pauses}");
    assert!(peer.connection.wants_input());
}
