"""Every reason for which a message becomes a dead letter, and everything that can be done with one there (rule S4)."""

import datetime
import uuid

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageAlreadySettled, ServiceBusError, ServiceBusQuotaExceededError

from appliance import eventually
from queues import WAIT_S, bodies, received, receiver, send, take
from test_service_bus_deleting import purge

DEAD = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER}


class Place:
    """Where dead letters are made."""

    def __init__(self, appliance, client):
        self.appliance, self.client = appliance, client

    def put(self, path, **properties):
        self.appliance.manage("PUT", path, {"properties": properties}, status=201)

    def queue(self, **properties):
        name = f"q-{uuid.uuid4()}"
        self.put(f"/queues/{name}", **properties)
        return name

    def subscription(self, filter, **properties):
        """A topic's only subscription with one rule, as the client addresses it."""
        topic = f"t-{uuid.uuid4()}"
        self.put(f"/serviceBusTopics/{topic}")
        self.put(f"/serviceBusTopics/{topic}/subscriptions/all", **properties)
        self.put(f"/serviceBusTopics/{topic}/subscriptions/all/rules/$Default", **filter)
        return topic

    def publish(self, topic, *messages):
        with self.client.get_topic_sender(topic) as sender:
            sender.send_messages(list(messages))

    def dead_of_topic(self, topic):
        return self.client.get_subscription_receiver(topic, "all", max_wait_time=WAIT_S, **DEAD)

    def dead_of_queue(self, queue):
        return receiver(self.client, queue, **DEAD)


@pytest.fixture
def place(appliance, client):
    return Place(appliance, client)


# Each makes one dead letter, and returns what receives it.


def delivered_too_often(place):
    queue = place.queue(maxDeliveryCount=2)
    send(place.client, queue, "x")
    with receiver(place.client, queue) as receiving:
        for _ in range(2):
            [message] = receiving.receive_messages()
            receiving.abandon_message(message)
    return place.dead_of_queue(queue)


def left_in_a_session_too_often(place):
    queue = place.queue(maxDeliveryCount=1, requiresSession=True, lockDuration="PT5S")
    send(place.client, queue, "x", session_id="s")
    with receiver(place.client, queue, session_id="s") as receiving:
        [message] = receiving.receive_messages()
        receiving.abandon_message(message)
    return place.dead_of_queue(queue)


def expired_in_a_queue(place):
    queue = place.queue(deadLetteringOnMessageExpiration=True)
    send(place.client, queue, "x", time_to_live=datetime.timedelta(milliseconds=10))
    return place.dead_of_queue(queue)


def expired_in_a_subscription(place):
    everything = {"filterType": "TrueFilter"}
    topic = place.subscription(everything, deadLetteringOnMessageExpiration=True, defaultMessageTimeToLive="PT1S")
    place.publish(topic, ServiceBusMessage("x"))
    return place.dead_of_topic(topic)


def without_session_id(place):
    topic = place.subscription({"filterType": "TrueFilter"}, requiresSession=True)
    place.publish(topic, ServiceBusMessage("x"))
    return place.dead_of_topic(topic)


def with_a_filter_that_fails(place):
    topic = place.subscription({"sqlFilter": {"sqlExpression": "n / 0 = 1"}})
    place.publish(topic, ServiceBusMessage("x", application_properties={"n": 1}))
    return place.dead_of_topic(topic)


def enlarged_by_an_action(place):
    enlarging = {"sqlFilter": {"sqlExpression": "1=1"}, "action": {"sqlExpression": "SET again = note"}}
    topic = place.subscription(enlarging)
    place.publish(topic, ServiceBusMessage("x", application_properties={"note": "n" * 40_000}))
    return place.dead_of_topic(topic)


def forwarded_in_a_circle(place):
    one = place.queue()
    two = place.queue(forwardTo=one)
    place.put(f"/queues/{one}", forwardTo=two)
    send(place.client, one, "x")
    return place.dead_of_queue(one)


def forwarded_to(change):
    """To an entity that is changed like this before."""

    def forwarded(place):
        to = place.queue(maxSizeInMegabytes=1)
        queue = place.queue(forwardTo=to)
        change(place, to)
        send(place.client, queue, "x" * 400_000)
        return place.dead_of_queue(queue)

    return forwarded


def delete(place, queue):
    place.appliance.manage("DELETE", f"/queues/{queue}")


def fill(place, queue):
    send(place.client, queue, b"x" * 900_000)


def take_small_messages(place, queue):
    place.put(f"/queues/{queue}", maxMessageSizeInKilobytes=256)


def having(status):
    return lambda place, queue: place.put(f"/queues/{queue}", status=status)


def by_its_receiver(**why):
    def dead_lettered(place):
        queue = place.queue()
        send(place.client, queue, "x")
        with receiver(place.client, queue) as receiving:
            [message] = receiving.receive_messages()
            receiving.dead_letter_message(message, **why)
        return place.dead_of_queue(queue)

    return dead_lettered


def over_the_management_link(place):
    queue = place.queue()
    send(place.client, queue, "x")
    with receiver(place.client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.defer_message(message)
        [message] = receiving.receive_deferred_messages(message.sequence_number)
        receiving.dead_letter_message(message, reason="late", error_description="too late")
    return place.dead_of_queue(queue)


TOO_OFTEN = "Message could not be consumed after {} delivery attempts."
EXPIRED = "The message expired and was dead lettered."
NO_SESSION = "Session enabled entity doesn't allow a message whose session identifier is null."

REASONS = [
    (delivered_too_often, "MaxDeliveryCountExceeded", TOO_OFTEN.format(2)),
    (left_in_a_session_too_often, "MaxDeliveryCountExceeded", TOO_OFTEN.format(1)),
    (expired_in_a_queue, "TTLExpiredException", EXPIRED),
    (expired_in_a_subscription, "TTLExpiredException", EXPIRED),
    (without_session_id, "Session ID is null.", NO_SESSION),
    (with_a_filter_that_fails, "FilterException", "$Default: a number was divided by zero"),
    (enlarged_by_an_action, "HeaderSizeExceeded", "The size quota for this stream has been exceeded."),
    (forwarded_in_a_circle, "MaxTransferHopCountExceeded", "as often as it may be"),
    (forwarded_to(delete), "ForwardTargetMissing", "does not exist"),
    (forwarded_to(fill), "ForwardTargetFull", "is full"),
    (forwarded_to(take_small_messages), "MessageSizeExceeded", "is larger than"),
    (forwarded_to(having("Disabled")), "ForwardTargetDisabled", "is disabled for sending"),
    (forwarded_to(having("SendDisabled")), "ForwardTargetDisabled", "is disabled for sending"),
    (by_its_receiver(reason="broken", error_description="no number"), "broken", "no number"),
    (by_its_receiver(), None, None),
    (over_the_management_link, "late", "too late"),
]


@pytest.mark.parametrize("make, reason, description", REASONS)
def test_a_dead_letter_says_why_it_is_one(place, make, reason, description):
    with make(place) as dead:
        [message] = take(dead, 1)
        assert str(message).startswith("x")
        assert message.dead_letter_reason == reason
        assert (message.dead_letter_error_description or "").endswith(description or "") or (
            description in message.dead_letter_error_description
        )
        told = message.application_properties or {}
        # What is given as nothing is a property without a value.
        given = [told.get(name) for name in (b"DeadLetterReason", b"DeadLetterErrorDescription")]
        assert [bool(value) for value in given] == [bool(reason), bool(description)]
        assert message.dead_letter_source is None, "it was not forwarded"
        dead.complete_message(message)
        assert dead.peek_messages() == []


# What can be done with the dead letter of a queue, or with what was sent beside it.


def it_is_peeked(place, queue, dead):
    assert bodies(dead.peek_messages(sequence_number=1)) == ["x"]
    assert bodies(dead.peek_messages(sequence_number=1)) == ["x"], "and not changed by that"


def it_is_completed(place, queue, dead):
    [message] = dead.receive_messages()
    dead.complete_message(message)
    assert dead.peek_messages() == []


def it_is_received_and_deleted(place, queue, dead):
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    assert bodies(received(place.client, queue, 1, **DEAD)) == ["x"]
    with receiver(place.client, queue, receive_mode=mode, **DEAD) as deleting:
        assert deleting.peek_messages() == []


def it_is_abandoned_without_being_counted(place, queue, dead):
    counts = []
    for _ in range(4):
        [message] = dead.receive_messages()
        counts.append(message.delivery_count)
        dead.abandon_message(message)
    assert counts == [0] * 4, "although the queue allows one delivery"


def it_is_deferred(place, queue, dead):
    [message] = dead.receive_messages()
    dead.defer_message(message)
    [message] = dead.receive_deferred_messages(message.sequence_number)
    dead.complete_message(message)
    assert dead.peek_messages() == []


def its_lock_is_renewed(place, queue, dead):
    [message] = dead.receive_messages()
    before = message.locked_until_utc
    assert dead.renew_message_lock(message) >= before
    dead.complete_message(message)


def it_is_not_dead_lettered_again(place, queue, dead):
    [message] = dead.receive_messages()
    with pytest.raises(ServiceBusError):
        dead.dead_letter_message(message, reason="again")
    assert [each.dead_letter_reason for each in dead.peek_messages(sequence_number=1)] == ["broken"]


def it_keeps_its_number(place, queue, dead):
    [message] = dead.peek_messages()
    assert message.sequence_number == 1


def it_does_not_expire(place, queue, dead):
    place.put(f"/queues/{queue}", defaultMessageTimeToLive="PT1S")
    send(place.client, queue, "y")
    with receiver(place.client, queue) as receiving:
        eventually(lambda: receiving.peek_messages(sequence_number=1) == [], "the other one expires")
    assert bodies(dead.peek_messages()) == ["x"]


def it_is_counted(place, queue, dead):
    shown = place.appliance.manage("GET", f"/queues/{queue}")["properties"]["countDetails"]
    assert (shown["activeMessageCount"], shown["deadLetterMessageCount"]) == (0, 1)


def it_counts_for_the_size_of_its_queue(place, queue, dead):
    place.put(f"/queues/{queue}", maxSizeInMegabytes=1)
    send(place.client, queue, b"y" * 900_000)
    with receiver(place.client, queue) as receiving:
        [large] = receiving.receive_messages()
        receiving.dead_letter_message(large)
    with pytest.raises(ServiceBusQuotaExceededError):
        send(place.client, queue, b"y" * 900_000)


def it_is_forwarded_with_its_source(place, queue, dead):
    graves = place.queue()
    place.put(f"/queues/{queue}", forwardDeadLetteredMessagesTo=graves)
    with receiver(place.client, graves) as receiving:
        [message] = take(receiving, 1)
        assert (message.dead_letter_reason, message.dead_letter_source) == ("broken", queue)
    with pytest.raises(ServiceBusError, match="auto-forwarding"):
        with place.dead_of_queue(queue) as closed:
            closed.receive_messages()


def it_waits_while_what_it_is_forwarded_to_takes_nothing(place, queue, dead):
    graves = place.queue(status="SendDisabled")
    send(place.client, queue, "y")
    place.put(f"/queues/{queue}", forwardDeadLetteredMessagesTo=graves, maxDeliveryCount=1)
    with receiver(place.client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.abandon_message(message)
        assert bodies(dead.peek_messages(max_message_count=9)) == ["x", "y"]
    with receiver(place.client, graves) as receiving:
        assert receiving.peek_messages() == []


def nobody_sends_beside_it(place, queue, dead):
    with pytest.raises(ServiceBusError, match="Nobody sends to a dead-letter queue"):
        send(place.client, f"{queue}/$DeadLetterQueue", "y")


def its_address_has_any_letter_case(place, queue, dead):
    with receiver(place.client, f"{queue.upper()}/$deadletterqueue") as receiving:
        assert bodies(receiving.peek_messages()) == ["x"]


def it_is_sent_again(place, queue, dead):
    [message] = dead.receive_messages()
    copy = ServiceBusMessage(b"".join(message.body), message_id=message.message_id, subject=message.subject)
    with place.client.get_queue_sender(queue) as sender:
        sender.send_messages(copy)
    dead.complete_message(message)
    with receiver(place.client, queue) as receiving:
        [again] = receiving.receive_messages()
        assert (str(again), again.dead_letter_reason, again.delivery_count) == ("x", None, 0)


def it_is_deleted_in_a_batch(place, queue, dead):
    assert purge(dead) == 1
    assert dead.peek_messages() == []


def it_is_settled_once(place, queue, dead):
    [message] = dead.receive_messages()
    dead.complete_message(message)
    with pytest.raises(MessageAlreadySettled):
        dead.complete_message(message)


PATHS = [
    it_is_peeked,
    it_is_completed,
    it_is_received_and_deleted,
    it_is_abandoned_without_being_counted,
    it_is_deferred,
    its_lock_is_renewed,
    it_is_not_dead_lettered_again,
    it_keeps_its_number,
    it_does_not_expire,
    it_is_counted,
    it_counts_for_the_size_of_its_queue,
    it_is_forwarded_with_its_source,
    it_waits_while_what_it_is_forwarded_to_takes_nothing,
    nobody_sends_beside_it,
    its_address_has_any_letter_case,
    it_is_sent_again,
    it_is_deleted_in_a_batch,
    it_is_settled_once,
]


@pytest.mark.parametrize("check", PATHS)
def test_a_dead_letter_is_a_message_of_its_queue(place, check):
    queue = place.queue(maxDeliveryCount=1)
    send(place.client, queue, "x")
    with receiver(place.client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message, reason="broken")
    with place.dead_of_queue(queue) as dead:
        check(place, queue, dead)


def test_the_dead_letters_of_sessions_are_received_without_one(place):
    queue = place.queue(requiresSession=True)
    send(place.client, queue, "x", session_id="s")
    with receiver(place.client, queue, session_id="s") as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message)
    with place.dead_of_queue(queue) as dead:
        [message] = dead.receive_messages()
        assert (str(message), message.session_id) == ("x", "s")


def test_a_topic_has_no_dead_letters_of_its_own(place):
    topic = place.subscription({"filterType": "TrueFilter"})
    with pytest.raises(ServiceBusError, match="are those of its subscriptions"):
        with receiver(place.client, topic, **DEAD) as receiving:
            receiving.receive_messages()


def test_the_dead_letter_of_a_subscription_is_sent_again_to_its_topic(place):
    topic = place.subscription({"filterType": "TrueFilter"}, maxDeliveryCount=1)
    place.publish(topic, ServiceBusMessage("x"))
    with place.client.get_subscription_receiver(topic, "all", max_wait_time=WAIT_S) as receiving:
        [message] = receiving.receive_messages()
        receiving.abandon_message(message)
        with place.dead_of_topic(topic) as dead:
            [message] = dead.receive_messages()
            place.publish(topic, ServiceBusMessage(b"".join(message.body)))
            dead.complete_message(message)
        assert bodies(receiving.receive_messages()) == ["x"]


def test_a_copy_that_is_remembered_as_a_duplicate_is_dropped(place):
    queue = place.queue(requiresDuplicateDetection=True)
    send(place.client, queue, "x", message_id="m")
    with receiver(place.client, queue) as receiving:
        [message] = receiving.receive_messages()
        receiving.dead_letter_message(message)
        send(place.client, queue, "x", message_id="m")
        assert receiving.peek_messages() == []
