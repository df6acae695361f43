"""Queues, as the stock Service Bus client for Python uses them."""

import datetime
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
import requests
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    SessionCannotBeLockedError,
)

from appliance import PATIENCE_S, Appliance, eventually
from queues import bodies, connection_string, drain, receiver, send


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


def manage(receiving, operation, body):
    """What the entity answers to a request that the client has no function for."""
    answer = lambda status, message, description, **_: message.value if status == 200 else None
    return receiving._mgmt_request_response_with_retry(b"com.microsoft:" + operation.encode(), body, answer)


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


def test_messages_that_other_clients_could_not_read_are_rejected(client, queue):
    deep = []
    for _ in range(80):
        deep = [deep]
    with client.get_queue_sender(queue) as sender:
        for field, message in (
            ('the property "p"', ServiceBusMessage("a", application_properties={"p": {"k": 1}})),
            ("nested more than 64 deep", AmqpAnnotatedMessage(value_body=deep)),
        ):
            with pytest.raises(ServiceBusError, match=field):
                sender.send_messages(message)
        sender.send_messages(ServiceBusMessage("x" * 129, message_id="x" * 128))
    with receiver(client, queue) as receiving:
        assert drain(receiving, 1) == ["x" * 129]


def test_a_full_batch_is_taken_with_the_properties_of_its_messages(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        count = 0
        while True:
            try:
                batch.add_message(ServiceBusMessage("x" * 50, message_id=f"{count:0100}", session_id="s" * 100))
            except ValueError:
                break
            count += 1
        assert batch.size_in_bytes > batch.max_size_in_bytes - 400
        sender.send_messages(batch)
    with receiver(client, queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE) as receiving:
        found = 0
        while found < count:
            found += len(receiving.receive_messages(max_message_count=500)) or pytest.fail(f"{found} of {count}")


def test_batches_and_large_messages(client, queue):
    with client.get_queue_sender(queue) as sender:
        batch = sender.create_message_batch()
        for number in range(100):
            batch.add_message(ServiceBusMessage(f"{number}"))
        sender.send_messages(batch)
        large = os.urandom(300_000)
        sender.send_messages(ServiceBusMessage(large))
        with pytest.raises(MessageSizeExceededError):
            sender.send_messages(ServiceBusMessage(bytes(2_000_000)))
    found = []
    with receiver(client, queue) as receiving:
        while len(found) < 101:
            messages = receiving.receive_messages(max_message_count=50)
            assert messages
            for message in messages:
                receiving.complete_message(message)
            found += messages
    assert bodies(found[:100]) == [str(number) for number in range(100)]
    assert b"".join(found[100].body) == large


def test_abandoned_messages_return_and_die_in_the_end(client, queue):
    send(client, queue, "poison", "good")
    with receiver(client, queue) as receiving:
        for count in range(3):
            [message] = receiving.receive_messages(max_message_count=1)
            assert (str(message), message.delivery_count) == ("poison", count)
            receiving.abandon_message(message)
        [message] = receiving.receive_messages(max_message_count=1)
        assert str(message) == "good"
        receiving.complete_message(message)
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
        assert "3 delivery attempts" in message.dead_letter_error_description
        dead.complete_message(message)


def test_dead_lettered_messages_have_their_reason(client, queue):
    send(client, queue, "bad")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="broken", error_description="no number")
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert (message.dead_letter_reason, message.dead_letter_error_description) == (
            "broken",
            "no number",
        )
        assert message.delivery_count == 0, "dead-lettering is no failed delivery"
        dead.complete_message(message)
        assert dead.peek_messages() == []


def test_deferred_messages_come_by_their_number(client, queue):
    send(client, queue, "later")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.defer_message(message)
        assert receiving.receive_messages(max_wait_time=1) == []
        [deferred] = receiving.receive_deferred_messages(message.sequence_number)
        assert str(deferred) == "later"
        receiving.complete_message(deferred)
    for mode in ServiceBusReceiveMode:
        with receiver(client, queue, receive_mode=mode) as receiving:
            with pytest.raises(ServiceBusError, match="not that of a deferred message"):
                receiving.receive_deferred_messages(message.sequence_number)


def test_a_lost_lock_is_told(client, queue):
    send(client, queue, "twice")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.complete_message(message)
        message._settled = False
        with pytest.raises(MessageLockLostError):
            receiving.renew_message_lock(message)


def test_messages_are_peeked_at(client, queue):
    send(client, queue, *"abc")
    with receiver(client, queue) as receiving:
        found = receiving.peek_messages(max_message_count=2)
        assert bodies(found) == ["a", "b"]
        found = receiving.peek_messages(max_message_count=9, sequence_number=found[1].sequence_number)
        assert bodies(found) == ["b", "c"]
        [message] = receiving.receive_messages(max_message_count=1)
        assert str(message) == "a"


def test_peeked_messages_come_without_bodies_on_request(client, queue):
    send(client, queue, "a")
    with receiver(client, queue) as receiving:
        asked = {"from-sequence-number": 1, "message-count": 1, "omit-message-body": True}
        [message] = manage(receiving, "peek-message", asked)[b"messages"]
        data_section = b"\x00Su"
        assert data_section not in message[b"message"] and len(message[b"message"]) > 0
        [message] = receiving.peek_messages()
        assert str(message) == "a"


def test_messages_are_deleted_at_once(client, queue):
    send(client, queue, *"abcde")
    with receiver(client, queue) as receiving:
        [held] = receiving.receive_messages(max_message_count=1)
        now = int(time.time() * 1000) + 60_000
        delete = lambda count, before=now: manage(
            receiving,
            "batch-delete-messages",
            {"message-count": count, "enqueued-time-utc": {"TYPE": "TIMESTAMP", "VALUE": before}},
        )
        assert delete(3, before=now - 3_600_000) is None, "none is as old as that"
        assert delete(3)[b"message-count"] == 3
        assert delete(3)[b"message-count"] == 1
        assert delete(3) is None
        receiving.abandon_message(held)
        assert bodies(receiving.receive_messages()) == ["a"], "what is locked stays"


def test_messages_are_removed_as_they_are_received(client, queue):
    send(client, queue, *"ab")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with receiver(client, queue, receive_mode=mode) as receiving:
        found = []
        while len(found) < 2:
            found += bodies(receiving.receive_messages(max_message_count=2))
        assert found == ["a", "b"]
        assert receiving.peek_messages() == []


def test_prefetched_messages_are_iterated(client, queue):
    send(client, queue, *(str(number) for number in range(60)))
    found = []
    with receiver(client, queue, prefetch_count=20) as receiving:
        for message in receiving:
            receiving.complete_message(message)
            found.append(str(message))
            if len(found) == 60:
                break
    assert found == [str(number) for number in range(60)]


def test_what_was_prefetched_returns_uncounted(client, queue):
    send(client, queue, *"abcde")
    with receiver(client, queue, prefetch_count=5) as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        receiving.complete_message(message)
    with receiver(client, queue) as receiving:
        found = []
        while len(found) < 4:
            messages = receiving.receive_messages(max_message_count=4)
            assert messages, found
            found += messages
        assert sorted(bodies(found)) == list("bcde")


def test_messages_survive_a_restart(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        appliance.manage("PUT", "/queues/jobs", {"properties": {}}, status=201)
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            send(client, "jobs", *"abc")
            with receiver(client, "jobs") as receiving:
                [first] = receiving.receive_messages(max_message_count=1)
                receiving.complete_message(first)
    with Appliance(tmp_path / "data") as appliance:
        with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
            with receiver(client, "jobs") as receiving:
                assert bodies(receiving.peek_messages(max_message_count=9)) == ["b", "c"]


def test_queues_are_made_and_counted_on_the_command_line(appliance, client):
    queue = f"q-{uuid.uuid4()}"
    appliance.command("queues", "create", queue, "--max-delivery-count", "1", "--lock-duration", "PT30S")
    send(client, queue, "poison", "good")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        receiving.abandon_message(message)
    row = next(row for row in appliance.command("queues", "list").splitlines() if queue in row)
    assert row.split() == [queue, "1", "1", "1", "PT30S"]
    assert "dead letters      1" in appliance.command("queues", "show", queue)
    appliance.command("queues", "delete", queue, "--yes")
    with pytest.raises(MessagingEntityNotFoundError):
        send(client, queue, "lost")


def test_a_dead_letter_is_resubmitted_to_its_queue(appliance, client, queue):
    send(client, queue, "again")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="not today")
        [dead] = appliance.manage("GET", f"/everpost/deadLetters?topic={queue}")["value"]
        appliance.command("dead-letters", "resubmit", str(dead["deliveryId"]))
        [message] = receiving.receive_messages()
        assert (str(message), message.delivery_count) == ("again", 0)
        receiving.complete_message(message)


def test_a_dead_letter_is_mended_and_keeps_its_properties(appliance, client, queue):
    own = {"tenant": "a"}
    about = {"subject": "paid", "content_type": "application/json", "message_id": "m1"}
    send(client, queue, '{"order": "x"}', application_properties=own, **about)
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="not a number")
        [dead] = appliance.manage("GET", f"/everpost/deadLetters?topic={queue}")["value"]
        path = f"/everpost/deadLetters/{dead['deliveryId']}/resubmit"
        appliance.manage("POST", path, {"data": {"order": 1}}, status=200)
        [message] = receiving.receive_messages()
        assert (str(message), message.delivery_count) == ('{"order": 1}', 0)
        assert (message.subject, message.content_type, message.message_id) == tuple(about.values())
        assert message.application_properties == {b"tenant": b"a"}
        receiving.complete_message(message)


def test_topics_of_namespaces_have_subscriptions(appliance, client):
    namespace = f"n-{uuid.uuid4()}"
    path = f"/namespaces/{namespace}/topics/orders"
    appliance.manage("PUT", f"/namespaces/{namespace}", {"location": "local"})
    appliance.manage("PUT", path, {"properties": {}})
    delivery = {"deliveryMode": "Queue", "queue": {}}
    paid = {"operatorType": "StringIn", "key": "subject", "values": ["paid"]}
    for name, filters in [("all", []), ("paid", [paid])]:
        properties = {"deliveryConfiguration": delivery, "filtersConfiguration": {"filters": filters}}
        appliance.manage("PUT", f"{path}/eventSubscriptions/{name}", {"properties": properties})
    topic = f"{namespace}/orders"
    with client.get_topic_sender(topic) as sender:
        sender.send_messages([ServiceBusMessage(each, subject=each) for each in ("open", "paid")])

    def drain(subscription, **options):
        with client.get_subscription_receiver(
            topic, subscription, max_wait_time=1, **options
        ) as receiving:
            found = list(receiving)
            for message in found:
                settle = receiving.complete_message if options else receiving.dead_letter_message
                settle(message)
        return bodies(found)

    assert drain("all") == ["open", "paid"]
    assert drain("paid") == ["paid"]
    assert drain("paid", sub_queue=ServiceBusSubQueue.DEAD_LETTER) == ["paid"]
    with pytest.raises(ServiceBusError, match="received from its subscriptions"):
        with receiver(client, topic) as receiving:
            receiving.receive_messages()
    with pytest.raises(ServiceBusError, match="Cannot create a message sender"):
        send(client, f"{topic}/Subscriptions/all", "lost")


@pytest.fixture
def session_queue(create_queue):
    return create_queue(requiresSession=True, maxDeliveryCount=3)


def test_sessions_have_one_holder_state_and_order(client, session_queue):
    queue = session_queue
    send(client, queue, "1", "2", session_id="one")
    send(client, queue, "3", session_id="two")
    send(client, queue, "4", session_id="one")
    with receiver(client, queue, session_id="one") as one:
        assert one.session.session_id == "one"
        assert one.session.get_state() is None
        one.session.set_state(b"half")
        assert one.session.get_state() == b"half"
        before = one.session.locked_until_utc
        time.sleep(0.1)
        assert one.session.renew_lock() > before
        with pytest.raises(SessionCannotBeLockedError):
            with receiver(client, queue, session_id="one"):
                pass
        [message] = one.receive_messages(max_message_count=1)
        assert (str(message), message.session_id) == ("1", "one")
        one.complete_message(message)
        assert drain(one, 2) == ["2", "4"]
        send(client, queue, "5", session_id="one")
        assert drain(one, 1) == ["5"]
    with receiver(client, queue, session_id=NEXT_AVAILABLE_SESSION) as two:
        assert two.session.session_id == "two"
        assert bodies(two.peek_messages(max_message_count=9)) == ["3"]
        assert drain(two, 1) == ["3"]
    with receiver(client, queue, session_id="one") as one:
        assert one.session.get_state() == b"half"
        one.session.set_state(None)
        assert one.session.get_state() is None


def test_the_empty_text_is_a_session(client, session_queue):
    send(client, session_queue, "a", session_id="")
    with receiver(client, session_queue, session_id="") as receiving:
        [message] = receiving.receive_messages()
        assert (str(message), receiving.session.session_id) == ("a", "")
        receiving.complete_message(message)


def test_a_session_lasts_as_long_as_somebody_receives_and_deletes(client, create_queue):
    queue = create_queue(requiresSession=True, lockDuration="PT5S")
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    send(client, queue, "a", session_id="s")
    with client.get_queue_receiver(queue, session_id="s", receive_mode=mode, max_wait_time=7) as receiving:
        assert bodies(receiving) == ["a"], "and then nothing, for longer than the lock lasts"


def test_a_session_is_waited_for(client, session_queue):
    with pytest.raises(OperationTimeoutError):
        with client.get_queue_receiver(
            session_queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1
        ) as receiving:
            receiving.receive_messages()
    with ThreadPoolExecutor() as pool:

        def later():
            time.sleep(1)
            send(client, session_queue, "late", session_id="s")

        sending = pool.submit(later)
        began = time.monotonic()
        with receiver(client, session_queue, session_id=NEXT_AVAILABLE_SESSION) as receiving:
            assert receiving.session.session_id == "s"
            assert 1 <= time.monotonic() - began < 3
            assert drain(receiving, 1) == ["late"]
        sending.result()


def test_messages_need_a_session_id_in_a_queue_with_sessions(appliance, client, session_queue):
    with pytest.raises(ServiceBusError, match="The SessionId was not set"):
        send(client, session_queue, "lost")
    with pytest.raises(ServiceBusError, match="non-sessionful message receiver"):
        with receiver(client, session_queue) as receiving:
            receiving.receive_messages()
    # An event that comes over HTTP cannot be refused with an answer to its sender alone.
    key = appliance.manage("POST", f"/topics/{session_queue}/listKeys")["key1"]
    answer = requests.post(
        f"{appliance.url}/topics/{session_queue}/api/events",
        json={"specversion": "1.0", "id": "e", "source": "/s", "type": "T"},
        headers={"aeg-sas-key": key, "Content-Type": "application/cloudevents+json"},
        timeout=PATIENCE_S,
    )
    assert answer.ok, answer.text
    with receiver(client, session_queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "Session ID is null."
        dead.complete_message(message)


def test_plain_queues_have_no_sessions(client, queue):
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        with receiver(client, queue, session_id="one") as receiving:
            receiving.receive_messages()


def test_messages_of_sessions_are_settled(client, session_queue):
    queue = session_queue
    send(client, queue, "poison", "later", "bad", session_id="s")
    with receiver(client, queue, session_id="s") as receiving:
        for count in range(3):
            [message] = receiving.receive_messages(max_message_count=1)
            assert (str(message), message.delivery_count) == ("poison", count)
            receiving.abandon_message(message)
        [later] = receiving.receive_messages(max_message_count=1)
        receiving.defer_message(later)
        [bad] = receiving.receive_messages(max_message_count=1)
        receiving.dead_letter_message(bad, reason="broken")
        [deferred] = receiving.receive_deferred_messages(later.sequence_number)
        assert str(deferred) == "later"
        receiving.complete_message(deferred)
        assert receiving.peek_messages() == []
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        found = dead.receive_messages(max_message_count=2, max_wait_time=2)
        if len(found) < 2:
            found += dead.receive_messages(max_message_count=1)
        assert [(str(each), each.session_id) for each in found] == [("poison", "s"), ("bad", "s")]
        assert [each.dead_letter_reason for each in found] == ["MaxDeliveryCountExceeded", "broken"]
        for each in found:
            dead.complete_message(each)


def test_what_a_closed_receiver_had_was_not_received(client, session_queue):
    send(client, session_queue, *"ab", session_id="s")
    for _ in range(2):
        with receiver(client, session_queue, session_id="s", prefetch_count=2) as receiving:
            [message] = receiving.receive_messages(max_message_count=1)
            assert (str(message), message.delivery_count) == ("a", 0)


def test_sessions_are_listed(client, session_queue):
    for session in ("one", "two"):
        send(client, session_queue, "x", session_id=session)
    assert list(client.list_queue_sessions(session_queue)) == ["one", "two"]
    past = datetime.datetime(2020, 1, 1)
    assert list(client.list_queue_sessions(session_queue, state_updated_after=past)) == []
    with receiver(client, session_queue, session_id="two") as receiving:
        receiving.session.set_state(b"x")
        assert drain(receiving, 1) == ["x"]
    listed = client.list_queue_sessions(session_queue, state_updated_after=past)
    assert list(listed) == ["two"]
    assert list(client.list_queue_sessions(session_queue)) == ["one", "two"]


def test_sessions_survive_a_crash(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        properties = {"requiresSession": True, "lockDuration": "PT10S"}
        appliance.manage("PUT", "/queues/jobs", {"properties": properties}, status=201)
        string = connection_string(appliance)
        client = ServiceBusClient.from_connection_string(string, retry_total=0)
        send(client, "jobs", *"abc", session_id="s")
        held = receiver(client, "jobs", session_id="s")
        [first] = held.receive_messages(max_message_count=1)
        held.complete_message(first)
        held.session.set_state(b"one done")
        [_] = held.receive_messages(max_message_count=1)
        held.session.renew_lock()
        process, appliance.process = appliance.process, None
        process.kill()
        process.wait()
    with Appliance(tmp_path / "data") as appliance:
        string = connection_string(appliance)
        with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
            with client.get_queue_receiver(
                "jobs", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=15
            ) as receiving:
                assert receiving.session.get_state() == b"one done"
                found = receiving.receive_messages(max_message_count=1)
                assert [(str(each), each.delivery_count) for each in found] == [("b", 1)]
                receiving.complete_message(found[0])
                assert drain(receiving, 1) == ["c"]


def test_what_a_queue_is_cannot_be_changed(appliance, session_queue):
    plain = {"properties": {"requiresSession": False}}
    appliance.manage("PUT", f"/queues/{session_queue}", plain, status=400)


def test_messages_are_forwarded(client, create_queue):
    last = create_queue()
    middle = create_queue(forwardTo=last)
    first = create_queue(forwardTo=f"sb://localhost/{middle}")
    send(client, first, "a", "b", message_id="m")
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=2)
    with client.get_queue_sender(first) as sender:
        [number] = sender.schedule_messages(ServiceBusMessage("late"), later)
    with receiver(client, last) as receiving:
        found = []
        while len(found) < 3:
            messages = receiving.receive_messages(max_message_count=3)
            assert messages, found
            for message in messages:
                receiving.complete_message(message)
            found += messages
        assert bodies(found) == ["a", "b", "late"]
        assert found[0].message_id == "m"
        assert [each.sequence_number for each in found] == [1, 2, 3], "in the last queue"
        assert found[2].enqueued_sequence_number == number == 3, "in the first one"
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with receiver(client, first) as receiving:
            receiving.receive_messages()


def test_dead_letters_are_forwarded(client, create_queue):
    graves = create_queue()
    queue = create_queue(forwardDeadLetteredMessagesTo=graves, maxDeliveryCount=1)
    send(client, queue, "bad", "poison")
    with receiver(client, queue) as receiving:
        for message in receiving.receive_messages(max_message_count=2):
            match str(message):
                case "bad":
                    receiving.dead_letter_message(message, reason="broken", error_description="no")
                case "poison":
                    receiving.abandon_message(message)
    with receiver(client, graves) as receiving:
        found = []
        while len(found) < 2:
            messages = receiving.receive_messages(max_message_count=2)
            assert messages, found
            for message in messages:
                receiving.complete_message(message)
            found += messages
    told = {str(each): each for each in found}
    assert told["bad"].application_properties[b"DeadLetterReason"] == b"broken"
    assert told["bad"].dead_letter_error_description == "no"
    assert told["poison"].dead_letter_reason == "MaxDeliveryCountExceeded"
    assert {each.dead_letter_source for each in found} == {queue}
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            dead.receive_messages()


def test_forwarding_ends(appliance, client, create_queue):
    one, two = create_queue(), create_queue()
    for queue, target in [(one, two), (two, one)]:
        properties = {"properties": {"forwardTo": target}}
        appliance.manage("PUT", f"/queues/{queue}", properties, status=201)
    send(client, one, "round")
    with receiver(client, one, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "MaxTransferHopCountExceeded"
        dead.complete_message(message)
    appliance.manage("DELETE", f"/queues/{two}")
    send(client, one, "nowhere")
    with receiver(client, one, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "ForwardTargetMissing"
    appliance.command("diff", "-", given=appliance.command("export"))
    for target, status in [(one, 201), ("nobody", 400)]:
        properties = {"properties": {"forwardTo": target}}
        appliance.manage("PUT", f"/queues/{one}", properties, status=status)


def test_a_full_queue_takes_nothing_more(appliance, client, create_queue):
    queue, large = create_queue(maxSizeInMegabytes=1), b"x" * 400_000
    shown = lambda name=queue: appliance.manage("GET", f"/queues/{name}")["properties"]
    size = lambda: shown()["sizeInBytes"]
    assert (size(), shown()["maxSizeInMegabytes"]) == (0, 1)
    send(client, queue, large, large)
    assert 800_000 < size() < 801_000
    with pytest.raises(ServiceBusQuotaExceededError, match="is full"):
        send(client, queue, large)
    from_another = create_queue(forwardTo=queue)
    send(client, from_another, large)
    with receiver(client, from_another, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert message.dead_letter_reason == "ForwardTargetFull"
    with receiver(client, queue) as receiving:
        first, second = receiving.receive_messages(max_message_count=2)
        receiving.dead_letter_message(first)
        with pytest.raises(ServiceBusQuotaExceededError):
            send(client, queue, large)
        receiving.complete_message(second)
    assert 400_000 < size() < 401_000, "the dead letter counts"
    send(client, queue, large)
    appliance.manage("PUT", f"/queues/{queue}", {"properties": {"maxSizeInMegabytes": 2}}, status=201)
    send(client, queue, large)
    assert 1_200_000 < size() < 1_201_000
    for wrong in (0, 1_048_577, "much"):
        body = {"properties": {"maxSizeInMegabytes": wrong}}
        refused = appliance.manage("PUT", f"/queues/{queue}", body, status=400)
        assert "maxSizeInMegabytes" in str(refused)


def test_the_size_of_a_topic_is_that_of_its_subscriptions(appliance, client):
    topic, large = f"t-{uuid.uuid4()}", b"x" * 300_000
    path = f"/serviceBusTopics/{topic}"
    appliance.manage("PUT", path, {"properties": {"maxSizeInMegabytes": 1}}, status=201)
    for name in ("one", "two"):
        appliance.manage("PUT", f"{path}/subscriptions/{name}", {"properties": {}}, status=201)
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage(large))
        assert 600_000 < appliance.manage("GET", path)["properties"]["sizeInBytes"] < 601_000
        sender.send_messages(ServiceBusMessage(large))
        with pytest.raises(ServiceBusQuotaExceededError):
            sender.send_messages(ServiceBusMessage("more"))
    with client.get_subscription_receiver(topic, "one", max_wait_time=5) as receiving:
        for message in receiving.receive_messages(max_message_count=2):
            receiving.complete_message(message)
    assert appliance.manage("GET", f"{path}/subscriptions/one")["properties"]["sizeInBytes"] == 0
    with client.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("more"))


def test_a_full_queue_is_full_after_a_restart(tmp_path):
    connect = lambda: ServiceBusClient.from_connection_string(connection_string(appliance), retry_total=0)
    with Appliance(tmp_path / "data") as appliance:
        appliance.manage("PUT", "/queues/jobs", {"properties": {"maxSizeInMegabytes": 1}}, status=201)
        with connect() as client:
            send(client, "jobs", b"x" * 1_000_000)
    with Appliance(tmp_path / "data") as appliance:
        with connect() as client, pytest.raises(ServiceBusQuotaExceededError):
            send(client, "jobs", b"x" * 100_000)


def test_an_idle_queue_is_deleted_after_a_restart(tmp_path):
    with Appliance(tmp_path / "data", "--time-scale", "60") as appliance:
        for name, idle in [("short", "PT5M"), ("long", "P1D")]:
            appliance.manage("PUT", f"/queues/{name}", {"properties": {"autoDeleteOnIdle": idle}}, status=201)
    with Appliance(tmp_path / "data", "--time-scale", "60") as appliance:
        names = lambda: [each["name"] for each in appliance.manage("GET", "/queues")["value"]]
        assert "short" in names(), "clients have the time to come back"
        eventually(lambda: names() == ["long"], "the idle queue is deleted")
        appliance.manage("GET", "/queues/short", status=404)


def test_missing_queues_are_named(client):
    with pytest.raises(MessagingEntityNotFoundError, match=r"'sb://.+/missing' could not be found. Reason: there is no queue"):
        send(client, "missing", "lost")
    with pytest.raises(MessagingEntityNotFoundError):
        with receiver(client, "missing") as receiving:
            receiving.receive_messages()


def test_nothing_is_sent_to_a_dead_letter_queue(client, queue):
    with pytest.raises(ServiceBusError):
        send(client, f"{queue}/$DeadLetterQueue", "lost")


@pytest.mark.guesses
def test_a_wrong_key_opens_nothing(appliance, queue):
    string = connection_string(appliance, key="d3Jvbmc=")
    with ServiceBusClient.from_connection_string(string, retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError):
            send(client, queue, "lost")
    assert "credentials were rejected" in appliance.log()


@pytest.mark.guesses
def test_a_key_of_a_queue_opens_that_queue_alone(appliance, create_queue):
    queue, other = create_queue(requiresSession=True), create_queue()
    keys = appliance.manage("POST", f"/topics/{queue}/listKeys")
    with ServiceBusClient.from_connection_string(
        connection_string(appliance, keys["key2"], rule="key2"), retry_total=0
    ) as client:
        send(client, queue, "mine", session_id="a")
        with receiver(client, queue, session_id=NEXT_AVAILABLE_SESSION) as receiving:
            receiving.session.set_state(b"half-way")
            assert bodies(receiving.peek_messages()) == ["mine"]
            assert drain(receiving, 1) == ["mine"]
        with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            assert dead.peek_messages() == []
        with pytest.raises(ServiceBusAuthenticationError):
            send(client, other, "lost")
    for key, rule in ((keys["key1"], "key2"), (keys["key2"], "key3")):
        with ServiceBusClient.from_connection_string(
            connection_string(appliance, key, rule), retry_total=0
        ) as client:
            with pytest.raises(ServiceBusAuthenticationError):
                send(client, queue, "lost", session_id="a")


def test_messages_are_shown_sent_and_taken_on_the_command_line(appliance, client, create_queue):
    queue = create_queue(maxDeliveryCount=1)
    run = lambda *words: appliance.command("messages", *words)
    assert "no messages" in run("peek", queue)
    run("send", queue, "--body", '{"total": 5}', "--content-type", "application/json", "--subject", "paid",
        "--message-id", "m1", "--property", "n=7", "--property", "color=red")
    send(client, queue, "plain", message_id="m2")
    send(client, queue, b"\x00\xff", message_id="m3")
    shown = run("peek", queue)
    assert all(each in shown for each in ("m1", "paid", '{"total":5}', "plain", "AP8=")), shown
    [first, *_] = appliance.manage("GET", f"/queues/{queue}/messages")["value"]
    assert first["applicationProperties"] == {"n": 7, "color": "red"}
    assert (first["body"], first["state"], first["deliveryCount"]) == ({"total": 5}, "Active", 0)
    later = appliance.manage("GET", f"/queues/{queue}/messages?from={first['sequenceNumber'] + 1}&limit=1")["value"]
    assert [each["messageId"] for each in later] == ["m2"]
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        assert message.application_properties == {b"n": 7, b"color": b"red"}
        receiving.dead_letter_message(message, reason="broken", error_description="no total")
    dead = run("peek", queue, "--dead-letters")
    assert "broken" in dead and "no total" in dead and "plain" not in dead
    taken = run("receive", queue, "--count", "9")
    assert "plain" in taken and "AP8=" in taken and "no messages" in run("receive", queue)
    assert "broken" in run("receive", queue, "--dead-letters")
    assert "no dead letters" in run("peek", queue, "--dead-letters")
    [entry, *_] = appliance.manage("GET", "/everpost/audit?action=CompleteDeadLetters&limit=1")["value"]
    assert queue in entry["target"]


def test_messages_of_subscriptions_are_shown_and_taken(appliance, client):
    topic = f"t-{uuid.uuid4()}"
    appliance.manage("PUT", f"/serviceBusTopics/{topic}", {"properties": {}}, status=201)
    appliance.manage("PUT", f"/serviceBusTopics/{topic}/subscriptions/all", {"properties": {}}, status=201)
    appliance.command("messages", "send", topic, "--body", "hello")
    words = ("all", "--topic", topic)
    assert "hello" in appliance.command("messages", "peek", *words)
    assert "hello" in appliance.command("messages", "receive", *words)
    assert "no messages" in appliance.command("messages", "peek", *words)


def test_messages_of_sessions_are_not_taken_without_one(appliance, client, create_queue):
    queue = create_queue(requiresSession=True)
    appliance.command("messages", "send", queue, "--body", "a", "--session-id", "s1")
    assert "s1" in str(appliance.manage("GET", f"/queues/{queue}/messages?session=s1")["value"])
    assert appliance.manage("GET", f"/queues/{queue}/messages?session=s2")["value"] == []
    refused = appliance.manage("POST", f"/queues/{queue}/receive", {}, status=400)
    assert "session" in str(refused)
