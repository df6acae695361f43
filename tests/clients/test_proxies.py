"""The examples for Caddy and nginx in front of an appliance, by HTTP/1.1 and HTTP/2."""

import json
import re
import subprocess
import threading
import time

import pytest
import requests

from appliance import PATIENCE_S, REPOSITORY, Appliance, eventually
from debian import program
from events import EVENT
from test_documents import free_port
from test_manage import Arm
from test_namespaces import Shop
from test_snippets import NAME, PASSWORD, Administrator

EXAMPLES = REPOSITORY / "packaging/proxy"
HOST = "everpost.example.com"

# Whoever asks from 127.0.0.1 cannot be told from the proxy.
CLIENT, STRANGER = "127.0.0.2", "127.0.0.3"


def caddy(folder, port, upstream):
    site = (EXAMPLES / "Caddyfile").read_text().replace(HOST, f"localhost:{port}").replace("127.0.0.1:8080", upstream)
    here = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
    (folder / "Caddyfile").write_text(here + site)
    command = [program("caddy", "caddy"), "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"]
    return command, folder / "caddy/pki/authorities/local/root.crt"


def nginx(folder, port, upstream):
    certificate, key = folder / "everpost.pem", folder / "everpost.key"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key]
    subprocess.run(made, check=True, capture_output=True)
    site = (EXAMPLES / "nginx.conf").read_text().replace(HOST, "localhost").replace("127.0.0.1:8080", upstream)
    site = site.replace("listen 443", f"listen 127.0.0.1:{port}").replace("/etc/ssl/everpost.pem", str(certificate))
    site = site.replace("/etc/ssl/private/everpost.key", str(key))
    temporary = [f"{name}_temp_path {folder / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    (folder / "nginx.conf").write_text(
        "daemon off;\nuser root;\nevents {}\nhttp {\naccess_log off;\n" + "\n".join([*temporary, site]) + "}\n"
    )
    command = [program("nginx", "nginx"), "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]
    return [*command, "-g", f"pid {folder / 'nginx.pid'};"], certificate


class Proxied:
    """An appliance behind a proxy."""

    def __init__(self, appliance, url, authority):
        self.appliance, self.url, self.authority = appliance, url, authority

    def curl(self, version, path, *options, client=CLIENT, body=None):
        """The status and the text of an answer."""
        command = ["curl", "--silent", "--show-error", "--cacert", self.authority, f"--http{version}"]
        command += ["--interface", client, "--write-out", "\n%{http_version} %{http_code}", *options]
        command += [] if body is None else ["--data-binary", "@-", "--header", "Content-Type: application/json"]
        ran = subprocess.run(
            [*command, self.url + path], input=body, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        text, _, told = ran.stdout.rpartition("\n")
        spoken, status = told.split()
        assert spoken == version
        return int(status), text

    def publish(self, version, topic, *options, **how):
        key = ["--header", f"aeg-sas-key: {topic.key1}"]
        path = topic.endpoint.removeprefix(self.url)
        return self.curl(version, path, *key, *options, **{"body": json.dumps([EVENT]), **how})


@pytest.fixture(scope="module", params=[caddy, nginx], ids=lambda proxy: proxy.__name__)
def proxied(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.__name__)
    port = free_port()
    url = f"https://localhost:{port}"
    (folder / "password").write_text(PASSWORD)
    settings = ["--public-url", url, "--http-trusted-proxies", "127.0.0.1/32"]
    settings += ["--admin-user", NAME, "--admin-password-file", folder / "password"]
    with Appliance(folder / "data", *settings) as appliance:
        command, authority = request.param(folder, port, appliance.url.removeprefix("http://"))
        log = open(folder / "log", "w")
        places = {"XDG_DATA_HOME": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen([str(word) for word in command], env=places, stdout=log, stderr=log)
        proxied = Proxied(appliance, url, authority)

        def answers():
            assert process.poll() is None, (folder / "log").read_text()
            try:
                return authority.exists() and requests.get(f"{url}/healthz", verify=str(authority), timeout=5).ok
            except requests.ConnectionError:
                return False

        try:
            eventually(answers, "the proxy answers")
            yield proxied
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture(params=["1.1", "2"])
def version(request):
    return request.param


def test_events_are_published_by_the_public_url(proxied, version, fresh_name):
    topic = proxied.appliance.create_topic(fresh_name())
    assert topic.endpoint.startswith(f"{proxied.url}/topics/")
    assert proxied.publish(version, topic) == (200, "")
    assert len(proxied.appliance.events(topic)) == 1


def test_what_is_too_large_is_told_by_the_appliance(proxied, version, fresh_name):
    topic = proxied.appliance.create_topic(fresh_name())
    status, text = proxied.publish(version, topic, body=json.dumps([EVENT | {"data": "x" * 2**21}]))
    assert status == 413 and json.loads(text)["error"]["code"]


def test_clients_are_told_apart_and_cannot_pretend(proxied, version, fresh_name):
    rules = [{"ipMask": f"{CLIENT}/32", "action": "Allow"}]
    topic = proxied.appliance.create_topic(fresh_name(), publicNetworkAccess="Enabled", inboundIpRules=rules)
    claims = [["X-Forwarded-For: %s"], ["Forwarded: for=%s"], ["X-Forwarded-For: %s", "Forwarded: for=%s"]]
    for claim in [[], *claims]:
        for client, expected in ((CLIENT, 200), (STRANGER, 403)):
            other = {CLIENT: STRANGER, STRANGER: CLIENT}[client]
            headers = [word for header in claim for word in ("--header", header % other)]
            status, text = proxied.publish(version, topic, *headers, client=client)
            assert status == expected, f"{claim} from {client}: {status} {text}"


def test_receivers_that_wait_get_an_event_when_it_comes(proxied, version):
    shop = Shop(Arm(proxied.appliance), proxied.appliance.url)
    place = f"/namespaces/{shop.name}/topics/orders"
    queue = {"deliveryConfiguration": {"deliveryMode": "Queue"}}
    proxied.appliance.manage("PUT", f"{place}/eventSubscriptions/audit", {"properties": queue})
    key = ["--header", f"Authorization: SharedAccessKey {shop.keys().key1}"]
    event = {"specversion": "1.0", "id": "one", "source": "/shop", "type": "Order.Paid"}
    path = f"{place}/eventsubscriptions/audit:receive?api-version=2024-06-01&maxWaitTime=60"
    began = time.monotonic()
    publisher = threading.Timer(
        0.5, lambda: proxied.curl(version, f"{place}:publish?api-version=2024-06-01", *key, body=json.dumps(event))
    )
    publisher.start()
    status, text = proxied.curl(version, path, *key, "--request", "POST")
    assert status == 200 and json.loads(text)["value"][0]["event"]["id"] == "one"
    assert 0.4 < time.monotonic() - began < 30
    publisher.join()


@pytest.fixture
def administrator(proxied):
    return Administrator(proxied.url, proxied.authority)


def test_pages_are_told_of_changes_at_once(proxied, administrator, version, fresh_name):
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in administrator.session.cookies)
    command = ["curl", "--silent", "--no-buffer", "--max-time", "20", "--cacert", proxied.authority, "--include"]
    command += [f"--http{version}", "--header", f"Cookie: {cookies}", f"{proxied.url}/admin/live"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stream:
        assert f"HTTP/{version} 200" in stream.stdout.readline()
        proxied.appliance.create_topic(fresh_name())
        # Long before the first of the lines that keep the connection open.
        began = time.monotonic()
        assert "event: changed\n" in iter(stream.stdout.readline, "")
        assert time.monotonic() - began < 10
        stream.kill()


def test_encoded_slashes_arrive_as_they_were_sent(proxied, administrator):
    shop = Shop(Arm(proxied.appliance), proxied.appliance.url)
    page = administrator.get(f"/admin/topics/{shop.name}%2Forders")
    assert re.search(rf"{shop.name}(/|%2F)orders", page)
