"""What people who mean harm send, and that others do not notice."""

import contextlib
import json
import os
import pty
import socket
import subprocess
import time
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter

from appliance import BINARY, Appliance, environment, eventually
from events import EVENT

BODY_BYTES = 1_048_576


class From(HTTPAdapter):
    """Connects from that address of the loopback."""

    def __init__(self, address):
        self.address = address
        super().__init__()

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, source_address=(self.address, 0), **options)


def publish_from(address, topic, events=(EVENT,)):
    with requests.Session() as session:
        session.mount("http://", From(address))
        headers = {"aeg-sas-key": topic.key1}
        return session.post(topic.endpoint, data=json.dumps(events), headers=headers, timeout=30)


def announce(topic, sent, chunked=False):
    """A connection that announces a large body, sends so many bytes of it, and no more."""
    url = urlsplit(topic.endpoint)
    connection = socket.create_connection((url.hostname, url.port))
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {BODY_BYTES}"
    head = f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\naeg-sas-key: {topic.key1}\r\n{length}\r\n\r\n"
    body = b"[" + b" " * (sent - 1)
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    connection.sendall(head.encode() + (chunk if chunked else body))
    return connection


def ask(appliance, method, path, address="127.0.0.1", headers=None, **options):
    with requests.Session() as session:
        session.mount("http://", From(address))
        options = {"timeout": 30, "allow_redirects": False, **options}
        return session.request(method, appliance.url + path, headers=headers, **options)


@pytest.fixture(scope="module")
def behind_a_proxy(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("proxied") / "data"
    with Appliance(data_dir, "--http-trusted-proxies", "127.0.0.1/32") as appliance:
        yield appliance


def test_bodies_that_stop_coming_take_nothing_from_others(appliance, fresh_name):
    hostile, honest = [appliance.create_topic(fresh_name()) for _ in range(2)]
    with contextlib.ExitStack() as connections:
        for _ in range(40):
            connection = announce(hostile, BODY_BYTES - 1)
            connections.enter_context(contextlib.closing(connection))

        # Larger than what is taken at once, so that it does not fit into what others have left of that.
        large = [{**EVENT, "data": " " * 32_768}]
        for topic in (hostile, honest):
            answer = publish_from("127.0.0.2", topic, large)
            assert answer.status_code == 200, "from another address: " + answer.text
        ready = requests.get(appliance.url + "/readyz", timeout=30)
        assert ready.status_code == 200, "others are served: " + ready.text
        same = lambda: publish_from("127.0.0.1", hostile, large).status_code == 200
        eventually(same, "they end for one that comes from the same address")


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_what_is_announced_and_not_sent_holds_nothing(appliance, fresh_name, chunked):
    topic = appliance.create_topic(fresh_name())
    with contextlib.ExitStack() as connections:
        for _ in range(100):
            connection = announce(topic, 1, chunked)
            connections.enter_context(contextlib.closing(connection))
        answer = publish_from("127.0.0.1", topic)
        assert answer.status_code == 200, "with the same key, from the same address: " + answer.text


@pytest.mark.guesses
def test_forms_that_trickle_keep_nobody_from_signing_in(appliance):
    url = urlsplit(appliance.url)
    with contextlib.ExitStack() as connections:
        for _ in range(300):
            connection = socket.create_connection((url.hostname, url.port))
            connections.enter_context(contextlib.closing(connection))
            head = f"POST /admin/login HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 16000\r\n\r\ncsrf="
            connection.sendall(head.encode())
        assert ask(appliance, "GET", "/admin/login", "127.0.0.2").status_code in (200, 403)
        answer = ask(appliance, "POST", "/admin/login", "127.0.0.2", data={"name": "ann", "password": "wrong"})
        assert answer.status_code in (401, 403), answer.text


def test_the_client_behind_a_trusted_proxy_is_told_from_others(behind_a_proxy):
    rules = {"publicNetworkAccess": "Enabled", "inboundIpRules": [{"ipMask": "192.0.2.0/24", "action": "Allow"}]}
    topic = behind_a_proxy.create_topic("fenced", **rules)
    path = f"/topics/{topic.name}/api/events"
    for address, headers, expected in [
        ("127.0.0.1", {}, 403),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7"}, 200),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7, 198.51.100.1"}, 403),
        ("127.0.0.1", {"Forwarded": 'for="192.0.2.7:4711";proto=https'}, 200),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=198.51.100.1"}, 400),
        ("127.0.0.2", {"X-Forwarded-For": "192.0.2.7"}, 403),
    ]:
        key = {"aeg-sas-key": topic.key1, **headers}
        answer = ask(behind_a_proxy, "POST", path, address, key, json=[EVENT])
        assert answer.status_code == expected, f"{headers} from {address}: {answer.text}"
    told = {"Authorization": f"Bearer {behind_a_proxy.token}", "X-Forwarded-For": "2001:db8::1"}
    assert ask(behind_a_proxy, "POST", "/topics/fenced/listKeys", headers=told).status_code == 200
    [newest] = behind_a_proxy.manage("GET", "/everpost/audit?limit=1")["value"]
    assert newest["address"] == "2001:db8::1"


@pytest.mark.guesses
def test_bearer_tokens_are_guessed_slowly_and_right_ones_pass(appliance):
    right = {"Authorization": f"Bearer {appliance.token}"}
    asked = lambda headers, address: ask(appliance, "GET", "/topics", address, headers)
    assert asked(right, "127.0.0.9").status_code == 200
    guess = lambda number: asked({"Authorization": f"Bearer guess-{number}"}, "127.0.0.9")
    assert [guess(number).status_code for number in range(10)] == [401] * 10
    # A slow machine is allowed one more guess every now and then.
    rejected = [answer for answer in map(guess, range(10, 110)) if answer.status_code == 429]
    assert len(rejected) >= 10
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in rejected)
    assert asked(right, "127.0.0.9").status_code == 200, "it was right from there before"
    assert asked(right, "127.0.0.10").status_code == 200


def test_the_set_up_link_goes_when_an_account_is_made_by_the_api(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        file = appliance.data_dir / "setup-url"
        assert file.exists()
        admin = {"name": "root", "role": "admin", "password": "correct horse battery"}
        appliance.manage("POST", "/everpost/users", admin)
        eventually(lambda: not file.exists(), "the file is removed")


def wait_for_events(appliance, namespace, key, address):
    """A receiver that waits two minutes at a queue of that namespace."""
    url = urlsplit(appliance.url)
    connection = socket.create_connection((url.hostname, url.port), source_address=(address, 0))
    path = f"/namespaces/{namespace}/topics/orders/eventSubscriptions/queue:receive?maxWaitTime=120"
    head = f"POST {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: SharedAccessKey {key}\r\n"
    connection.sendall((head + "Content-Length: 0\r\n\r\n").encode())
    connection.setblocking(False)
    return connection


def status_of(connection):
    try:
        return int(connection.recv(64).split()[1])
    except BlockingIOError:
        return None


def test_many_receivers_of_one_key_leave_a_place_to_others(appliance, fresh_name):
    keys = {}
    hostile, honest = fresh_name(), fresh_name()
    for name in (hostile, honest):
        appliance.manage("PUT", f"/namespaces/{name}", {"location": "local"})
        appliance.manage("PUT", f"/namespaces/{name}/topics/orders", {})
        path = f"/namespaces/{name}/topics/orders/eventSubscriptions/queue"
        appliance.manage("PUT", path, {"properties": {"deliveryConfiguration": {"deliveryMode": "Queue"}}})
        keys[name] = appliance.manage("POST", f"/namespaces/{name}/listKeys")["key1"]
    with contextlib.ExitStack() as connections:
        def wait(name, address):
            connection = wait_for_events(appliance, name, keys[name], address)
            return connections.enter_context(contextlib.closing(connection))

        waiting = [wait(hostile, "127.0.0.3") for _ in range(700)]
        last = wait(honest, "127.0.0.4")
        time.sleep(1)
        assert [status_of(each) for each in [*waiting, last]] == [None] * 701, "they wait"


def test_json_on_a_terminal_steers_nothing(appliance, fresh_name):
    topic = appliance.create_topic(fresh_name())
    subject = "a\u202egpj\u009b31m"
    answer = requests.post(
        topic.endpoint, json=[{**EVENT, "subject": subject}], headers={"aeg-sas-key": topic.key1}, timeout=30
    )
    assert answer.status_code == 200, answer.text
    command = [BINARY, "events", "list", "--topic", topic.name, "--json", "--url", appliance.url]
    told = {**environment(), "EVERPOST_MANAGEMENT_TOKEN": appliance.token}
    piped = subprocess.run(command, env=told, capture_output=True, text=True, check=True).stdout
    assert subject in piped, "programs get it as it is"
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=told, stdout=theirs):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):
            while more := os.read(ours, 65_536):
                shown += more
    os.close(ours)
    shown = shown.decode()
    assert "\u202e" not in shown and "\u009b" not in shown
    assert json.loads(shown)["value"] == json.loads(piped)["value"]
