"""Receivers of sessions, as the stock Service Bus client for Python uses them."""

import datetime
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusSubQueue
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError, SessionCannotBeLockedError

from appliance import PATIENCE_S
from queues import SIZES, bodies, drain, over_all_transports, received, receiver, send, take

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


@pytest.fixture
def session_queue(create_queue):
    return create_queue(requiresSession=True, maxDeliveryCount=3)


@pytest.mark.parametrize("size", SIZES)
def test_a_session_has_its_messages_in_order(client, session_queue, size):
    texts = [f"{number}{'x' * size}" for number in range(5)]
    send(client, session_queue, *texts, session_id="s")
    send(client, session_queue, "other", session_id="t")
    with receiver(client, session_queue, session_id="s", prefetch_count=10) as receiving:
        assert drain(receiving, 5) == texts
        assert receiving.receive_messages(max_wait_time=0.2) == []


@pytest.mark.parametrize("session", ["with spaces", "grün", "a/b?c#d%20", "x" * 128])
def test_sessions_have_any_name(client, session_queue, session):
    send(client, session_queue, "a", session_id=session)
    with receiver(client, session_queue, session_id=NEXT_AVAILABLE_SESSION) as receiving:
        assert receiving.session.session_id == session
        receiving.session.set_state(session.encode())
        assert receiving.session.get_state() == session.encode()
        assert [each.session_id for each in take(receiving, 1)] == [session]


def test_a_state_is_small_or_large_but_no_larger_than_may_be(client, session_queue):
    with receiver(client, session_queue, session_id="s") as receiving:
        for state in (b"x", bytes(range(256)) * 1_000, "text"):
            receiving.session.set_state(state)
            assert receiving.session.get_state() == (state.encode() if isinstance(state, str) else state)
        with pytest.raises(ServiceBusError):
            receiving.session.set_state(bytes(300_000))
        assert receiving.session.get_state() == b"text"


def test_several_receivers_hold_a_session_each(client, session_queue):
    for session in "abc":
        send(client, session_queue, session, session_id=session)
    holders = [receiver(client, session_queue, session_id=NEXT_AVAILABLE_SESSION) for _ in "abc"]
    found = [take(each, 1)[0] for each in holders]
    assert [str(message) for message in found] == ["a", "b", "c"]
    for holder, message in zip(holders, found):
        holder.complete_message(message)


def test_deferred_and_scheduled_messages_of_a_session(client, session_queue):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    send(client, session_queue, "a", "b", session_id="s")
    send(client, session_queue, "later", session_id="s", scheduled_enqueue_time_utc=later)
    with receiver(client, session_queue, session_id="s") as receiving:
        first, second = take(receiving, 2)
        for message in (first, second):
            receiving.defer_message(message)
        assert [each.state.name for each in receiving.peek_messages(9, sequence_number=1)] == ["DEFERRED", "DEFERRED", "SCHEDULED"]
        assert bodies(receiving.receive_deferred_messages([first.sequence_number])) == ["a"]
    with receiver(client, session_queue, session_id="t") as other:
        with pytest.raises(ServiceBusError):
            other.receive_deferred_messages(second.sequence_number)
    with receiver(client, session_queue, session_id="s") as receiving:
        [message] = receiving.receive_deferred_messages(second.sequence_number)
        assert str(message) == "b"
        receiving.complete_message(message)


def test_a_session_is_received_and_deleted(client, session_queue):
    send(client, session_queue, *"abc", session_id="s")
    assert bodies(received(client, session_queue, 3, session_id="s")) == ["a", "b", "c"]


def test_locks_are_those_of_the_session(client, session_queue):
    send(client, session_queue, "a", session_id="s")
    with receiver(client, session_queue, session_id="s") as receiving:
        [message] = receiving.receive_messages()
        with pytest.raises(TypeError):
            receiving.renew_message_lock(message)
        before = receiving.session.locked_until_utc
        assert receiving.session.renew_lock() >= before
        receiving.complete_message(message)
    with receiver(client, session_queue, session_id="s") as again:
        assert again.session.session_id == "s", "it is free as soon as it is closed"


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
    # An event that comes over HTTP cannot be rejected with an answer to its sender alone.
    key = appliance.manage("POST", f"/topics/{session_queue}/listKeys")["key1"]
    answer = requests.post(
        f"{appliance.url}/topics/{session_queue}/api/events",
        json={"specversion": "1.0", "id": "e", "source": "/s", "type": "T"},
        headers={"aeg-sas-key": key, "Content-Type": "application/cloudevents+json"},
        verify=appliance.trusted(),
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
