"""Sessions that are processed one after another or side by side, each in its order, with renewed locks, and asynchronously.
The stock client for Python has no processor of its own."""

import datetime
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, AutoLockRenewer, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import OperationTimeoutError

from queues import SIZES, WAIT_S, over_all_transports, received, receiver, send
from test_service_bus_processor import asynchronously

pytestmark = over_all_transports


@pytest.fixture
def session_queue(create_queue):
    return create_queue(requiresSession=True, maxDeliveryCount=2)


def process(client, queue, handle):
    """Takes sessions as long as there are any, and each to its end."""
    try:
        while True:
            with client.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=0.5) as receiving:
                for message in receiving:
                    handle(receiving, message)
    except OperationTimeoutError:
        pass


@pytest.mark.parametrize("size", SIZES)
def test_each_session_is_processed_in_its_order(client, session_queue, size):
    with client.get_queue_sender(session_queue) as sender:
        for number in range(4):
            messages = [ServiceBusMessage(f"{number}{'x' * size}", session_id=session) for session in "abc"]
            sender.send_messages(messages)
    seen = {}

    def handle(receiving, message):
        seen.setdefault(message.session_id, []).append(str(message)[0])
        receiving.complete_message(message)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: process(client, session_queue, handle), range(2)))
    assert seen == {session: ["0", "1", "2", "3"] for session in "abc"}


def test_what_fails_dies_without_the_rest_of_its_session(client, session_queue):
    send(client, session_queue, "a", "bad", "b", session_id="s")
    tried = []

    def handle(receiving, message):
        tried.append(str(message))
        settle = receiving.abandon_message if str(message) == "bad" else receiving.complete_message
        settle(message)

    process(client, session_queue, handle)
    assert tried == ["a", "bad", "bad", "b"]
    [dead] = received(client, session_queue, 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert (str(dead), dead.session_id, dead.dead_letter_reason) == ("bad", "s", "MaxDeliveryCountExceeded")


def test_a_state_is_handed_on_from_handler_to_handler(client, session_queue):
    for _ in range(3):
        send(client, session_queue, "a", session_id="s")
        with receiver(client, session_queue, session_id=NEXT_AVAILABLE_SESSION) as receiving:
            [message] = receiving.receive_messages()
            state = receiving.session.get_state() or b""
            receiving.session.set_state(state + b"+")
            receiving.complete_message(message)
    with receiver(client, session_queue, session_id="s") as receiving:
        assert receiving.session.get_state() == b"+++"


def test_a_session_is_renewed_while_it_is_processed(client, create_queue):
    queue = create_queue(requiresSession=True, lockDuration="PT5S")
    send(client, queue, *"ab", session_id="s")
    with receiver(client, queue, session_id="s") as receiving:
        with AutoLockRenewer() as renewer:
            first = receiving.session.locked_until_utc
            renewer.register(receiving, receiving.session, max_lock_renewal_duration=60)
            [message] = receiving.receive_messages(max_message_count=1)
            while datetime.datetime.now(datetime.timezone.utc) < first + datetime.timedelta(seconds=0.5):
                time.sleep(0.1)
            receiving.complete_message(message)
        assert receiving.session.locked_until_utc > first
        [message] = receiving.receive_messages(max_message_count=1)
        assert (str(message), message.delivery_count) == ("b", 0)


@pytest.mark.parametrize("size", SIZES)
def test_the_asynchronous_client_has_sessions(appliance, transport, session_queue, size):
    texts = [f"{number}{'x' * size}" for number in range(3)]

    async def use(client):
        async with client.get_queue_sender(session_queue, keep_alive=0) as sender:
            await sender.send_messages([ServiceBusMessage(each, session_id="s") for each in texts])
        options = {"session_id": NEXT_AVAILABLE_SESSION, "max_wait_time": WAIT_S, "keep_alive": 0}
        async with client.get_queue_receiver(session_queue, **options) as receiving:
            await receiving.session.set_state(b"begun")
            assert await receiving.session.get_state() == b"begun"
            await receiving.session.renew_lock()
            found = []
            async for message in receiving:
                await receiving.complete_message(message)
                found.append(str(message))
                if len(found) == len(texts):
                    return found

    assert asynchronously(appliance, transport, use) == texts
