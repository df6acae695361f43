"""The built binary, killed at random moments while the stock Service Bus client sends and receives: what was acknowledged
is there, what was settled does not come back, and after each start the counts are those of what lies there.

`EVERPOST_KILLS=200` kills that often; `EVERPOST_SEED` throws the same dice again."""

import datetime
import os
import random
import threading
import time

import proton
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from appliance import Appliance, eventually
from queues import connection_string
from test_service_bus_transactions import Moved

KILLS = int(os.environ.get("EVERPOST_KILLS", 5))
SEED = int(os.environ.get("EVERPOST_SEED", time.time()))

# At most so many messages are acknowledged between two kills: a count, so that a slow machine is killed at the same
# stages of its work as a fast one.
BETWEEN_KILLS = 120

SESSIONS = ["a", "b", "c"]
ENTITIES = {
    "jobs": {"lockDuration": "PT5S", "maxDeliveryCount": 5, "forwardDeadLetteredMessagesTo": "morgue"},
    "entry": {"forwardTo": "jobs"},
    "sessions": {"lockDuration": "PT5S", "maxDeliveryCount": 5, "requiresSession": True},
    "morgue": {},
    "news": {},
    "news/copies": {"forwardTo": "jobs"},
    "upward": {"forwardTo": "news"},
    "hand": {"lockDuration": "PT5S", "maxDeliveryCount": 100},
}
# Each behind what it forwards to.
ORDER = ["morgue", "jobs", "news", "news/copies", "upward", "entry", "sessions", "hand"]
SENT_TO = ["jobs", "entry", "sessions", "upward", "hand"]
PASSED_ON = ["entry", "upward", "news/copies"]
RESTS = ["jobs", "morgue", "hand"]


class Ledger:
    """What the clients were told. A message whose request was not answered may be there or not."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent, self.perhaps_sent = set(), set()
        self.done, self.perhaps_done = set(), set()
        self.came_back = []
        self.passed = 0

    def must_lie(self):
        return self.sent - self.done - self.perhaps_done

    def may_lie(self):
        return (self.sent | self.perhaps_sent) - self.done


class Passed(Moved):
    """Passes a message on in a transaction, with its id."""

    def on_message(self, event):
        passed = proton.Message(id=event.message.id, body=b"work", inferred=True)
        self.transaction.send(self.sender, passed)
        self.transaction.accept(event.delivery)
        self.transaction.commit()


class Load:
    """Clients that go on until they are told to stop, whoever is killed meanwhile."""

    def __init__(self, appliance, ledger):
        self.appliance, self.ledger = appliance, ledger
        self.numbers = iter(range(10**9))
        self.running, self.ended = threading.Event(), threading.Event()
        self.idle = threading.Semaphore(0)
        works = [self.send, self.send, self.receive, self.receive_sessions, self.pass_on]
        dice = [random.Random(f"{SEED} {place}") for place in range(len(works))]
        self.threads = [
            threading.Thread(target=self.work, args=pair, daemon=True) for pair in zip(works, dice, strict=True)
        ]
        for thread in self.threads:
            thread.start()

    def work(self, act, dice):
        while True:
            if not self.running.is_set():
                self.idle.release()
                self.running.wait()
            if self.ended.is_set():
                return
            # A client that is closed sleeps, and one whose server was killed has nothing to close.
            client = ServiceBusClient.from_connection_string(connection_string(self.appliance), retry_total=0)
            try:
                act(client, dice)
            except Exception:  # whatever a killed server makes of a client, or a session that another one holds
                pass
                time.sleep(0.05)

    def pause(self):
        self.running.clear()
        for _ in self.threads:
            self.idle.acquire()

    def stop(self):
        self.pause()
        self.ended.set()
        self.running.set()

    def send(self, client, dice):
        senders = {name: client.get_queue_sender(name) for name in SENT_TO}
        senders["news"] = client.get_topic_sender("news")
        while self.running.is_set():
            name = dice.choice(list(senders))
            ids = {f"{name}-{next(self.numbers)}" for _ in range(dice.randint(1, 3))}
            with self.ledger.lock:
                self.ledger.perhaps_sent |= ids
            later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
            scheduled = later if dice.random() < 0.2 else None
            session = dice.choice(SESSIONS) if name == "sessions" else None
            senders[name].send_messages([
                ServiceBusMessage("work", message_id=id, session_id=session, scheduled_enqueue_time_utc=scheduled)
                for id in ids
            ])
            with self.ledger.lock:
                self.ledger.sent |= ids

    def pass_on(self, client, dice):
        while self.running.is_set() and Passed(self.appliance, "hand", "jobs").run() == "committed":
            with self.ledger.lock:
                self.ledger.passed += 1

    def receive(self, client, dice):
        receiving = client.get_queue_receiver("jobs").__enter__()  # else it has to open within the time of a receive
        while self.running.is_set():
            self.settle_some(receiving, dice)

    def receive_sessions(self, client, dice):
        with client.get_queue_receiver("sessions", session_id=dice.choice(SESSIONS)) as receiving:
            for _ in range(20):
                if self.running.is_set():
                    self.settle_some(receiving, dice)

    def settle_some(self, receiving, dice):
        for message in receiving.receive_messages(max_message_count=10, max_wait_time=0.2):
            id = message.message_id
            with self.ledger.lock:
                if id in self.ledger.done:
                    self.ledger.came_back.append(id)
            roll = dice.random()
            if roll < 0.1:
                receiving.abandon_message(message)
            elif roll < 0.2:
                receiving.dead_letter_message(message, reason="no use")
            elif roll < 0.25:
                receiving.defer_message(message)
            else:
                with self.ledger.lock:
                    self.ledger.perhaps_done.add(id)
                receiving.complete_message(message)
                with self.ledger.lock:
                    self.ledger.done.add(id)


def peeked(client, name, **options):
    """The ids of all messages of a queue."""
    ids = []
    with client.get_queue_receiver(name, **options) as receiving:
        number = 0
        while messages := receiving.peek_messages(250, sequence_number=number):
            ids += [message.message_id for message in messages]
            number = messages[-1].sequence_number + 1
    return ids


def counts(appliance, name):
    return appliance.manage("GET", path_of(name))["properties"]


def path_of(name):
    topic, _, subscription = name.partition("/")
    if topic != "news":
        return f"/queues/{name}"
    return "/serviceBusTopics/news" + (f"/subscriptions/{subscription}" if subscription else "")


def check(appliance, ledger):
    """What lies in the queues without sessions, once nothing is being forwarded, and how much in the one with them."""
    with ServiceBusClient.from_connection_string(connection_string(appliance), retry_total=0) as client:

        def rested():
            moving = [counts(appliance, name)["messageCount"] for name in PASSED_ON]
            moving.append(counts(appliance, "jobs")["countDetails"]["deadLetterMessageCount"])
            moving.append(counts(appliance, "news")["countDetails"]["scheduledMessageCount"])
            before = [counts(appliance, name)["messageCount"] for name in RESTS]
            lies = [peeked(client, name) for name in RESTS]
            return lies if not any(moving) and before == [len(ids) for ids in lies] else None

        lies = eventually(rested, "the counts are those of what lies there")
    assert_lie(ledger, sum(lies, []), lambda id: not is_in_session(id))
    least, most = (len(list(filter(is_in_session, ids))) for ids in (ledger.must_lie(), ledger.may_lie()))
    assert least <= counts(appliance, "sessions")["messageCount"] <= most
    assert ledger.came_back == []


def is_in_session(id):
    return id.startswith("sessions")


def assert_lie(ledger, ids, of):
    must, may = ({id for id in some if of(id)} for some in (ledger.must_lie(), ledger.may_lie()))
    assert len(ids) == len(set(ids)), "a message lies in two places"
    assert must <= set(ids), f"lost: {must - set(ids)}"
    assert set(ids) <= may, f"not expected: {set(ids) - may}"


def check_sessions(appliance, ledger):
    with ServiceBusClient.from_connection_string(connection_string(appliance)) as client:
        dead = peeked(client, "sessions", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        lie = [id for session in SESSIONS for id in peeked(client, "sessions", session_id=session)]
    assert_lie(ledger, dead + lie, is_in_session)


def test_nothing_is_lost_and_nothing_comes_back(tmp_path):
    print(f"repeat with EVERPOST_SEED={SEED}")
    dice = random.Random(SEED)
    ledger = Ledger()
    with Appliance(tmp_path / "data") as appliance:
        for name in ORDER:
            appliance.manage("PUT", path_of(name), {"properties": ENTITIES[name]}, status=201)
        load = Load(appliance, ledger)
        for kill in range(KILLS):
            load.running.set()
            goal = len(ledger.sent) + dice.randint(1, BETWEEN_KILLS)
            eventually(lambda goal=goal: len(ledger.sent) >= goal, "messages are acknowledged")
            appliance.process.kill()
            appliance.process.wait()
            load.pause()
            appliance.printed = []
            appliance.start()
            check(appliance, ledger)
            if kill % 20 == 19:
                print(f"{kill + 1} kills, {len(ledger.sent)} messages sent, {len(ledger.done)} completed, {ledger.passed} passed on")
        load.stop()
        check_sessions(appliance, ledger)
        assert len(ledger.done) > KILLS and ledger.passed > 0, "too little happens"


