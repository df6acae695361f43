"""TLS on the appliance's own port, as stock clients meet it that reject plain HTTP."""

import socket
import ssl
import subprocess

import pytest
import requests
from azure.core.credentials import AzureKeyCredential
from azure.eventgrid import EventGridEvent, EventGridPublisherClient
from azure.mgmt.eventgrid import EventGridManagementClient
from azure.mgmt.eventgrid.models import Topic

from appliance import BINARY, Appliance, environment, eventually
from test_manage import ManagementToken


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("tls") / "data", "--tls-dev") as appliance:
        yield appliance


@pytest.fixture(autouse=True)
def trusting(monkeypatch, appliance):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(appliance.authority))


def address(appliance):
    host, port = appliance.url.removeprefix("https://").split(":")
    return host, int(port)


def test_the_management_client_works_unchanged(appliance):
    ids = appliance.create_topic("probe").id.split("/")
    client = EventGridManagementClient(
        ManagementToken(appliance.token),
        ids[2],
        base_url=appliance.url,
    )

    # No enforce_https=False here: the credential goes over TLS alone.
    made = client.topics.begin_create_or_update(ids[4], "orders", Topic(location="local")).result()

    assert made.endpoint == f"{appliance.url}/topics/orders/api/events"
    assert "orders" in [each.name for each in client.topics.list_by_resource_group(ids[4])]


def test_the_publishing_client_works_unchanged(appliance):
    topic = appliance.create_topic("sales")
    client = EventGridPublisherClient(
        topic.endpoint,
        AzureKeyCredential(topic.key1),
    )

    client.send(EventGridEvent(subject="s", event_type="T", data={"a": 1}, data_version="1"))

    assert len(appliance.events(topic)) == 1


@pytest.mark.parametrize("offered, chosen", [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1")])
def test_the_protocol_is_negotiated(appliance, offered, chosen):
    context = ssl.create_default_context(cafile=appliance.authority)
    context.set_alpn_protocols(offered)

    for name in ["localhost", "127.0.0.1", socket.gethostname()]:
        with socket.create_connection(address(appliance)) as plain:
            with context.wrap_socket(plain, server_hostname=name) as connection:
                assert connection.selected_alpn_protocol() == chosen


def test_plain_http_is_answered_with_what_is_wrong(appliance):
    answer = requests.get(appliance.url.replace("https", "http") + "/healthz", timeout=10)

    assert answer.status_code == 400
    assert "https://" in answer.text


def test_amqp_without_tls_is_told_what_is_spoken(tmp_path):
    with Appliance(tmp_path / "data", "--tls-dev") as own:
        with socket.create_connection(address(own)) as plain:
            plain.sendall(b"AMQP\0\1\0\0")
            assert plain.recv(16) == b"AMQP\2\1\0\0", "the header of the protocol that is wanted"
            assert plain.recv(16) == b""
        eventually(lambda: "it spoke AMQP without TLS" in own.log(), "the line in the log")
        assert "it spoke AMQP without TLS" in own.log() and "127.0.0.1" in own.log()


def test_tls_is_rejected_where_it_is_not_spoken(tmp_path):
    with Appliance(tmp_path / "data") as own:
        host, port = own.url.removeprefix("http://").split(":")
        for _ in range(3):
            with socket.create_connection((host, int(port))) as plain:
                with pytest.raises(ssl.SSLError, match="(?i)alert.*handshake.failure"):
                    ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        assert own.log().count("it began TLS") == 1 and "UseDevelopmentEmulator=true" in own.log()


def test_a_handshake_that_fails_has_a_line_in_the_log(tmp_path):
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    for number, (context, name, instead) in enumerate(
        [
            (ssl.create_default_context(), "localhost", "trust the certificate authority"),
            (unverified, "localhost:8080", "without a port"),
        ]
    ):
        with Appliance(tmp_path / str(number), "--tls-dev") as own:
            with socket.create_connection(address(own)) as plain, pytest.raises(ssl.SSLError):
                context.wrap_socket(plain, server_hostname=name)
            eventually(lambda: instead in own.log(), instead)


def test_commands_find_the_server_and_trust_it(appliance):
    words = [BINARY, "topics", "list", "--data-dir", appliance.data_dir]
    ran = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=60)

    assert ran.returncode == 0, ran.stderr
    assert appliance.log().count("tls-dev-ca.pem") == 1, "the start says what to trust"


def test_a_certificate_of_its_own_is_served_by_its_name(appliance, tmp_path):
    key, chain = tmp_path / "key.pem", tmp_path / "chain.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=events.test", "-addext", "subjectAltName=DNS:events.test,IP:127.0.0.1"]
    names += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*make.split(), "-keyout", key, "-out", chain, *names], check=True, capture_output=True)
    flags = ["--tls-cert", chain, "--tls-key", key, "--public-url", "https://events.test"]
    with Appliance(tmp_path / "data", *flags, authority=chain) as own:
        context = ssl.create_default_context(cafile=chain)
        with socket.create_connection(address(own)) as plain:
            with context.wrap_socket(plain, server_hostname="events.test"):
                pass
        url, behind = (tmp_path / "data/server.url").read_text().split()
        trusting = {**environment(), "SSL_CERT_FILE": str(chain)}
        words = [BINARY, "healthcheck", "--data-dir", tmp_path / "data"]
        ran = subprocess.run(words, env=trusting, capture_output=True, text=True, timeout=60)

    assert (url, behind) == (f"https://events.test:{address(own)[1]}", "%s:%d" % address(own))
    assert ran.returncode == 0, ran.stderr


def test_files_that_do_not_fit_are_named(tmp_path):
    for name, text in [("chain.pem", "nothing"), ("key.pem", "nothing")]:
        (tmp_path / name).write_text(text)
    words = ["serve", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0"]
    files = ["--tls-cert", tmp_path / "chain.pem", "--tls-key", tmp_path / "key.pem"]

    def start(*more):
        ran = subprocess.run(
            [str(word) for word in [BINARY, *words, *more]],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode != 0
        return ran.stderr

    assert "chain.pem: there is no certificate in it" in start(*files)
    assert "cannot be on while tls.cert is set" in start(*files, "--tls-dev")
    assert "is missing, but tls.cert is set" in start(*files[:2])
