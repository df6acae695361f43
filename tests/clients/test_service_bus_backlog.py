"""A backlog that is received over WebSockets by clients whose connections are cut at any byte: what was acknowledged comes,
nothing else does, and what dies has a reason.

`EVERPOST_BACKLOG_MIB=64` has so much of it; `EVERPOST_SEED` throws the same dice again."""

import itertools
import os
import random
import time

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.exceptions import ServiceBusError

from appliance import eventually
from queues import WEBSOCKETS, client_options
from tunnel import Tunnel, over_tcp

MIB = int(os.environ.get("EVERPOST_BACKLOG_MIB", 4))
SEED = int(os.environ.get("EVERPOST_SEED", time.time()))

BODY_BYTES = 32 * 1024
COUNT = MIB * 1024 * 1024 // BODY_BYTES
CUTS = 4

# What the system keeps unread of a connection.
WINDOW_BYTES = 32 * 1024

# What a connection that is cut may have had on its way, when its messages are removed as they are sent: what waits in the
# appliance to be written, at most 1 MiB and the messages of one turn, and in the system's buffers.
ON_THE_WAY_BYTES = 2 * 1024 * 1024

# Often enough for a message that each cut connection has had.
DELIVERIES_MAX = 2 * CUTS


def connected(appliance, tunnel):
    """A client that goes through the tunnel, and never tries again by itself."""
    options = client_options(appliance, WEBSOCKETS)
    options["custom_endpoint_address"] = f"sb://127.0.0.1:{tunnel.port}"
    return ServiceBusClient.from_connection_string(**options)


def until_done(appliance, tunnel, use):
    """Uses one client after another until one is not cut."""
    while True:
        client = connected(appliance, tunnel)
        try:
            return use(client)
        except (ServiceBusError, OSError, ValueError, AttributeError):  # what a client makes of a cut differs
            assert tunnel.cut, "it failed without a cut"
            if tunnel.cut > 2 * CUTS:
                raise


def cuts(dice, count):
    """After how many bytes each of so many connections is cut."""
    return [dice.randrange(MIB * 200_000) for _ in range(count)]


def filled(appliance, queue, dice):
    """Sends the backlog. Returns what was acknowledged, and what may be there besides."""
    sent, perhaps, numbers = set(), set(), iter(range(COUNT))

    def send(client):
        with client.get_queue_sender(queue, keep_alive=0) as sender:
            while batch := list(itertools.islice(numbers, 16)):
                perhaps.update(batch)
                messages = [ServiceBusMessage(bytes(BODY_BYTES), message_id=str(number)) for number in batch]
                sender.send_messages(messages)
                sent.update(batch)

    with Tunnel(lambda: over_tcp(appliance), cuts(dice, CUTS)) as tunnel:
        until_done(appliance, tunnel, send)
    return sent, perhaps


@pytest.mark.parametrize("prefetch", [0, 1, 100, 5_000], ids=lambda count: f"prefetch{count}")
@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode), ids=lambda mode: mode.value)
def test_nothing_is_lost_that_was_not_written(shared_secure_appliance, prefetch, mode):
    appliance, dice = shared_secure_appliance, random.Random(f"{SEED} {prefetch} {mode}")
    print(f"repeat with EVERPOST_SEED={SEED}")
    queue = f"backlog-{mode.value}-{prefetch}".lower()
    properties = {"lockDuration": "PT5S", "maxDeliveryCount": DELIVERIES_MAX}
    appliance.manage("PUT", f"/queues/{queue}", {"properties": properties}, status=201)
    sent, perhaps = filled(appliance, queue, dice)
    got, completed, again = set(), set(), []
    removes = mode == ServiceBusReceiveMode.RECEIVE_AND_DELETE
    count = lambda: appliance.manage("GET", f"/queues/{queue}")["properties"]["countDetails"]

    def receive(client):
        options = {"receive_mode": mode, "prefetch_count": prefetch, "keep_alive": 0}
        with client.get_queue_receiver(queue, **options) as receiving:
            while count()["activeMessageCount"]:
                for message in receiving.receive_messages(max_message_count=50, max_wait_time=1):
                    number = int(message.message_id)
                    assert len(b"".join(message.body)) == BODY_BYTES
                    if number in completed or (removes and number in got):
                        again.append(number)
                    got.add(number)
                    if not removes:
                        receiving.complete_message(message)
                        completed.add(number)

    count_of_cuts = max(MIB // 16, 1) if removes else CUTS
    with Tunnel(lambda: over_tcp(appliance, WINDOW_BYTES), cuts(dice, count_of_cuts)) as tunnel:
        until_done(appliance, tunnel, receive)
    assert tunnel.cut > 0, "what is removed may all have gone before the last cut"
    told = lambda: "an AMQP connection ended early" in appliance.log()
    eventually(told, "a line in the log about what was cut, one a minute")
    assert again == [], "what was completed or removed comes again"
    assert got <= perhaps
    assert count()["deadLetterMessageCount"] == 0
    if removes:
        # What did not arrive was on its way over a connection that was cut.
        may_be_gone = tunnel.written + tunnel.cut * ON_THE_WAY_BYTES
        assert len(sent | got) * BODY_BYTES <= may_be_gone, f"{len(sent - got)} lost"
    else:
        assert sent <= got
