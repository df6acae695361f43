"""Connections that begin something and do not end it: they hold little, keep nobody waiting, and are ended in time.

EVERPOST_UNFINISHED=10000 opens so many, and waits until the appliance has ended them all.
"""

import contextlib
import os
import socket
import time
from urllib.parse import urlsplit

import pytest
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

import amqp
import http2
from appliance import Appliance, eventually
from events import EVENT
from queues import RULE
from test_hostile import publish_from
from test_http2 import memory

COUNT = int(os.environ.get("EVERPOST_UNFINISHED", "240"))
IS_LONG = COUNT > 1_000

# What all of them together may add to a process that has served a first request.
GROWN_BYTES_MAX = 128 * 1024 * 1024

# Publish requests that are measured while they are held.
MEASURED = 1_000 if IS_LONG else 50

# Asserted of the long form alone, which has the machine for itself.
HONEST_P99_S = 1

# The longest deadline of anything unfinished, and as much again for a busy machine.
ENDED_WITHIN_S = 120

# Whoever is not read from for so long sends no more.
SENDING_S = 0.3

# Connections of one address, which is below what it may have.
PER_ADDRESS = 500

# Connections that send megabytes: without bounds, any fifty of them fill the room for all.
HEAVY_COUNT = max(COUNT // 20, 80)

# Connections of HTTP/2 with 100 requests each, and their addresses: far more than there is room for.
STARVED_COUNT = 240
STARVED_ADDRESSES = 8

NAME = b"n" * 60_000


class Target:
    """What the connections speak to."""

    def __init__(self, appliance, secure):
        self.topic = appliance.create_topic("unfinished")
        appliance.manage("PUT", "/queues/begun", {"properties": {}}, status=201)
        self.plain = urlsplit(appliance.url)
        self.secure = urlsplit(secure.url)
        self.key = appliance.token

    def head(self, path, *lines):
        host = f"Host: {self.plain.netloc}"
        return "\r\n".join([path, host, *lines]).encode()


def silent(target):
    return [b""]


def half_a_head(target):
    return [target.head("GET /healthz HTTP/1.1", "X-Half: ")]


def a_large_head_without_end(target):
    return [target.head("GET /healthz HTTP/1.1", "X-Large: " + "x" * 15_000)]


def slow_body(target):
    path = urlsplit(target.topic.endpoint).path
    key = f"aeg-sas-key: {target.topic.key1}"
    return [target.head(f"POST {path} HTTP/1.1", key, "Content-Length: 500000", "", "[" + " " * 10_000)]


def half_an_upgrade(target):
    return [target.head("GET /$servicebus/websocket HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")]


def silent_websocket(target):
    upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol: AMQPWSB10",
    ]
    return [target.head("GET /$servicebus/websocket HTTP/1.1", *upgrade, "", "")]


def header_only(target):
    return [amqp.HEADER]


def half_a_key(target):
    return [amqp.plain(RULE, target.key)[:-10]]


def open_without_begin(target):
    return [amqp.opened()]


def begun_and_silent(target):
    return [amqp.begun()]


def half_a_hello(target):
    """To the port with TLS: a record that announces more than comes."""
    return [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100]


LIGHT = [
    silent,
    half_a_head,
    a_large_head_without_end,
    slow_body,
    half_an_upgrade,
    silent_websocket,
    header_only,
    half_a_key,
    open_without_begin,
    begun_and_silent,
    half_a_hello,
]


def attaches_for_tokens(target):
    """More links than anybody needs, from where no token was shown."""
    links = [amqp.attach(handle, amqp.RECEIVER, "$cbs") for handle in range(1_000)]
    return [amqp.begun(), *links]


def attaches_with_long_names(target):
    links = [amqp.attach(handle, amqp.RECEIVER, "$cbs", NAME.decode()) for handle in range(200)]
    return [amqp.begun(), *links]


def replies_without_credit(target):
    """Requests whose answers repeat what came with them, and which nobody takes."""
    links = amqp.attach(0, amqp.RECEIVER, "$cbs") + amqp.attach(1, amqp.SENDER, "$cbs")
    request = amqp.message(NAME.decode(), {"operation": "put-token", "type": "jwt", "name": "x"}, "token")
    requests = [amqp.transfer(1, number, request) for number in range(100)]
    return [amqp.begun() + links, None, *requests]


def transfers_without_end(target):
    """The beginnings of large messages to a queue, by somebody who may send."""
    links = [amqp.attach(handle, amqp.SENDER, "begun") for handle in range(20)]
    parts = [amqp.transfer(handle, handle, NAME, more=True) for _ in range(3) for handle in range(20)]
    return [amqp.plain(RULE, target.key) + amqp.begun(), *links, None, *parts]


HEAVY = [attaches_for_tokens, attaches_with_long_names, replies_without_credit, transfers_without_end]


def opened(kind, target, number):
    """A connection that has sent what the appliance would take of it; `None` among its parts waits for credit."""
    place = target.secure if kind is half_a_hello else target.plain
    source = f"127.0.{1 + number // PER_ADDRESS}.1"
    connection = socket.create_connection((place.hostname, place.port), source_address=(source, 0))
    connection.settimeout(SENDING_S)
    with contextlib.suppress(OSError):  # it may be ended, or not be read from, at any part
        for part in kind(target):
            if part is None:
                wait_for_credit(connection)
            else:
                connection.sendall(part)
    return connection


def wait_for_credit(connection):
    came = b""
    connection.settimeout(10)
    while amqp.FLOW not in came and (more := connection.recv(65_536)):
        came += more
    connection.settimeout(SENDING_S)


def is_ended(connection):
    """Takes what has come, and tells whether that was the end."""
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unfinished")
    with (
        Appliance(folder / "plain", "--http-connections-max", "20000") as appliance,
        Appliance(folder / "secure", "--tls-dev", "--http-connections-max", "20000") as secure,
    ):
        target = Target(appliance, secure)
        target.appliances = [appliance, secure]
        yield target


def starved(target, number):
    """A connection of HTTP/2 that asks for as much as it may, and takes no answer."""
    source = f"127.0.{1 + number % STARVED_ADDRESSES}.2"
    url = target.appliances[0].url
    connection = http2.Connection(url, {SettingsFrame.INITIAL_WINDOW_SIZE: 0}, source)
    connection.send(*[connection.head() for _ in range(100)])
    return connection


def published(target):
    """How long an honest publisher waits, longest last."""
    times = []
    for _ in range(MEASURED):
        started_at = time.monotonic()
        assert publish_from("127.0.0.2", target.topic, [EVENT]).status_code == 200
        times.append(time.monotonic() - started_at)
    return sorted(times)


def told(times):
    return ", ".join(f"p{share} {times[len(times) * share // 100] * 1000:.0f} ms" for share in (50, 99))


@pytest.mark.parametrize("kinds", [pytest.param(LIGHT, id="light"), pytest.param(HEAVY, id="heavy")])
def test_what_is_not_ended_holds_little_and_keeps_nobody_waiting(target, kinds):
    print(f"before: {told(published(target))}")
    before = [memory(appliance) for appliance in target.appliances]
    count = COUNT if kinds is LIGHT else HEAVY_COUNT
    with contextlib.ExitStack() as stack:
        held = [opened(kinds[number % len(kinds)], target, number) for number in range(count)]
        for connection in held:
            stack.enter_context(connection)
        times = published(target)
        after = [memory(appliance) for appliance in target.appliances]
        grown = [more - less for more, less in zip(after, before)]
        print(f"{count} connections: {told(times)}; memory {[each // 1024 for each in grown]} KiB more")
        assert max(grown) < GROWN_BYTES_MAX
        if IS_LONG:
            assert times[len(times) * 99 // 100] < HONEST_P99_S
            open_ones = list(held)

            def all_ended():
                open_ones[:] = [each for each in open_ones if not is_ended(each)]
                return not open_ones

            eventually(all_ended, "all of them are ended", ENDED_WITHIN_S)
    published(target)


def test_answers_that_nobody_takes_have_no_more_than_there_is_for_all(target):
    published(target)
    appliance = target.appliances[0]
    before = memory(appliance)
    connections, answers = [], {}
    with contextlib.ExitStack() as stack:
        for number in range(STARVED_COUNT):
            # There may be no room for another connection.
            with contextlib.suppress(OSError):
                connections.append(stack.enter_context(starved(target, number)))
        published(target)
        grown = memory(appliance) - before
        for connection in connections:
            heads, ended = {}, set()
            for frame in connection.received(patience_s=SENDING_S):
                if isinstance(frame, HeadersFrame):
                    heads[frame.stream_id] = connection.decoder.decode(frame.data)
                if isinstance(frame, (HeadersFrame, DataFrame)) and "END_STREAM" in frame.flags:
                    ended.add(frame.stream_id)
            for stream, head in heads.items():
                kind = dict(head)[":status"], stream in ended
                answers[kind] = answers.get(kind, 0) + 1
    print(f"{len(connections)} connections: {answers}; memory {grown // 1024} KiB more")
    assert grown < GROWN_BYTES_MAX, f"{grown} bytes"
    assert answers["200", False] > 0 and ("200", True) not in answers, answers
    assert ("503", False) not in answers, "whom there is no memory for is told without a window"
