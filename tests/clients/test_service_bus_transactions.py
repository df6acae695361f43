"""Transactions, as Qpid Proton uses them: the client for Python that has them."""

import proton
import pytest
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, SenderOption
from proton.utils import BlockingConnection, LinkDetached

from appliance import PATIENCE_S
from queues import RULE, bodies, receiver, send


class Via(SenderOption):
    """What is sent goes to another entity in the end."""

    def __init__(self, destination):
        self.destination = destination

    def apply(self, sender):
        sender.properties = {proton.symbol("com.microsoft:transfer-destination-address"): self.destination}


class Moved(MessagingHandler, TransactionHandler):
    """Receives a message of one queue and sends others in one transaction."""

    def __init__(self, appliance, of, to, answers=("moved",), end="commit", before_end=lambda: None, via=None):
        super().__init__(prefetch=0, auto_accept=False)
        self.appliance, self.of, self.to, self.answers = appliance, of, to, answers
        self.end, self.before_end, self.via = end, before_end, via
        self.outcome = None
        self.enlisted = 0

    def run(self):
        container = Container(self)
        container.timeout = 1
        container.schedule(PATIENCE_S, self)
        container.run()
        return self.outcome

    def on_start(self, event):
        self.connection = event.container.connect(
            self.appliance.url.replace("http://", "amqp://"),
            user=RULE,
            password=self.appliance.token,
            allowed_mechs="PLAIN",
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
        self.transaction.accept(event.delivery)
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
def queues(client, create_queue):
    of, to = create_queue(maxDeliveryCount=3), create_queue()
    send(client, of, "work")
    return of, to


def count(appliance, queue):
    return appliance.manage("GET", f"/queues/{queue}")["properties"]["messageCount"]


def test_a_transaction_receives_and_sends(appliance, client, queues):
    of, to = queues
    assert Moved(appliance, of, to, answers=["a", "b"]).run() == "committed"
    assert (count(appliance, of), count(appliance, to)) == (0, 2)
    with receiver(client, to) as receiving:
        assert bodies(receiving.receive_messages(max_message_count=2)) == ["a", "b"]


def test_a_transaction_sends_by_way_of_another_entity(appliance, queues):
    of, to = queues
    assert Moved(appliance, of, to, via=of).run() == "committed"
    assert (count(appliance, of), count(appliance, to)) == (0, 1)
    assert "could not be found" in Moved(appliance, of, "nowhere", via=of).run()


def test_nothing_is_done_before_the_end_or_after_an_abort(appliance, queues):
    of, to = queues
    seen = []
    look = lambda: seen.append((count(appliance, of), count(appliance, to)))
    assert Moved(appliance, of, to, end="abort", before_end=look).run() == "aborted"
    assert seen == [(1, 0)]
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


def test_a_transaction_fails_as_a_whole(appliance, queues):
    of, to = queues
    disable = lambda: appliance.manage("PUT", f"/queues/{to}", {"properties": {"status": "SendDisabled"}})
    assert Moved(appliance, of, to, before_end=disable).run() == "failed"
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


def test_a_transaction_has_a_hundred_messages_at_most(appliance, queues):
    of, to = queues
    assert Moved(appliance, of, to, answers=["x"] * 100).run() == "failed"
    assert (count(appliance, of), count(appliance, to)) == (1, 0)


@pytest.mark.guesses
def test_plain_credentials_are_those_of_an_access_rule(appliance, client, create_queue):
    own, other = create_queue(), create_queue()
    rule = f"{own}%2Fworker"
    appliance.manage("PUT", f"/everpost/accessRules/{rule}", {"rights": ["Send"]})
    keys = appliance.manage("POST", f"/everpost/accessRules/{rule}/listKeys")

    def connect(key):
        url = appliance.url.replace("http://", "amqp://")
        return BlockingConnection(url, user="worker", password=key, allowed_mechs="PLAIN", timeout=PATIENCE_S)

    connection = connect(keys["key2"])
    connection.create_sender(own).send(proton.Message(body=b"hello", inferred=True))
    for refused in (lambda: connection.create_sender(other), lambda: connection.create_receiver(own)):
        with pytest.raises(LinkDetached, match="unauthorized-access"):
            refused()
    connection.close()
    with pytest.raises(proton.ConnectionException, match="unauthorized"):
        connect("wrong")
    with receiver(client, own) as receiving:
        assert bodies(receiving.receive_messages()) == ["hello"]
