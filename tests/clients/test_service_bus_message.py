"""What a message is made of, as the stock Service Bus client for Python writes and reads it."""

import datetime
import uuid
from decimal import Decimal

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusReceiveMode
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageBodyType
from azure.servicebus.exceptions import MessageSizeExceededError

from amqp import composite, compound, described, symbol, text
from queues import SIZES, manage, over_all_transports, received, receiver, send

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def test_messages_arrive_with_their_properties(client, queue):
    at = datetime.datetime.now(datetime.timezone.utc)
    sent = ServiceBusMessage(
        b"\x00body",
        application_properties={"int": 7, "text": "grün", "yes": True, "half": 0.5},
        content_type="application/x-test",
        correlation_id="c1",
        message_id="m1",
        subject="label",
        to="to",
        reply_to="reply",
        time_to_live=datetime.timedelta(minutes=5),
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages(max_message_count=5)
        assert b"".join(message.body) == b"\x00body"
        assert (message.message_id, message.correlation_id) == ("m1", "c1")
        assert (message.subject, message.to, message.reply_to) == ("label", "to", "reply")
        assert message.content_type == "application/x-test"
        assert message.time_to_live == datetime.timedelta(minutes=5)
        assert message.application_properties == {
            b"int": 7,
            b"text": "grün".encode(),
            b"yes": True,
            b"half": 0.5,
        }
        assert message.sequence_number > 0 and message.delivery_count == 0
        assert abs(message.enqueued_time_utc - at) < datetime.timedelta(seconds=30)
        assert message.locked_until_utc > at
        assert message.raw_amqp_message.delivery_annotations[b"x-opt-lock-token"] == message.lock_token
        receiving.complete_message(message)
        assert receiving.receive_messages(max_wait_time=1) == []


def test_annotated_messages_arrive(client, queue):
    sent = AmqpAnnotatedMessage(
        data_body=[b"a", b"b"],
        annotations={"color": "red"},
        delivery_annotations={"hop": 1},
        footer={"sum": 2},
    )
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(sent)
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        assert [bytes(part) for part in message.raw_amqp_message.body] == [b"a", b"b"]
        assert message.raw_amqp_message.annotations[b"color"] == b"red"
        told = message.raw_amqp_message.delivery_annotations
        assert told == {b"hop": 1, b"x-opt-lock-token": message.lock_token}
        receiving.complete_message(message)


def test_what_is_so_of_most_messages_is_not_told(client, queue):
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    for received in (ServiceBusReceiveMode.PEEK_LOCK, mode):
        send(client, queue, "a")
        with receiver(client, queue, receive_mode=received) as receiving:
            [message] = receiving.receive_messages()
            told = {b"x-opt-enqueued-time", b"x-opt-sequence-number"}
            of_lock = set() if received == mode else {b"x-opt-locked-until"}
            assert set(message.raw_amqp_message.annotations) == told | of_lock
            assert message.state == ServiceBusMessageState.ACTIVE
            if received == mode:
                assert message.raw_amqp_message.delivery_annotations == {}
                assert not message._delivery_tag
            else:
                receiving.complete_message(message)


def test_decimals_and_truth_values_are_read_by_who_sent_them(client, queue):
    sent = {"price": Decimal("12.50"), "debt": Decimal("-0.07"), "whole": Decimal(7), "yes": True, "no": False}
    expected = {name.encode(): value for name, value in sent.items()}
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    for received in (ServiceBusReceiveMode.PEEK_LOCK, mode):
        send(client, queue, "a", application_properties=sent)
        with receiver(client, queue, receive_mode=received) as receiving:
            [peeked] = receiving.peek_messages()
            [message] = receiving.receive_messages()
            for each in (peeked, message):
                assert each.application_properties == expected
                assert str(each.application_properties[b"price"]) == "12.50"
            if received != mode:
                receiving.complete_message(message)


def test_what_this_client_has_no_reader_for_does_not_end_its_receivers(client, queue):
    """Only other clients send such values; this one can pass them on, as messages to schedule."""
    # A character, a decimal of 32 bits and an array of nothing.
    values = {"char": b"\x73\0\0\0a", "small": b"\x74\x32\0\0\x01", "nothing": b"\xe0\x02\x00\xa1"}
    foreign = [
        composite(0x73, text(name))
        + described(0x72, compound(b"\xd1", [symbol("k"), compound(b"\xd0", [value])]))
        + described(0x74, compound(b"\xd1", [text("p"), b"\x40" if name == "nothing" else value]))
        + described(0x77, value)
        + described(0x78, compound(b"\xd1", [symbol("f"), value]))
        for name, value in values.items()
    ]
    with receiver(client, queue) as receiving:
        scheduled = manage(receiving, "schedule-message", {"messages": [{"message": each} for each in foreign]})
        assert len(scheduled[b"sequence-numbers"]) == len(foreign)
    send(client, queue, "beside", message_id="beside")
    found = {each.message_id: each.raw_amqp_message for each in received(client, queue, 4)}
    assert set(found) == {"beside", *values}
    for name, value in {"char": b"a", "small": Decimal("0.1"), "nothing": []}.items():
        raw = found[name]
        assert (raw.body, raw.footer) == (value, {b"f": value})
        assert raw.annotations[b"k"] == [value]
        assert raw.application_properties == {b"p": None if name == "nothing" else value}


def test_the_life_and_the_lock_that_a_message_really_has_are_told(client, create_queue):
    queue, hour = create_queue(defaultMessageTimeToLive="PT1H"), datetime.timedelta(hours=1)
    send(client, queue, "a", time_to_live=datetime.timedelta(days=1))
    send(client, queue, "b")
    with receiver(client, queue) as receiving:
        for message in receiving.receive_messages(max_message_count=2):
            assert message.time_to_live == hour
            assert message.expires_at_utc == message.enqueued_time_utc + hour
            assert message.raw_amqp_message.properties.absolute_expiry_time == message.expires_at_utc.timestamp() * 1_000
            [peeked, *_] = receiving.peek_messages(sequence_number=message.sequence_number)
            held = peeked.raw_amqp_message.annotations[b"x-opt-locked-until"]
            assert held == message.raw_amqp_message.annotations[b"x-opt-locked-until"]
            receiving.complete_message(message)


def annotated(client, queue, *sent):
    """What is received of messages that are sent one by one."""
    with client.get_queue_sender(queue) as sender:
        for each in sent:
            sender.send_messages(AmqpAnnotatedMessage(**each))
    return [each.raw_amqp_message for each in received(client, queue, len(sent))]


@pytest.mark.parametrize("size", SIZES)
def test_bodies_are_data_values_or_sequences(client, queue, size):
    text = "x" * size
    encoded = text.encode()
    data, sequences, value, values = annotated(
        client,
        queue,
        {"data_body": [encoded, b"", b"b"]},
        {"sequence_body": [1, text]},
        {"value_body": text},
        {"value_body": {"k": [1, True, None]}},
    )
    assert [each.body_type for each in (data, sequences, value, values)] == [
        AmqpMessageBodyType.DATA,
        AmqpMessageBodyType.SEQUENCE,
        AmqpMessageBodyType.VALUE,
        AmqpMessageBodyType.VALUE,
    ]
    assert [bytes(part) for part in data.body] == [encoded, b"", b"b"]
    assert list(sequences.body) == [[1, encoded]]
    assert (value.body, values.body) == (encoded, {b"k": [1, True, None]})


def test_properties_of_the_application_keep_their_types(client, queue):
    values = ["text", "", "grün", 0, -1, 2**31 - 1, -(2**31), 0.5, True, False, uuid.UUID(int=7), None]
    send(client, queue, "a", application_properties={f"p{number}": value for number, value in enumerate(values)})
    [message] = received(client, queue, 1)
    found = [message.application_properties[b"p%d" % number] for number in range(len(values))]
    expected = [value.encode() if isinstance(value, str) else value for value in values]
    assert [(each, type(each)) for each in found] == [(each, type(each)) for each in expected]


def test_moments_keep_their_milliseconds(client, queue):
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.timezone.utc)
    send(client, queue, "a", application_properties={"at": at})
    [message] = received(client, queue, 1)
    assert message.application_properties[b"at"] == int(at.timestamp() * 1_000)


def test_the_fields_of_header_and_properties_are_kept(client, queue):
    properties = {
        "message_id": "m",
        "user_id": b"me",
        "to": b"to",
        "subject": b"s",
        "reply_to": b"r",
        "correlation_id": b"c",
        "content_type": b"text/plain",
        "content_encoding": b"gzip",
        "group_id": b"g",
        "group_sequence": 3,
        "reply_to_group_id": b"rg",
    }
    header = {"priority": 7, "durable": True}
    [raw] = annotated(client, queue, {"data_body": b"a", "properties": properties, "header": header})
    as_bytes = lambda value: value.encode() if isinstance(value, str) else value
    assert {name: as_bytes(getattr(raw.properties, name)) for name in properties} == {
        name: as_bytes(value) for name, value in properties.items()
    }
    assert (raw.header.priority, raw.header.durable) == (7, True)
    assert raw.header.delivery_count == 0


def test_a_message_has_an_id_whoever_gave_it_none(client, queue):
    [raw] = annotated(client, queue, {"data_body": b"a"})
    assert raw.properties.message_id


def test_ids_of_sessions_and_partitions_are_kept(client, queue):
    send(client, queue, "a", session_id="s", partition_key="s", reply_to_session_id="r")
    [message] = received(client, queue, 1)
    assert (message.session_id, message.partition_key, message.reply_to_session_id) == ("s", "s", "r")


def test_a_message_that_was_received_can_be_sent_again(client, queue):
    ids = {"message_id": "m", "correlation_id": "c", "partition_key": "p", "reply_to_session_id": "r"}
    send(client, queue, "a", **ids)
    [first] = received(client, queue, 1)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(first)
    [again] = received(client, queue, 1)
    assert str(again) == "a"
    assert {name: getattr(again, name) for name in ids} == ids


def test_properties_have_64_kib_together(client, queue):
    own = {f"p{number}": "x" * 1_000 for number in range(60)}
    send(client, queue, "a", application_properties=own)
    with pytest.raises(MessageSizeExceededError, match="at most 65536"):
        send(client, queue, "a", application_properties=own | {"more": "x" * 6_000})
    [message] = received(client, queue, 1)
    assert message.application_properties == {name.encode(): value.encode() for name, value in own.items()}
