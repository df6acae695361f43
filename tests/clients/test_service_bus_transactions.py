"""Transactions, as Qpid Proton uses them: the client for Python that has them. It speaks no WebSockets itself."""

import contextlib
import uuid

import proton
import pytest
from azure.servicebus import ServiceBusSubQueue
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, SenderOption

from appliance import PATIENCE_S
from queues import RULE, SIZES, WAIT_S, WEBSOCKETS, bodies, over_all_transports, received, receiver, send
from tunnel import Tunnel, over_websockets

pytestmark = over_all_transports


class Via(SenderOption):
    """What is sent goes to another entity in the end."""

    def __init__(self, destination):
        self.destination = destination

    def apply(self, sender):
        sender.properties = {proton.symbol("com.microsoft:transfer-destination-address"): self.destination}


class Moved(MessagingHandler, TransactionHandler):
    """Receives a message of one queue and sends others in one transaction."""

    def __init__(
        self, appliance, of, to, answers=("moved",), end="commit", before_end=lambda: None, via=None, outcome=None, url=None
    ):
        super().__init__(prefetch=0, auto_accept=False)
        # It verifies names alone, no addresses.
        self.url = url or appliance.url.replace("http", "amqp").replace("127.0.0.1", "localhost")
        self.of_message = outcome or proton.Delivery.ACCEPTED
        self.appliance, self.of, self.to, self.answers = appliance, of, to, answers
        self.end, self.before_end, self.via = end, before_end, via
        self.outcome = None
        self.trusting = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)

    def run(self):
        container = Container(self)
        container.timeout = 1
        container.schedule(PATIENCE_S, self)
        container.run()
        return self.outcome

    def on_start(self, event):
        if self.appliance.authority.exists():
            self.trusting.set_trusted_ca_db(str(self.appliance.authority))
            self.trusting.set_peer_authentication(proton.SSLDomain.VERIFY_PEER_NAME)
        self.connection = event.container.connect(
            self.url,
            user=RULE,
            password=self.appliance.token,
            allowed_mechs="PLAIN",
            ssl_domain=self.trusting,
            reconnect=False,
        )
        self.container = event.container
        options = Via(self.to) if self.via else None
        self.sender = event.container.create_sender(self.connection, self.via or self.to, options=options)
        self.receiver = event.container.create_receiver(self.connection, self.of)
        event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.receiver.flow(1)

    def on_message(self, event):
        for answer in self.answers:
            self.transaction.send(self.sender, proton.Message(body=answer.encode(), inferred=True))
        self.transaction.update(event.delivery, self.of_message)
        self.before_end()
        getattr(self.transaction, self.end)()

    def on_transaction_committed(self, event):
        self.ended("committed")

    def on_transaction_aborted(self, event):
        self.ended("aborted")

    def on_transaction_commit_failed(self, event):
        self.ended("failed")

    def on_link_error(self, event):
        self.ended(event.link.remote_condition.description)

    def on_transport_error(self, event):
        self.ended(str(event.transport.condition))

    def on_timer_task(self, event):
        self.ended("nothing within its time")

    def ended(self, outcome):
        self.outcome = self.outcome or outcome
        self.container.stop()


@pytest.fixture
def moved(appliance, transport):
    """Runs such a client over the transport, and returns how its transaction ended."""
    with contextlib.ExitStack() as stack:
        url = None
        if transport == WEBSOCKETS:
            url = f"amqp://127.0.0.1:{stack.enter_context(Tunnel(lambda: over_websockets(appliance))).port}"
        yield lambda of, to, **options: Moved(appliance, of, to, url=url, **options).run()


@pytest.fixture
def queues(client, create_queue):
    of, to = create_queue(maxDeliveryCount=3), create_queue()
    send(client, of, "work")
    return of, to


def count(appliance, queue):
    return appliance.manage("GET", f"/queues/{queue}")["properties"]["messageCount"]


def test_a_transaction_receives_and_sends(appliance, moved, client, queues):
    of, to = queues
    assert moved(of, to, answers=["a", "b"]) == "committed"
    assert (count(appliance, of), count(appliance, to)) == (0, 2)
    with receiver(client, to) as receiving:
        assert bodies(receiving.receive_messages(max_message_count=2)) == ["a", "b"]


def test_a_transaction_sends_by_way_of_another_entity(appliance, moved, client, queues):
    of, to = queues
    assert moved(of, to, via=of) == "committed"
    assert bodies(received(client, to, 1)) == ["moved"]
    assert (count(appliance, of), count(appliance, to)) == (0, 0)
    assert "could not be found" in moved(of, "nowhere", via=of)


def test_what_cannot_be_passed_on_is_a_transfer_dead_letter(appliance, moved, client, queues):
    of, to = queues
    disable = lambda: appliance.manage("PUT", f"/queues/{to}", {"properties": {"status": "SendDisabled"}})
    details = lambda: appliance.manage("GET", f"/queues/{of}")["properties"]["countDetails"]
    assert moved(of, to, via=of, before_end=disable) == "committed"
    with receiver(client, of, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER) as dead:
        [message] = dead.receive_messages()
        assert (str(message), message.dead_letter_reason) == ("moved", "ForwardTargetDisabled")
        assert details()["transferDeadLetterMessageCount"] == 1
        dead.complete_message(message)
        assert details()["transferDeadLetterMessageCount"] == 0
    assert (count(appliance, of), count(appliance, to)) == (0, 0)


def test_nothing_is_done_before_the_end_or_after_an_abort(appliance, moved, queues):
    of, to = queues
    seen = []
    look = lambda: seen.append((count(appliance, of), count(appliance, to)))
    assert moved(of, to, end="abort", before_end=look) == "aborted"
    assert seen == [(1, 0)]
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


def test_a_transaction_fails_as_a_whole(appliance, moved, queues):
    of, to = queues
    disable = lambda: appliance.manage("PUT", f"/queues/{to}", {"properties": {"status": "SendDisabled"}})
    assert moved(of, to, before_end=disable) == "failed"
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


def test_a_transaction_has_a_hundred_messages_at_most(appliance, moved, queues):
    of, to = queues
    assert moved(of, to, answers=["x"] * 100) == "failed"
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


@pytest.mark.parametrize("size", SIZES)
def test_messages_of_a_transaction_are_small_or_large(moved, client, queues, size):
    of, to = queues
    answers = [f"{number}{'x' * size}" for number in range(3)]
    assert moved(of, to, answers=answers) == "committed"
    assert bodies(received(client, to, 3)) == answers


@pytest.mark.parametrize(
    "outcome, details, delivered",
    [
        (proton.Delivery.RELEASED, ("activeMessageCount", 1), 0),
        (proton.Delivery.MODIFIED, ("activeMessageCount", 1), 1),
        (proton.Delivery.REJECTED, ("deadLetterMessageCount", 1), None),
    ],
    ids=["released", "modified", "rejected"],
)
def test_a_transaction_settles_in_every_way(appliance, moved, client, queues, outcome, details, delivered):
    of, to = queues
    name, expected = details
    assert moved(of, to, outcome=outcome) == "committed"
    assert appliance.manage("GET", f"/queues/{of}")["properties"]["countDetails"][name] == expected
    assert count(appliance, to) == 1
    if delivered is not None:
        assert [each.delivery_count for each in received(client, of, 1)] == [delivered]


def test_a_transaction_without_messages_settles_alone(appliance, moved, queues):
    of, to = queues
    assert moved(of, to, answers=[]) == "committed"
    assert (count(appliance, of), count(appliance, to)) == (0, 0)


def test_a_transaction_sends_to_a_topic(appliance, moved, client, queues):
    of, _ = queues
    topic = f"t-{uuid.uuid4()}"
    appliance.manage("PUT", f"/serviceBusTopics/{topic}", {"properties": {}}, status=201)
    for name in ("one", "two"):
        appliance.manage("PUT", f"/serviceBusTopics/{topic}/subscriptions/{name}", {"properties": {}}, status=201)
    assert moved(of, topic, answers=["a"]) == "committed"
    for name in ("one", "two"):
        with client.get_subscription_receiver(topic, name, max_wait_time=WAIT_S) as receiving:
            assert bodies(receiving.receive_messages()) == ["a"]
