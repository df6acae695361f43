"""HTTP/2 of people who mean harm: whatever they send, others are served, and neither memory nor the log fills.

EVERPOST_ABUSE_TIMES=50 sends that many times as much.
"""

import contextlib
import json
import os
import re
import time

import pytest
import requests
from hyperframe.frame import GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame

import http2
from appliance import Appliance, eventually
from events import EVENT
from test_hostile import publish_from

TIMES = int(os.environ.get("EVERPOST_ABUSE_TIMES", "1"))

# Whoever is honest is answered within this, whatever goes on beside it (with a debug build, on a busy machine).
PATIENCE_S = 30

# What the allocator keeps of pages that were drawn at the same time.
KEPT_BYTES_MAX = 32 * 1024 * 1024

# A connection whose client takes no answers holds this at most: a page for each of its streams.
STARVED_BYTES_MAX = 4 * 1024 * 1024

# Frames that bring nothing: far more than what ends a connection, and what the system keeps of what was sent.
FRAMES_BYTES = 64 * 1024 * 1024

# What one kind of abuse may cost: far less than it sends or asks for.
MEMORY_BYTES_MAX = 64 * 1024 * 1024 + 10 * TIMES * STARVED_BYTES_MAX


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("attacked") / "data") as appliance:
        yield appliance


@pytest.fixture
def unharmed(attacked):
    """Checks afterwards that an honest publisher is served, and what it has cost."""
    topic = attacked.create_topic(f"honest-{time.monotonic_ns()}")
    before = memory(attacked)
    yield lambda: serves(attacked, topic)
    serves(attacked, topic)
    grown = memory(attacked) - before
    assert grown < MEMORY_BYTES_MAX, f"{grown} bytes"
    chatter = [line for line in attacked.printed if re.search("h2|hyper|connection", line)]
    assert len(chatter) <= 2 + attacked_minutes(attacked), "".join(chatter)


def memory(appliance):
    status = open(f"/proc/{appliance.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def attacked_minutes(appliance):
    created = os.stat(appliance.data_dir).st_ctime
    return (time.time() - created) // 60 + 1


def serves(appliance, topic):
    started_at = time.monotonic()
    assert publish_from("127.0.0.2", topic).status_code == 200
    assert requests.get(appliance.url + "/healthz", timeout=30).status_code == 200
    took = time.monotonic() - started_at
    assert took < PATIENCE_S, f"{took} s"


def goes_away(connection):
    """How the appliance ends a connection, if it says so."""
    frames = connection.received(patience_s=10)
    return [frame.error_code for frame in frames if isinstance(frame, GoAwayFrame)]


def test_requests_that_are_reset_at_once_end_the_connection(attacked, unharmed):
    for _ in range(TIMES):
        with http2.Connection(attacked.url) as connection:
            sent = 0
            while sent < 20_000:
                heads = [connection.head(path="/readyz") for _ in range(100)]
                frames = [each for head in heads for each in (head, http2.reset(head.stream_id))]
                if not connection.send(*frames):
                    break
                sent += len(heads)
            assert sent < 20_000 or goes_away(connection), "it took 20,000 of them"
        unharmed()


def test_a_head_that_never_ends_ends_the_connection(attacked, unharmed):
    for _ in range(TIMES):
        with http2.Connection(attacked.url) as connection:
            head = connection.head(ends=False)
            head.flags.discard("END_HEADERS")
            connection.send(head)
            line = connection.encoder.encode([("x-more", "x" * 1_000)], huffman=False)
            for sent in range(10_000):
                if not connection.send(http2.continuation(head.stream_id, line)):
                    break
            assert sent < 9_999 or goes_away(connection), "it took 10 MB of a head"
        unharmed()


def test_a_small_head_that_unpacks_to_a_large_one_is_rejected(attacked, unharmed):
    for _ in range(TIMES):
        with http2.Connection(attacked.url) as connection:
            head = connection.head(headers=[("x-large", "x" * 3_900)] * 4_000)
            assert len(head.data) < 16_384, "one byte for each"
            connection.send(head)
            ends = (HeadersFrame, RstStreamFrame, GoAwayFrame)
            answer = next((each for each in connection.received(10) if isinstance(each, ends)), None)
            assert answer, "no answer"
        unharmed()


@pytest.mark.parametrize("window", [0, 1])
def test_answers_that_nobody_takes_are_few(attacked, unharmed, window):
    before = memory(attacked)
    with contextlib.ExitStack() as connections:
        starved = []
        for _ in range(10 * TIMES):
            settings = {SettingsFrame.INITIAL_WINDOW_SIZE: window}
            connection = http2.Connection(attacked.url, settings)
            connections.enter_context(connection)
            connection.send(*[connection.head(path="/admin/login") for _ in range(100)])
            starved.append(connection)
        unharmed()
        grown = memory(attacked) - before
        print(f"{grown // 1024} KiB for {len(starved)} connections")
        assert grown < KEPT_BYTES_MAX + len(starved) * STARVED_BYTES_MAX, f"{grown} bytes for {len(starved)} connections"


@pytest.mark.parametrize("frame", [http2.stray_ping_answer, http2.settings], ids=["ping", "settings"])
def test_frames_without_end_cost_nobody_else(attacked, unharmed, frame):
    for _ in range(TIMES):
        with http2.Connection(attacked.url) as connection:
            many = frame().serialize() * 1_000
            sent = 0
            while sent < FRAMES_BYTES and connection.send_bytes(many):
                sent += len(many)
                connection.take()
            unharmed()
            assert sent < FRAMES_BYTES, "it took all of them"


def test_more_streams_than_there_may_be_are_rejected(attacked, unharmed):
    with http2.Connection(attacked.url) as connection:
        # Bodies that never come keep their requests open.
        for _ in range(300):
            connection.send(connection.head("POST", "/admin/login", ends=False))
        rejected = (frame for frame in connection.received(10) if isinstance(frame, (RstStreamFrame, GoAwayFrame)))
        assert next(rejected, None), "all 300 were taken"


def test_bodies_that_trickle_take_no_more_than_a_share(attacked, unharmed):
    hostile = attacked.create_topic(f"hostile-{time.monotonic_ns()}")
    path = f"/topics/{hostile.name}/api/events"
    with contextlib.ExitStack() as connections:
        for _ in range(2 * TIMES):
            connection = http2.Connection(attacked.url)
            connections.enter_context(connection)
            for _ in range(90):
                head = connection.head("POST", path, [("aeg-sas-key", hostile.key1)], ends=False)
                connection.send(head, http2.data(head.stream_id, b"["))
        unharmed()
        answer = publish_from("127.0.0.2", hostile)
        assert answer.status_code == 200, "what is announced and not sent holds nothing: " + answer.text


def test_a_body_that_stops_is_ended_with_its_request(attacked, unharmed):
    with http2.Connection(attacked.url) as connection:
        head = connection.head("POST", "/admin/login", ends=False)
        connection.send(head, http2.data(head.stream_id, json.dumps([EVENT]).encode()))
        answers = (frame for frame in connection.received() if frame.stream_id == head.stream_id)
        assert next(answers, None), "no answer within a minute"
