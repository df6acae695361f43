"""Messages that are processed as they come: by iteration, with renewed locks, by several workers, and asynchronously.
The stock client for Python has no processor of its own."""

import asyncio
import datetime
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import AutoLockRenewer, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.aio import AutoLockRenewer as AsyncAutoLockRenewer
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient

from appliance import eventually
from queues import SIZES, bodies, client_options, over_all_transports, received, receiver, send

pytestmark = over_all_transports


@pytest.fixture
def queue(create_queue):
    return create_queue(maxDeliveryCount=2)


@pytest.mark.parametrize("size", SIZES)
def test_messages_are_processed_as_they_come(client, queue, size):
    texts = [f"{number}{'x' * size}" for number in range(10)]
    with receiver(client, queue, prefetch_count=5) as receiving, ThreadPoolExecutor(1) as pool:
        sending = pool.submit(lambda: [send(client, queue, *texts[place : place + 5]) for place in (0, 5)])
        found = []
        for message in receiving:
            receiving.complete_message(message)
            found.append(str(message))
            if len(found) == len(texts):
                break
        sending.result()
        assert found == texts
        assert receiving.peek_messages() == []


def test_what_fails_comes_again_and_dies_in_the_end(client, queue):
    send(client, queue, *"abcd")
    tried = []
    with client.get_queue_receiver(queue, max_wait_time=1) as receiving:
        for message in receiving:
            tried.append(str(message))
            if str(message) == "b":
                receiving.abandon_message(message)
            else:
                receiving.complete_message(message)
    assert sorted(tried) == ["a", "b", "b", "c", "d"]
    dead = received(client, queue, 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
    assert [(str(each), each.dead_letter_reason) for each in dead] == [("b", "MaxDeliveryCountExceeded")]


def test_several_workers_settle_what_one_receiver_gets(client, queue):
    send(client, queue, *(str(number) for number in range(30)))
    with receiver(client, queue, prefetch_count=30) as receiving, ThreadPoolExecutor(4) as pool:
        found, own = [], threading.Lock()

        def process(message):
            found.append(str(message))
            with own:  # a receiver is for one thread at a time
                receiving.complete_message(message)

        works = []
        while len(works) < 30:
            with own:
                messages = receiving.receive_messages(30, max_wait_time=1)
            works += [pool.submit(process, message) for message in messages]
        for work in works:
            work.result()
        assert sorted(found, key=int) == [str(number) for number in range(30)]
        assert receiving.peek_messages() == []


def test_a_lock_is_renewed_while_its_message_is_processed(client, create_queue):
    queue = create_queue(lockDuration="PT5S")
    send(client, queue, "slow")
    with AutoLockRenewer() as renewer, receiver(client, queue) as receiving:
        [message] = receiving.receive_messages()
        first = message.locked_until_utc
        renewer.register(receiving, message, max_lock_renewal_duration=60)
        while datetime.datetime.now(datetime.timezone.utc) < first + datetime.timedelta(seconds=0.5):
            time.sleep(0.1)
        assert message.locked_until_utc > first
        receiving.complete_message(message)
        assert receiving.peek_messages(sequence_number=1) == []


def test_a_handler_is_told_that_its_lock_cannot_be_renewed(appliance, client, create_queue):
    queue = create_queue(lockDuration="PT5S")
    send(client, queue, "a")
    told = []
    with AutoLockRenewer(on_lock_renew_failure=lambda message, error: told.append((str(message), error))) as renewer:
        with receiver(client, queue) as receiving:
            [message] = receiving.receive_messages()
            appliance.manage("DELETE", f"/queues/{queue}")
            renewer.register(receiving, message, max_lock_renewal_duration=60)
            eventually(lambda: told, "the renewal fails")
    assert told[0][0] == "a"


def asynchronously(appliance, transport, use):
    async def run():
        options = client_options(appliance, transport)
        async with AsyncServiceBusClient.from_connection_string(**options) as client:
            return await use(client)

    return asyncio.run(run())


@pytest.mark.parametrize("size", SIZES)
def test_the_asynchronous_client_sends_receives_and_settles(appliance, transport, queue, size):
    texts = [f"{number}{'x' * size}" for number in range(6)]

    async def use(client):
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        async with client.get_queue_sender(queue, keep_alive=0) as sender:
            await sender.send_messages(ServiceBusMessage(texts[0]))
            await sender.send_messages([ServiceBusMessage(each) for each in texts[1:3]])
            batch = await sender.create_message_batch()
            for each in texts[3:]:
                batch.add_message(ServiceBusMessage(each))
            await sender.send_messages(batch)
            numbers = await sender.schedule_messages([ServiceBusMessage("never")], later)
            await sender.cancel_scheduled_messages(numbers)
        found = []
        async with client.get_queue_receiver(queue, max_wait_time=5, keep_alive=0) as receiving:
            assert bodies(await receiving.peek_messages(max_message_count=9)) == texts
            async for message in receiving:
                found.append(message)
                if len(found) == len(texts):
                    break
            complete, abandon, defer, dead, *rest = found
            await receiving.renew_message_lock(complete)
            for message in (complete, *rest):
                await receiving.complete_message(message)
            await receiving.abandon_message(abandon)
            await receiving.defer_message(defer)
            await receiving.dead_letter_message(dead, reason="broken")
            [deferred] = await receiving.receive_deferred_messages(defer.sequence_number)
            [again] = await receiving.receive_messages()
            for message in (deferred, again):
                await receiving.complete_message(message)
            assert again.delivery_count == 1
        options = {"sub_queue": ServiceBusSubQueue.DEAD_LETTER, "receive_mode": ServiceBusReceiveMode.RECEIVE_AND_DELETE}
        async with client.get_queue_receiver(queue, max_wait_time=5, keep_alive=0, **options) as receiving:
            [dead] = await receiving.receive_messages()
            assert (str(dead), dead.dead_letter_reason) == (texts[3], "broken")
        return bodies(found)

    assert asynchronously(appliance, transport, use) == texts


def test_an_asynchronous_handler_has_its_lock_renewed(appliance, transport, create_queue):
    queue = create_queue(lockDuration="PT5S")

    async def use(client):
        async with client.get_queue_sender(queue, keep_alive=0) as sender:
            await sender.send_messages(ServiceBusMessage("slow"))
        async with AsyncAutoLockRenewer() as renewer:
            async with client.get_queue_receiver(queue, max_wait_time=5, keep_alive=0) as receiving:
                [message] = await receiving.receive_messages()
                first = message.locked_until_utc
                renewer.register(receiving, message, max_lock_renewal_duration=60)
                while datetime.datetime.now(datetime.timezone.utc) < first + datetime.timedelta(seconds=0.5):
                    await asyncio.sleep(0.1)
                assert message.locked_until_utc > first
                await receiving.complete_message(message)

    asynchronously(appliance, transport, use)
