"""Alerts as they arrive: at a mail server and at a webhook, with the clock of `everpost dev`."""

import datetime
import email
import ipaddress
import json
import ssl

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from appliance import Appliance, DevAppliance, eventually
from receiver import Receiver

RULES = "/everpost/alerts/rules"
CHANNELS = "/everpost/alerts/channels"
PASSWORD = "correct horse"
FAILING = "Endpoint failing: orders/billing"


class MailServer(Controller):
    """Takes mail over STARTTLS from who has the password."""

    def __init__(self, certificate):
        self.mails = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        super().__init__(
            self,
            hostname="127.0.0.1",
            port=0,
            tls_context=context,
            require_starttls=True,
            authenticator=self.authenticate,
            auth_required=True,
        )

    def _trigger_server(self):
        """Looks whether it runs, by then on a port that is known."""
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()

    def authenticate(self, server, session, envelope, mechanism, given):
        return AuthResult(success=given.password == PASSWORD.encode(), handled=False)

    async def handle_DATA(self, server, session, envelope):
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content)))
        return "250 Taken as 4711"

    def wait_for(self, count):
        eventually(lambda: len(self.mails) >= count, f"{count} mails")
        return self.mails


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate for localhost that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("mail") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def mail_server(certificate):
    server = MailServer(certificate)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def appliance(certificate, monkeypatch):
    """One that trusts the mail server."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with DevAppliance() as appliance:
        yield appliance


def mail_channel(server, **more):
    return {
        "type": "Email",
        "host": "localhost",
        "port": server.port,
        "from": "Everpost <everpost@example.com>",
        "to": ["ops@example.com", "dev@example.com"],
        "username": "everpost",
        "password": PASSWORD,
        **more,
    }


def chat_channel(receiver, **more):
    return {"type": "WebHook", "endpointUrl": f"{receiver.url}/hush", **more}


def fail(appliance, receiver):
    """Has the endpoint `receiver` fail for more than ten minutes."""
    orders = appliance.create_topic("orders")
    appliance.subscribe(orders, "billing", receiver.url)
    receiver.script(*[503] * 100)
    publish(appliance)
    receiver.wait_for(1)
    # The answer has to arrive before the time passes.
    appliance.manage("POST", "/everpost/test/wait-until-idle", {})
    appliance.advance(700)


def publish(appliance):
    appliance.command("publish", "--topic", "orders", "--type", "T", "--subject", "s", "--data", "{}")


def test_a_mail_says_that_an_endpoint_fails_and_another_that_it_is_over(appliance, mail_server, receiver):
    appliance.manage("PUT", f"{CHANNELS}/mail", mail_channel(mail_server), status=201)
    fail(appliance, receiver)

    (to, mail), = mail_server.wait_for(1)

    assert to == ["ops@example.com", "dev@example.com"]
    assert mail["subject"] == f"[Everpost] {FAILING}"
    assert mail["from"] == "Everpost <everpost@example.com>"
    text = mail.get_payload(decode=True).decode()
    assert "orders/billing: every attempt has failed since" in text and "/admin/alerts" in text
    assert "UTC, last response 503" in text

    receiver.script()
    eventually(lambda: appliance.advance(300) and len(mail_server.mails) > 1, "the end is told")
    assert mail_server.mails[1][1]["subject"] == f"[Everpost] Resolved: {FAILING}"
    assert appliance.manage("GET", "/everpost/alerts")["value"] == []


def test_what_the_mail_server_answers_is_told(appliance, mail_server):
    appliance.manage("PUT", f"{CHANNELS}/mail", mail_channel(mail_server))
    test = lambda: appliance.manage("POST", f"{CHANNELS}/mail/test")
    assert test() == {"sent": True, "answer": "250 Taken as 4711"}

    for change, expected in [
        ({"password": "wrong horse"}, "535"),
        ({"security": "Tls"}, ""),
        ({"host": "127.0.0.2", "port": 9}, "refused"),
    ]:
        appliance.manage("PUT", f"{CHANNELS}/mail", mail_channel(mail_server, **change))
        tested = test()
        assert tested["sent"] is False and expected in tested["answer"], (change, tested)
        assert "horse" not in str(tested)
    channel = appliance.manage("GET", f"{CHANNELS}/mail")
    assert channel["lastSentAt"] and "refused" in channel["lastError"] and channel["password"] is None


def test_a_mail_server_that_nobody_vouches_for_gets_no_password(mail_server):
    with DevAppliance() as appliance:
        appliance.manage("PUT", f"{CHANNELS}/mail", mail_channel(mail_server))
        tested = appliance.manage("POST", f"{CHANNELS}/mail/test")
        assert tested["sent"] is False and "certificate" in tested["answer"].lower(), tested
    assert not mail_server.mails


def test_mail_goes_only_where_requests_may_go(tmp_path, mail_server):
    with Appliance(tmp_path / "data", egress=()) as appliance:
        appliance.manage("PUT", f"{CHANNELS}/mail", mail_channel(mail_server, host="127.0.0.1"))
        tested = appliance.manage("POST", f"{CHANNELS}/mail/test")
        assert tested["sent"] is False and "--egress-allow 127.0.0.1" in tested["answer"], tested


def test_a_webhook_is_told_once_a_minute_at_most_and_tried_again_if_it_fails(appliance, receiver):
    with Receiver() as chat:
        chat.script(500)
        appliance.manage("PUT", f"{CHANNELS}/chat", chat_channel(chat, format="Slack"))
        fail(appliance, receiver)
        chat.wait_for(1)
        channel = eventually(lambda: failed(appliance, "chat"), "the failure is known")
        assert channel["lastError"] == "500 Internal Server Error" and channel["target"] == "127.0.0.1"

        appliance.advance(61)

        first, second = chat.wait_for(2)
        assert first.json == second.json and f"*{FAILING}*" in first.json["text"]
        eventually(lambda: appliance.manage("GET", f"{CHANNELS}/chat")["lastSentAt"], "it was sent")
        messages = appliance.manage("GET", "/everpost/alerts/messages")["value"]
        assert [message["state"] for message in messages] == ["Sent"]


def failed(appliance, name):
    channel = appliance.manage("GET", f"{CHANNELS}/{name}")
    return channel if channel["lastError"] else None


def test_each_service_gets_its_own_form(appliance):
    with Receiver() as chat:
        for number, (format, of) in enumerate(
            [
                ("Json", lambda body: body["subject"]),
                ("Slack", lambda body: body["text"]),
                ("Teams", lambda body: body["attachments"][0]["content"]["body"][0]["text"]),
                ("Discord", lambda body: body["content"]),
                ("PagerDuty", lambda body: body["payload"]["summary"]),
            ]
        ):
            channel = chat_channel(chat, format=format, token="t0ken")
            appliance.manage("PUT", f"{CHANNELS}/chat", channel)
            assert appliance.manage("POST", f"{CHANNELS}/chat/test") == {"sent": True, "answer": "200 OK"}
            assert "Test message" in of(chat.deliveries[number].json), format
        assert chat.deliveries[0].headers["Authorization"] == "Bearer t0ken"
        appliance.manage("PUT", f"{CHANNELS}/chat", chat_channel(chat, format="Ntfy"))
        appliance.manage("POST", f"{CHANNELS}/chat/test")
        assert chat.deliveries[-1].headers["Title"] == "Test message"
        assert chat.deliveries[-1].body == b"Alerts of this Everpost arrive here."


def test_a_restart_neither_repeats_nor_forgets(tmp_path):
    data_dir = tmp_path / "data"
    with Receiver() as chat:
        with Appliance(data_dir) as appliance:
            appliance.manage("PUT", f"{CHANNELS}/chat", chat_channel(chat))
            appliance.manage("PUT", f"{RULES}/disk-space", {"type": "DiskSpace", "megabytes": 1 << 30})
            (told,) = chat.wait_for(1)
            assert told.json["subject"] == "Low disk space: disk" and told.json["state"] == "Firing"
            eventually(lambda: appliance.manage("GET", f"{CHANNELS}/chat")["lastSentAt"], "it was sent")
        with Appliance(data_dir) as appliance:
            (alert,) = appliance.manage("GET", "/everpost/alerts")["value"]
            assert (alert["rule"], alert["object"]) == ("disk-space", "disk")
            appliance.command("alerts", "rules", "disable", "disk-space")
            eventually(lambda: appliance.manage("GET", "/everpost/alerts")["value"] == [], "it is over")
            assert len(chat.deliveries) == 1, "the end is told a minute after the beginning"


def test_the_command_line_manages_alerts(appliance, tmp_path):
    with Receiver() as chat:
        url = tmp_path / "url"
        url.write_text(chat.url)
        created = appliance.command("alerts", "channels", "create", "chat", "--format", "slack", "--url-file", url)
        assert "Slack" in created and "127.0.0.1" in created
        assert appliance.command("alerts", "channels", "test", "chat") == "sent: 200 OK\n"
        created = ["alerts", "rules", "create", "quiet", "--type", "noevents", "--topic", "events", "--minutes", "5"]
        assert "topic events, minutes 5" in appliance.command(*created)
        appliance.advance(400)
        listed = eventually(lambda: told(appliance), "the rule fires")
        assert "quiet" in listed and "no event since" in listed
        messages = json.loads(appliance.command("alerts", "messages", "--json"))["value"]
        assert messages[0]["subject"] == "No events: events"
        assert "no" in appliance.command("alerts", "rules", "disable", "quiet")
        appliance.command("alerts", "rules", "delete", "quiet", "--yes")
        appliance.command("alerts", "channels", "delete", "chat", "--yes")
        assert "no alert channels yet" in appliance.command("alerts", "channels", "list")


def told(appliance):
    listed = appliance.command("alerts", "list")
    return listed if "quiet" in listed else None
