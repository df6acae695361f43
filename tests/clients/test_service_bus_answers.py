"""No request is left without an answer: every operation of AMQP, of REST and of the administration API, in and outside of
transactions, too large, malformed, without right, and to what does not exist."""

import itertools
import re
import time
import uuid

import pytest
import requests
from azure.servicebus._pyamqp._decode import decode_payload

import amqp
import queues
from amqp import COORDINATOR, NULL, RECEIVER, SENDER, composite, encoded, symbol
from appliance import PATIENCE_S, REPOSITORY, Appliance
from queues import RULE, token
from tunnel import over_tcp

TEXT = encoded("text")
TOO_LARGE = 2_000_000
GARBAGE = b"\x00\x53\x77\xff\xff"
NEVER_A_TRANSACTION = b"nobody has declared it"

LOCK = {"TYPE": "UUID", "VALUE": uuid.UUID(int=7)}
UINT = lambda number: {"TYPE": "UINT", "VALUE": number}
LONGS = {"TYPE": "ARRAY", "VALUE": [{"TYPE": "LONG", "VALUE": 7}]}
MESSAGES = [{"message": amqp.described(0x75, amqp.binary(b"body"))}]

# A body with which each of them can be read.
OPERATIONS = {
    "renew-lock": {"lock-tokens": {"TYPE": "ARRAY", "VALUE": [LOCK]}},
    "peek-message": {"from-sequence-number": {"TYPE": "LONG", "VALUE": 1}, "message-count": 3},
    "receive-by-sequence-number": {"sequence-numbers": LONGS, "receiver-settle-mode": UINT(1)},
    "update-disposition": {"lock-tokens": {"TYPE": "ARRAY", "VALUE": [LOCK]}, "disposition-status": "completed"},
    "batch-delete-messages": {"message-count": 1, "enqueued-time-utc": {"TYPE": "TIMESTAMP", "VALUE": 0}},
    "schedule-message": {"messages": MESSAGES},
    "cancel-scheduled-message": {"sequence-numbers": LONGS},
    "renew-session-lock": {"session-id": "s"},
    "get-session-state": {"session-id": "s"},
    "set-session-state": {"session-id": "s", "session-state": b"state"},
    "get-message-sessions": {"skip": 0, "top": 9},
    "add-rule": {"rule-name": "r", "rule-description": {"sql-filter": {"expression": "1=1"}}},
    "remove-rule": {"rule-name": "missing"},
    "enumerate-rules": {"skip": 0, "top": 9},
}


# Where each operation over HTTP is asked for: below an entity, or at a place of the administration API.
REST = {
    "Send": "/messages",
    "PeekLock": "/messages/head?timeout=0",
    "ReceiveAndDelete": "/messages/head?timeout=0",
    "Unlock": "/messages/1/7",
    "Complete": "/messages/1/7",
    "RenewLock": "/messages/1/7",
}
PLACES = {
    "Namespace": "/$namespaceinfo",
    "Queues": "/$Resources/queues",
    "Topics": "/$Resources/topics",
    "Entity": "/plain",
    "Subscriptions": "/topic/Subscriptions",
    "Subscription": "/topic/Subscriptions/all",
    "Rules": "/topic/Subscriptions/all/Rules",
    "Rule": "/topic/Subscriptions/all/Rules/new",
}
VERSION = "?api-version=2021-05"


def test_every_operation_is_asked_for():
    source = (REPOSITORY / "src/wire/amqp/management.rs").read_text()
    known = source[source.index("fn operation(&self") : source.index("fn outcome(&self")]
    assert set(re.findall(r'^            "([a-z-]+)" =>', known, re.MULTILINE)) == set(OPERATIONS)


@pytest.mark.parametrize("file, name, asked", [("address", "QueueOperation", REST), ("atom", "AtomPath", PLACES)])
def test_every_operation_over_http_is_asked_for(file, name, asked):
    source = (REPOSITORY / f"src/wire/service_bus/{file}.rs").read_text()
    known = re.search(rf"^pub enum {name} {{$(.*?)^}}$", source, re.MULTILINE | re.DOTALL)[1]
    assert set(re.findall(r"^    (\w+)", known, re.MULTILINE)) == set(asked)


class Entities:
    def __init__(self, appliance):
        self.appliance = appliance
        put = lambda path, **properties: appliance.manage("PUT", path, {"properties": properties}, status=201)
        put("/queues/plain")
        put("/queues/sessions", requiresSession=True)
        put("/queues/closed", status="Disabled")
        put("/queues/forwarding", forwardTo="plain")
        put("/serviceBusTopics/topic")
        put("/serviceBusTopics/topic/subscriptions/all")
        self.rights = {RULE: appliance.token}
        for name, right in (("sends", "Send"), ("listens", "Listen")):
            appliance.manage("PUT", f"/everpost/accessRules/{name}", {"rights": [right]})
            self.rights[name] = appliance.manage("POST", f"/everpost/accessRules/{name}/listKeys")["key1"]

    def peer(self, rule=RULE):
        return amqp.Peer(over_tcp(self.appliance), rule, self.rights[rule])


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("answers") / "data") as appliance:
        yield Entities(appliance)


class Asked:
    """What is asked over one connection, and which of it is answered."""

    def __init__(self, peer):
        self.peer, self.expected, self.answers = peer, {}, {}
        self.handles, self.deliveries, self.numbers = itertools.count(), itertools.count(), itertools.count()
        self.in_flow = set()

    def attach(self, role, address, **options):
        """Attaches a link, and waits until it is answered and, for a sender, until it may send."""
        handle = next(self.handles)
        self.peer.send(amqp.attach(handle, role, address, **options))
        self.expect("attach", handle, f"{role} {address}")
        is_open = lambda: role == RECEIVER or handle in self.in_flow
        self.read(lambda: ("attach", handle) in self.answers and (is_open() or ("ended", handle) in self.answers))
        if role == RECEIVER:
            self.peer.send(amqp.credit(handle, 1_000))
        return handle

    def transfer(self, handle, payload, **fields):
        delivery = next(self.deliveries)
        self.expect("settled", delivery, (payload[:40], fields))
        self.peer.send(amqp.transfers(handle, delivery, payload, **fields))
        return delivery

    def request(self, handle, operation, body, name="com.microsoft:{}", **fields):
        number, delivery = next(self.numbers), next(self.deliveries)
        self.expect("reply", delivery, (operation, body[:40], fields))
        self.expect("settled", delivery, (operation, body[:40], fields))
        self.numbered[number] = delivery
        self.peer.send(amqp.transfers(handle, delivery, asking(number, operation, body, name), **fields))
        return delivery

    def answer_to(self, handle, operation, body, **fields):
        """The status of a request, and what is answered."""
        delivery = self.request(handle, operation, encoded(body), **fields)
        self.read(lambda: ("reply", delivery) in self.answers)
        reply = decode_payload(memoryview(self.answers["reply", delivery]))
        return reply.application_properties[b"statusCode"], reply.value

    numbered = property(lambda self: self.__dict__.setdefault("by_number", {}))

    def expect(self, kind, key, what):
        assert (kind, key) not in self.expected
        self.expected[kind, key] = what

    def declare(self):
        """A coordinator's link, and a transaction of it."""
        handle = self.attach(SENDER, "coordinator", target=COORDINATOR)
        delivery = self.transfer(handle, amqp.described(0x77, composite(0x31, NULL)))
        self.read(lambda: ("settled", delivery) in self.answers)
        return handle, bytes(self.answers["settled", delivery][0])

    def discharge(self, handle, transaction, fails=amqp.NO):
        return self.transfer(handle, amqp.described(0x77, composite(0x32, amqp.binary(transaction), fails)))

    def read(self, enough=lambda: False):
        """Reads until everything is answered, or this is, at most as long as anything may take."""
        deadline = time.monotonic() + PATIENCE_S
        while self.unanswered() and not enough():
            read = self.peer.read(deadline)
            if read is None:
                break
            self.note(*read)

    def note(self, code, fields):
        if code == amqp.ATTACH:
            self.answer("attach", fields[1], fields)
        elif code == amqp.FLOW_FRAME:
            self.in_flow.add(fields[4])
        elif code == amqp.TRANSFER:
            payload = bytes(fields[-1])
            if found := re.search(rb"request-(\d+)", payload):
                self.answer("reply", self.numbered[int(found[1])], payload)
            else:
                self.answer("message", fields[1], payload)
        elif code == amqp.DISPOSITION:
            of_receiver, first, last, is_settled, state, _ = fields
            for delivery in range(first, (first if last is None else last) + 1):
                # What takes part in a transaction is told so first, and settled at its end.
                was_told = ("outcome", delivery) in self.answers and is_settled
                self.answer("settled" if of_receiver else "end" if was_told else "outcome", delivery, state)
                # A request that is rejected has no other answer.
                if of_receiver and ("reply", delivery) in self.expected and is_rejected(state):
                    self.answer("reply", delivery, state)
        elif code == amqp.DETACH:
            self.answer("ended", fields[0], fields[2])

    def answer(self, kind, key, fields):
        assert (kind, key) not in self.answers, f"answered twice: {self.expected.get((kind, key))}"
        self.answers[kind, key] = fields

    def unanswered(self):
        return [what for key, what in self.expected.items() if key not in self.answers]

    def assert_answered(self):
        """Everything has its answer, and nothing was answered that was not asked."""
        self.read()
        assert self.unanswered() == []
        asked = [key for key in self.answers if key[0] in ("attach", "settled", "reply", "outcome")]
        assert set(asked) == set(self.expected) - {key for key in self.expected if key[0] == "ended"}
        return len(asked)


def is_rejected(state):
    return isinstance(state, dict) and "rejected" in state


def asking(number, operation, body, name):
    """A request whose body is encoded already; without an operation it has no properties either."""
    about = amqp.composite(0x73, amqp.text(f"request-{number}"), NULL, NULL, NULL, amqp.text("$management"))
    pairs = [amqp.text("operation"), amqp.text(name.format(operation))]
    properties = amqp.described(0x74, amqp.compound(b"\xd1", pairs)) if operation else b""
    return about + properties + amqp.described(0x77, body)


RECEIVED_FROM = ["plain", "sessions", "closed", "topic/Subscriptions/all", "plain/$DeadLetterQueue"]
RECEIVED_FROM += ["plain/$Transfer/$DeadLetterQueue"]
SENT_TO = ["plain", "sessions", "topic", "closed", "forwarding"]


@pytest.mark.parametrize("entity", sorted({*RECEIVED_FROM, *SENT_TO}))
def test_requests_to_management_are_answered(entities, entity):
    asked = Asked(entities.peer())
    coordinator, transaction = asked.declare()
    asked.attach(RECEIVER, f"{entity}/$management")
    handle = asked.attach(SENDER, f"{entity}/$management")
    if ("ended", handle) in asked.answers:
        return asked.assert_answered()
    within, nowhere = amqp.in_transaction(transaction), amqp.in_transaction(NEVER_A_TRANSACTION)
    for operation, body in {**OPERATIONS, "unknown": {}, None: {}}.items():
        wrong = {name: "text" for name in body}
        for each in (body, {}, wrong, {name: 7 for name in body}, {name: None for name in body}, "text"):
            asked.request(handle, operation, encoded(each))
        for state in (within, nowhere):
            asked.request(handle, operation, encoded(body), state=state)
    asked.request(handle, "peek-message", encoded(OPERATIONS["peek-message"]), name="{}")
    asked.discharge(coordinator, transaction)
    assert asked.assert_answered() > 8 * len(OPERATIONS)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
def test_requests_take_part_in_their_transaction(entities, commits):
    appliance, name = entities.appliance, f"parts-{commits}".lower()
    for queue, properties in ((name, {}), (f"{name}-in-sessions", {"requiresSession": True})):
        appliance.manage("PUT", f"/queues/{queue}", {"properties": properties}, status=201)
    counts = lambda: appliance.manage("GET", f"/queues/{name}")["properties"]["countDetails"]
    asked = Asked(entities.peer())
    coordinator, transaction = asked.declare()
    within = {"state": amqp.in_transaction(transaction)}
    asked.attach(RECEIVER, f"{name}/$management")
    handle = asked.attach(SENDER, f"{name}/$management")
    at = {"TYPE": "TIMESTAMP", "VALUE": int((time.time() + 600) * 1_000)}
    scheduling = amqp.compound(b"\xd1", [symbol("x-opt-scheduled-enqueue-time"), encoded(at)])
    later = amqp.described(0x72, scheduling) + amqp.described(0x75, amqp.binary(b"later"))
    schedule = {"messages": [{"message": later}, {"message": later}]}
    numbers = lambda values: {"TYPE": "ARRAY", "VALUE": [{"TYPE": "LONG", "VALUE": each} for each in values]}
    status, before = asked.answer_to(handle, "schedule-message", schedule)
    assert (status, before) == (200, {b"sequence-numbers": [1, 2]})
    cancel = {"sequence-numbers": numbers([1, 2])}
    assert asked.answer_to(handle, "cancel-scheduled-message", cancel, **within)[0] == 200
    missing = {"sequence-numbers": numbers([77])}
    assert asked.answer_to(handle, "cancel-scheduled-message", missing, **within)[0] == 404
    schedule["messages"] *= 2
    promised = asked.answer_to(handle, "schedule-message", schedule, **within)
    assert promised == (200, {b"sequence-numbers": [3, 4, 5, 6]})
    with queues.connect(appliance) as client, queues.receiver(client, name) as receiving:
        queues.send(client, name, "work")
        [message] = receiving.receive_messages()
        assert message.sequence_number == 7
        lock = {"TYPE": "ARRAY", "VALUE": [{"TYPE": "UUID", "VALUE": message.lock_token}]}
        completed = {"lock-tokens": lock, "disposition-status": "completed"}
        assert asked.answer_to(handle, "update-disposition", completed, **within)[0] == 200
        assert asked.answer_to(handle, "renew-lock", {"lock-tokens": lock}, **within)[0] == 200
    gone = {"lock-tokens": {"TYPE": "ARRAY", "VALUE": [LOCK]}, "disposition-status": "completed"}
    assert asked.answer_to(handle, "update-disposition", gone, **within)[0] == 410
    asked.attach(RECEIVER, f"{name}-in-sessions", session="s")
    asked.attach(RECEIVER, f"{name}-in-sessions/$management")
    of_session = asked.attach(SENDER, f"{name}-in-sessions/$management")
    state = {"session-id": "s", "session-state": b"kept"}
    assert asked.answer_to(of_session, "set-session-state", state, **within)[0] == 200
    reading = {"session-id": "s"}
    assert asked.answer_to(of_session, "get-session-state", reading, **within) == (200, {b"session-state": None})
    assert (counts()["scheduledMessageCount"], counts()["activeMessageCount"]) == (2, 1), "nothing before the end"
    ended = asked.discharge(coordinator, transaction, amqp.NO if commits else amqp.YES)
    asked.assert_answered()
    assert not is_rejected(asked.answers["settled", ended])
    assert (counts()["scheduledMessageCount"], counts()["activeMessageCount"]) == ((4, 0) if commits else (2, 1))
    kept = asked.answer_to(of_session, "get-session-state", reading)
    assert kept == (200, {b"session-state": b"kept" if commits else None})
    if commits:
        assert asked.answer_to(handle, "cancel-scheduled-message", {"sequence-numbers": numbers([3, 4, 5, 6])})[0] == 200
        assert counts()["scheduledMessageCount"] == 0


@pytest.mark.parametrize("payload", [b"", GARBAGE, bytes(TOO_LARGE)], ids=["empty", "garbage", "too large"])
@pytest.mark.parametrize("node", ["plain/$management", "$cbs", "coordinator"])
def test_what_is_no_request_is_answered(entities, node, payload):
    for is_within in (False, True):
        asked = Asked(entities.peer())
        _, transaction = asked.declare()
        handle = asked.attach(SENDER, node, target=COORDINATOR if node == "coordinator" else None)
        asked.transfer(handle, payload, **({"state": amqp.in_transaction(transaction)} if is_within else {}))
        asked.assert_answered()


@pytest.mark.parametrize("rule", ["sends", "listens"])
def test_requests_without_the_right_are_answered(entities, rule):
    asked = Asked(entities.peer(rule))
    asked.attach(RECEIVER, "plain/$management")
    handle = asked.attach(SENDER, "plain/$management")
    for operation, body in OPERATIONS.items():
        asked.request(handle, operation, encoded(body))
    asked.assert_answered()
    rejected = [reply for (kind, _), reply in asked.answers.items() if kind == "reply" and b"unauthorized-access" in reply]
    sending = {"schedule-message", "cancel-scheduled-message"}
    assert len(rejected) == (len(OPERATIONS) - len(sending) if rule == "sends" else len(sending))


def test_requests_for_tokens_are_answered(entities):
    asked = Asked(entities.peer())
    asked.attach(RECEIVER, "$cbs")
    handle = asked.attach(SENDER, "$cbs")
    audience = f"amqp://{entities.appliance.url.split('//')[1]}/plain"
    right, expired = (token(audience, entities.appliance.token, expires_in_s=each) for each in (300, -300))
    for operation in ("put-token", "unknown", None):
        for kind in ("servicebus.windows.net:sastoken", "jwt", None):
            for name in (audience, "", None):
                for body in (right, expired, "", 7, None):
                    number, delivery = next(asked.numbers), next(asked.deliveries)
                    named = {"operation": operation, "type": kind, "name": name}
                    pairs = [amqp.text(part) for pair in named.items() if pair[1] is not None for part in pair]
                    about = amqp.composite(0x73, amqp.text(f"request-{number}"), NULL, NULL, NULL, amqp.text("$cbs"))
                    properties = amqp.described(0x74, amqp.compound(b"\xd1", pairs))
                    asked.numbered[number] = delivery
                    for expected in ("reply", "settled"):
                        asked.expect(expected, delivery, (named, body))
                    payload = about + properties + amqp.described(0x77, encoded(body))
                    asked.peer.send(amqp.transfers(handle, delivery, payload))
    asked.assert_answered()


@pytest.mark.parametrize("entity", SENT_TO)
def test_messages_are_answered(entities, entity):
    asked = Asked(entities.peer())
    coordinator, transaction = asked.declare()
    handle = asked.attach(SENDER, entity)
    if ("ended", handle) in asked.answers:
        return asked.assert_answered()
    in_session = amqp.composite(0x73, *[NULL] * 10, amqp.text("s"))
    body = amqp.described(0x75, amqp.binary(b"body"))
    states = [{}, *({"state": amqp.in_transaction(each)} for each in (transaction, NEVER_A_TRANSACTION))]
    payloads = [body, in_session + body, b"", GARBAGE, body + body[:-1], b"text", bytes(TOO_LARGE)]
    for fields in states:
        for payload in payloads:
            asked.transfer(handle, payload, **fields)
            asked.transfer(handle, payload, kind=0x80013700, **fields)
    asked.discharge(coordinator, transaction)
    assert asked.assert_answered() > len(states) * len(payloads)


def test_transactions_are_answered(entities):
    asked = Asked(entities.peer())
    coordinator, transaction = asked.declare()
    declare, discharge = composite(0x31, NULL), lambda name: composite(0x32, amqp.binary(name), amqp.YES)
    for body in (declare, discharge(NEVER_A_TRANSACTION), discharge(transaction), discharge(transaction), TEXT, composite(0x33)):
        asked.transfer(coordinator, amqp.described(0x77, body))
        asked.transfer(coordinator, amqp.described(0x75, amqp.binary(body)))
    asked.assert_answered()


def test_settlements_are_answered(entities):
    accepted, released = composite(0x24), composite(0x26)
    rejected = composite(0x25, composite(0x1D, symbol("com.microsoft:dead-letter"), amqp.text("broken")))
    modified, deferred = composite(0x27, amqp.YES), composite(0x27, amqp.YES, amqp.YES)
    asked = Asked(entities.peer())
    coordinator, transaction = asked.declare()
    within = [amqp.in_transaction(each, accepted) for each in (transaction, NEVER_A_TRANSACTION)]
    states = [accepted, rejected, modified, deferred, released, *within]
    entities.appliance.manage("PUT", "/queues/settled", {"properties": {}})
    sending = asked.attach(SENDER, "settled")
    for _ in states:
        asked.transfer(sending, amqp.described(0x75, amqp.binary(b"body")))
    asked.attach(RECEIVER, "settled")
    received = lambda: [key for kind, key in asked.answers if kind == "message"]
    asked.expect("message", -1, "so many messages")
    asked.read(lambda: len(received()) == len(states))
    del asked.expected["message", -1]
    for delivery, state in zip(received(), states):
        asked.expect("outcome", delivery, state)
        asked.peer.send(amqp.settle(delivery, state))
    asked.discharge(coordinator, transaction)
    asked.assert_answered()


@pytest.mark.parametrize("rule", [RULE, "sends", "listens"])
@pytest.mark.parametrize("role", [SENDER, RECEIVER], ids=["sender", "receiver"])
def test_links_are_answered(entities, rule, role):
    entities_of_all_kinds = ["plain", "sessions", "closed", "topic", "topic/Subscriptions/all", "forwarding"]
    missing = ["missing", "topic/Subscriptions/missing", "missing/Subscriptions/all", "", "/", "a/b/c/d", "$", "$other", "x" * 5_000]
    asked = Asked(entities.peer(rule))
    for address in [*entities_of_all_kinds, *missing]:
        for below in ("", "/$DeadLetterQueue", "/$Transfer/$DeadLetterQueue", "/$management", "/$DeadLetterQueue/$management"):
            handle = asked.attach(role, address + below)
            # Where answers would come from is told by the link of the requests.
            if address in missing and (role == SENDER or "$management" not in below):
                asked.expect("ended", handle, address + below)
    asked.assert_answered()
    for (kind, handle), error in asked.answers.items():
        if kind == "ended":
            assert error, asked.expected["attach", handle]


KINDS = ["Queue", "Topic", "Subscription", "Rule"]
ENTRIES = [f"<entry><content><{kind}Description/></content></entry>".encode() for kind in KINDS]
BATCH = {"Content-Type": "application/vnd.microsoft.servicebus.json"}


@pytest.mark.parametrize("rule", [RULE, "sends", "listens", None])
def test_requests_over_http_are_answered(entities, rule):
    """One that was not answered would end in an exception. Each has a connection of its own."""
    url = entities.appliance.url
    headers = {"Authorization": token(url, entities.rights[rule], rule)} if rule else {}
    of_entities = sorted({*REST.values()})
    below = ["", *(f"{queue}{each}" for queue in ("", "/$DeadLetterQueue", "/$Transfer/$DeadLetterQueue") for each in of_entities)]
    below += [VERSION, f"/$DeadLetterQueue{VERSION}", f"/Subscriptions/new{VERSION}", f"/Subscriptions/all/Rules/new{VERSION}"]
    paths = [f"/{entity}{each}" for entity in ("plain", "topic", "topic/Subscriptions/all", "missing", "x" * 300) for each in below]
    paths += [f"{place}{VERSION}" for place in (*PLACES.values(), "/$Resources/other", "/missing/Subscriptions", "/plain/Subscriptions")]
    paths += [f"/{VERSION}", "/$other", "/%00/messages"]
    descriptions = [*ENTRIES, ENTRIES[0][:-9]]
    statuses = []
    for path in paths:
        for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"):
            # What is there is for the other tests.
            is_safe = method != "DELETE" or "messages" in path or "missing" in path or "new" in path
            has_body = method in ("PUT", "POST")
            sent = [b"", b"text", *(descriptions if VERSION in path else [])] if has_body else [b""]
            for body in sent:
                if is_safe:
                    answer = requests.request(method, url + path, data=body, headers=headers, timeout=PATIENCE_S)
                    statuses.append(answer.status_code)
                    assert answer.status_code < 500 or answer.status_code == 501, (method, path, body, answer.text)
    for path in ("/plain/messages", "/topic/messages", "/missing/messages"):
        for body in (b"", b"text", b"{}", b"[]", b'[{"Body": "a"}]', b'[{"Body": 7}]', b'[{"Body": "a"}, 7]'):
            batch = requests.post(url + path, data=body, headers={**headers, **BATCH}, timeout=PATIENCE_S)
            statuses.append(batch.status_code)
            assert batch.status_code < 500, (path, body, batch.text)
    for path in ("/plain/messages", "/topic/messages", "/missing/messages", "/plain?api-version=2021-05"):
        method = "PUT" if "?" in path else "POST"
        answer = requests.request(method, url + path, data=bytes(1_500_000), headers=headers, timeout=PATIENCE_S)
        statuses.append(answer.status_code)
        assert 400 <= answer.status_code < 500, (path, answer.text)
    assert len(statuses) > 300
