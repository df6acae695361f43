"""Every spelling of an address that must not be called, at every place that takes a URL, against the running binary.

EVERPOST_ABUSE_TIMES=2 tries every spelling at every place; without it, every spelling once, at places in turn.
"""

import ipaddress
import itertools
import os
import socket
import threading

import pytest
import requests

from appliance import Appliance, eventually
from events import EVENT

LONG = int(os.environ.get("EVERPOST_ABUSE_TIMES", "1")) > 1

IPV4 = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
    "100.100.100.200", "169.254.169.254", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255",
]
IPV6 = [
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "ff02::1", "100::1", "2001:db8::1",
    "3fff::1", "5f00::1", "2001:10::1", "2001:20::1", "2001:2::1", "4000::1", "64:ff9b:1::1",
]
# Names that lead to this machine by the rules of names alone.
NAMES = ["localhost", "LOCALHOST", "localhost.", "a.localhost", "ⓛocalhost"]

FULL_WIDTH = str.maketrans("0123456789.", "０１２３４５６７８９．")
CIRCLED = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")


def of_ipv4(text):
    """The ways to write an IPv4 address that browsers and libraries understand."""
    number, parts = int(ipaddress.IPv4Address(text)), [int(part) for part in text.split(".")]
    first, second = parts[0], parts[1]
    yield from [text, text + ".", str(number), hex(number), f"0{number:o}"]
    yield f"{first}.{number & 0xFFFFFF}"
    yield f"{first}.{second}.{number & 0xFFFF}"
    yield ".".join(hex(part) for part in parts)
    yield ".".join(f"0{part:o}" for part in parts)
    yield ".".join(f"0x{part:08x}" for part in parts)
    yield f"{hex(first)}.{number & 0xFFFFFF}"
    yield f"0{first:o}.{second}.{number & 0xFFFF}"
    yield text.translate(FULL_WIDTH)
    yield text.translate(CIRCLED)
    yield text.replace(".", "。")
    yield "".join(f"%{ord(c):02x}" for c in text)
    # The same address within IPv6: mapped, compatible, translated, tunnelled.
    high, low = number >> 16, number & 0xFFFF
    yield from (f"[::ffff:{text}]", f"[::ffff:{high:x}:{low:x}]", f"[0:0:0:0:0:FFFF:{text}]", f"[::{text}]")
    yield from (f"[::ffff:0:{text}]", f"[64:ff9b::{text}]", f"[64:ff9b::{high:x}:{low:x}]")
    yield f"[2002:{high:x}:{low:x}::1]"
    yield f"[2001:0:4136:e378:8000:63bf:{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}]"
    yield f"[2606:4700::5efe:{text}]"


def of_ipv6(text):
    address = ipaddress.IPv6Address(text)
    yield from (f"[{text}]", f"[{address.exploded}]", f"[{text.upper()}]")


HOSTS = [*NAMES, *itertools.chain.from_iterable(map(of_ipv4, IPV4)), *itertools.chain.from_iterable(map(of_ipv6, IPV6))]

WRAPPINGS = ["http://{}:{}/", "HTTP:\\\\{}:{}\\", "http:/{}:{}/x?y=z"]


@pytest.fixture(scope="module")
def shut(tmp_path_factory):
    """An appliance that may call public addresses alone."""
    with Appliance(tmp_path_factory.mktemp("shut") / "data", egress=()) as appliance:
        topic = appliance.create_topic("orders")
        appliance.manage("PUT", "/namespaces/shop", {"location": "local"})
        appliance.manage("PUT", "/namespaces/shop/topics/orders", {})
        appliance.manage("PUT", "/everpost/inspectors/bin", {"answers": "400"})
        appliance.subscribe(topic, "rejects", "https://inspector.everpost.internal/bin")
        sent = requests.post(topic.endpoint, json=[EVENT], headers={"aeg-sas-key": topic.key1})
        assert sent.status_code == 200, sent.text
        eventually(lambda: appliance.dead_letters(topic), "a dead letter")
        yield appliance


@pytest.fixture(scope="module")
def door():
    """A port on every address of this machine that nobody must knock at."""
    knocks = []
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        def listen():
            while True:
                try:
                    connection, peer = listener.accept()
                except OSError:
                    return
                knocks.append(peer)
                connection.close()

        threading.Thread(target=listen, daemon=True).start()
        yield listener.getsockname()[1], knocks


def webhook(url, **more):
    return {"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": url, **more}}}


def as_endpoint(appliance, url):
    path = "/topics/orders/eventSubscriptions/probe"
    made = appliance.request("PUT", path, {"properties": webhook(url)})
    if made.ok:
        state = appliance.manage("GET", path)["properties"]
        # A name that cannot be looked up is tried again.
        assert state["provisioningState"] in ("Failed", "Creating"), f"{url}: {state}"
    return made


def as_pushed_endpoint(appliance, url):
    path = "/namespaces/shop/topics/orders/eventSubscriptions/probe"
    mode = {"deliveryMode": "Push", "push": webhook(url)}
    made = appliance.request("PUT", path, {"properties": {"deliveryConfiguration": mode}})
    assert made.status_code == 400, f"{url}: {made.text}"
    return made


def as_target_of_a_resubmission(appliance, url):
    [dead] = appliance.manage("GET", "/everpost/deadLetters?topic=orders")["value"]
    target = {"target": {"kind": "Url", "url": url}}
    sent = appliance.request("POST", f"/everpost/deadLetters/{dead['deliveryId']}/resubmit", target)
    assert not sent.ok, f"{url}: {sent.text}"
    return sent


def as_token_url(appliance, url):
    """Kept until an event is published to all of them."""
    number = next(NUMBERS)
    topic = f"tokens-{number // 400}"
    if number % 400 == 0:
        appliance.create_topic(topic)
    credentials = {"type": "ClientCredentials", "tokenUrl": url, "clientId": "c", "clientSecret": "s"}
    properties = webhook("https://203.0.113.1/", authentication=credentials, skipValidation=True)
    path = f"/topics/{topic}/eventSubscriptions/probe-{number}"
    return appliance.request("PUT", path, {"properties": properties})


NUMBERS = itertools.count()
PLACES = [as_endpoint, as_pushed_endpoint, as_target_of_a_resubmission, as_token_url]


def tries():
    for number, host in enumerate(HOSTS):
        for place in PLACES if LONG else [PLACES[number % len(PLACES)]]:
            for wrapping in WRAPPINGS if LONG else [WRAPPINGS[number % len(WRAPPINGS)]]:
                yield host, place, wrapping


def test_no_spelling_of_a_closed_address_is_called(shut, door):
    port, knocks = door
    count = 0
    for host, place, wrapping in tries():
        url = wrapping.format(host, port)
        answer = place(shut, url)
        assert answer.status_code < 500 or answer.status_code == 502, f"{url}: {answer.status_code} {answer.text}"
        assert not knocks, f"{url} was called as {place.__name__}"
        count += 1
    topics = [each["name"] for each in shut.manage("GET", "/topics")["value"] if each["name"].startswith("tokens-")]
    for topic in topics:
        key = shut.manage("POST", f"/topics/{topic}/listKeys")["key1"]
        sent = requests.post(f"{shut.url}/topics/{topic}/api/events", json=[EVENT], headers={"aeg-sas-key": key})
        assert sent.status_code == 200, sent.text
        eventually(lambda: all_are_denied(shut, topic), f"every token of {topic} is asked for")
    assert not knocks, "a token was asked for"
    print(f"{count} tries of {len(HOSTS)} spellings")


def all_are_denied(appliance, topic):
    [event] = appliance.manage("GET", f"/everpost/events?topic={topic}&limit=1")["value"]
    deliveries = appliance.manage("GET", f"/everpost/events/{event['key']}")["deliveries"]
    attempts = [each["deliveryAttempts"] for each in deliveries]
    outcomes = {attempt[0]["outcome"] for attempt in attempts if attempt}
    assert outcomes <= {"TokenError", "Aborted"}, outcomes
    return all(attempts)
