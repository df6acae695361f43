"""Receivers, as the stock Service Bus client for Python uses them."""

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessageAlreadySettled,
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusError,
)

from queues import SIZES, bodies, drain, manage, over_all_transports, receiver, send, take

pytestmark = over_all_transports

DEAD = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=3)


@pytest.mark.parametrize("size", SIZES)
def test_messages_are_settled_in_every_way(client, queue, size):
    texts = {name: name + "x" * size for name in ("complete", "abandon", "defer", "dead")}
    send(client, queue, *texts.values())
    with receiver(client, queue) as receiving:
        complete, abandon, defer, dead = take(receiving, 4)
        receiving.complete_message(complete)
        receiving.defer_message(defer)
        receiving.dead_letter_message(dead, reason="broken", error_description="y" * 4_000)
        receiving.abandon_message(abandon)
        [again] = receiving.receive_messages()
        assert (str(again), again.delivery_count) == (texts["abandon"], 1)
        receiving.complete_message(again)
        [deferred] = receiving.receive_deferred_messages(defer.sequence_number)
        assert str(deferred) == texts["defer"]
        receiving.complete_message(deferred)
        assert receiving.peek_messages() == []
    with receiver(client, queue, **DEAD) as receiving:
        [message] = receiving.receive_messages()
        assert str(message) == texts["dead"]
        assert (message.dead_letter_reason, message.dead_letter_error_description) == ("broken", "y" * 4_000)
        receiving.complete_message(message)
        assert receiving.peek_messages() == []


def test_messages_are_settled_after_their_link_was_detached(client, queue):
    """The client settles over the link, hears no answer, and settles by a request."""
    for settle in ("complete_message", "defer_message", "dead_letter_message"):
        send(client, queue, settle)
        with receiver(client, queue) as receiving:
            [message] = receiving.receive_messages()
            receiving._handler._link.detach()
            getattr(receiving, settle)(message)
    with receiver(client, queue, **DEAD) as receiving:
        [message] = receiving.receive_messages()
        assert str(message) == "dead_letter_message"
        receiving.complete_message(message)


@pytest.mark.parametrize("prefetch", [0, 1, 100])
def test_messages_come_in_order_whatever_is_prefetched(client, queue, prefetch):
    expected = [f"{number}" for number in range(25)]
    send(client, queue, *expected)
    with receiver(client, queue, prefetch_count=prefetch) as receiving:
        assert drain(receiving, 25) == expected
        assert receiving.peek_messages() == []


def test_no_more_messages_come_than_are_asked_for(client, queue):
    send(client, queue, *"abcde")
    with receiver(client, queue) as receiving:
        for expected in (["a"], ["b"]):
            found = receiving.receive_messages(max_message_count=1)
            assert bodies(found) == expected
        assert len(receiving.receive_messages(max_message_count=2)) <= 2
        assert receiving.peek_messages(max_message_count=9)[0].delivery_count == 0


def test_a_receiver_waits_for_what_comes_later(client, queue):
    with receiver(client, queue) as receiving, ThreadPoolExecutor(1) as pool:
        assert receiving.receive_messages(max_wait_time=0.2) == []
        waiting = pool.submit(receiving.receive_messages, max_wait_time=30)
        send(client, queue, "late")
        assert bodies(waiting.result()) == ["late"]


def test_receivers_compete_for_messages(client, queue):
    send(client, queue, *(str(number) for number in range(20)))
    found, all_found = [], threading.Event()

    def work(_):
        with receiver(client, queue) as receiving:
            while not all_found.is_set():
                for message in receiving.receive_messages(max_message_count=3, max_wait_time=0.5):
                    receiving.complete_message(message)
                    found.append(str(message))
                if len(found) >= 20:
                    all_found.set()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert sorted(found, key=int) == [str(number) for number in range(20)]


def test_what_one_receiver_abandons_another_gets(client, queue):
    send(client, queue, "a")
    with receiver(client, queue) as one, receiver(client, queue) as other:
        [message] = one.receive_messages()
        one.abandon_message(message)
        [again] = other.receive_messages()
        assert again.delivery_count == 1
        other.complete_message(again)


def test_a_message_is_settled_once(client, queue):
    send(client, queue, "a", "b")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages(max_message_count=1)
        receiving.complete_message(message)
        for settle in (receiving.complete_message, receiving.abandon_message, receiving.defer_message, receiving.dead_letter_message):
            with pytest.raises(MessageAlreadySettled):
                settle(message)
    receiving = receiver(client, queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)
    [message] = receiving.receive_messages()
    with pytest.raises(ValueError):
        receiving.complete_message(message)


def test_a_closed_receiver_receives_nothing(client, queue):
    send(client, queue, "a")
    with receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
    for use in (receiving.receive_messages, receiving.peek_messages, lambda: receiving.complete_message(message)):
        with pytest.raises(ValueError):
            use()
    with receiver(client, queue) as other:
        assert other.receive_messages(max_wait_time=0.2) == [], "its lock lasts"
        assert bodies(other.peek_messages()) == ["a"]


def test_messages_are_peeked_in_every_state_and_from_any_number(client, queue):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    send(client, queue, "locked", "deferred", "active", "x" * 300_000)
    send(client, queue, "scheduled", scheduled_enqueue_time_utc=later)
    with receiver(client, queue) as receiving:
        locked, deferred = take(receiving, 2)
        receiving.defer_message(deferred)
        found = receiving.peek_messages(max_message_count=9, sequence_number=1)
        states = [(str(each)[:9], each.state.name) for each in found]
        assert states == [
            ("locked", "ACTIVE"),
            ("deferred", "DEFERRED"),
            ("active", "ACTIVE"),
            ("x" * 9, "ACTIVE"),
            ("scheduled", "SCHEDULED"),
        ]
        assert receiving.peek_messages(max_message_count=9) == [], "it goes on behind what it has seen"
        assert bodies(receiving.peek_messages(1, sequence_number=3)) == ["active"]
        assert receiving.peek_messages(1, sequence_number=99) == []
        with pytest.raises(ValueError, match="peeked"):
            receiving.complete_message(found[0])
        receiving.complete_message(locked)


def test_several_deferred_messages_come_at_once(client, queue):
    send(client, queue, *"abc")
    with receiver(client, queue) as receiving:
        found = take(receiving, 3)
        for message in found:
            receiving.defer_message(message)
        numbers = [message.sequence_number for message in found]
        with pytest.raises(MessageNotFoundError):
            receiving.receive_deferred_messages([*numbers, 99])
        one, two, three = receiving.receive_deferred_messages(numbers)
        assert bodies([one, two, three]) == ["a", "b", "c"]
        receiving.renew_message_lock(one)
        receiving.complete_message(one)
        receiving.dead_letter_message(two, reason="late")
        receiving.abandon_message(three)
        [again] = receiving.receive_deferred_messages(numbers[2])
        assert str(again) == "c"
    with receiver(client, queue, **DEAD) as dead:
        [message] = dead.receive_messages()
        assert (str(message), message.dead_letter_reason) == ("b", "late")


def test_each_queue_has_a_transfer_dead_letter_queue(client, queue):
    send(client, queue, "a")
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER) as dead:
        assert dead.peek_messages() == []
        assert dead.receive_messages(max_wait_time=0.2) == []


def test_a_disabled_or_missing_queue_gives_nothing(client, create_queue):
    with pytest.raises(MessagingEntityDisabledError):
        with receiver(client, create_queue(status="ReceiveDisabled")) as receiving:
            receiving.receive_messages()
    with pytest.raises(MessagingEntityNotFoundError):
        with receiver(client, "missing") as receiving:
            receiving.receive_messages()


def test_an_iterator_ends_after_its_wait(client, queue):
    send(client, queue, *"ab")
    with client.get_queue_receiver(queue, max_wait_time=1) as receiving:
        found = []
        for message in receiving:
            found.append(str(message))
            receiving.complete_message(message)
        assert found == ["a", "b"]
        send(client, queue, "c")
        assert str(next(receiving)) == "c"


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
