"""What people who mean harm send, and that others do not notice."""

import contextlib
import json
import socket
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from appliance import eventually
from events import EVENT

BODY_BYTES = 1_048_576


class From(HTTPAdapter):
    """Connects from that address of the loopback."""

    def __init__(self, address):
        self.address = address
        super().__init__()

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, source_address=(self.address, 0), **options)


def publish_from(address, topic):
    with requests.Session() as session:
        session.mount("http://", From(address))
        headers = {"aeg-sas-key": topic.key1}
        return session.post(topic.endpoint, data=json.dumps([EVENT]), headers=headers, timeout=30)


def trickle(topic):
    """A connection that announces a large body and sends a byte of it."""
    url = urlsplit(topic.endpoint)
    connection = socket.create_connection((url.hostname, url.port))
    head = (
        f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\naeg-sas-key: {topic.key1}\r\n"
        f"Content-Length: {BODY_BYTES}\r\n\r\n["
    )
    connection.sendall(head.encode())
    return connection


def test_bodies_that_trickle_take_no_more_than_a_share(appliance, fresh_name):
    hostile, honest = [appliance.create_topic(fresh_name()) for _ in range(2)]
    with contextlib.ExitStack() as connections:
        for _ in range(40):
            connections.enter_context(contextlib.closing(trickle(hostile)))

        def refused():
            answer = publish_from("127.0.0.2", hostile)
            return [answer] if answer.status_code != 200 else None  # a refusal itself is false

        [answer] = eventually(refused, "the topic has no more room")
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["Retry-After"]) >= 1
        assert publish_from("127.0.0.2", honest).status_code == 200
        ready = requests.get(appliance.url + "/readyz", timeout=30)
        assert ready.status_code == 200, "others are served: " + ready.text
    eventually(lambda: publish_from("127.0.0.2", hostile).status_code == 200, "there is room again")
