"""Queues and topics with the limits of Azure's Standard tier, as the stock clients for Python meet them."""

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError
from azure.servicebus.management import ServiceBusAdministrationClient

from appliance import Appliance
from queues import TLS, bodies, connect, connection_string, received

BYTES_MAX = 256 * 1024


@pytest.fixture
def appliance(tmp_path):
    with Appliance(tmp_path / "data", "--tls-dev", "--service-bus-tier", "standard") as appliance:
        yield appliance


@pytest.fixture
def admin(appliance, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(appliance.authority))
    with ServiceBusAdministrationClient.from_connection_string(connection_string(appliance)) as admin:
        yield admin


def test_no_queue_or_topic_has_a_size_of_messages_of_its_own(admin):
    assert admin.get_namespace_properties().messaging_sku == "Standard"
    for kind, name in (("queue", "jobs"), ("topic", "sales")):
        create, get, update = (getattr(admin, f"{verb}_{kind}") for verb in ("create", "get", "update"))
        assert create(name).max_message_size_in_kilobytes == 256
        update(get(name))
        with pytest.raises(HttpResponseError, match="'MaxMessageSizeInKilobytes' cannot be set: the Standard tier"):
            create(f"large-{name}", max_message_size_in_kilobytes=1024)


def test_messages_have_up_to_256_kilobytes(appliance, admin):
    admin.create_queue("jobs")
    half = ServiceBusMessage("A" * (BYTES_MAX // 2))
    with connect(appliance, TLS) as client:
        with client.get_queue_sender("jobs") as sender:
            assert sender.create_message_batch().max_size_in_bytes == BYTES_MAX
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages(ServiceBusMessage("A" * BYTES_MAX))
            with pytest.raises(MessageSizeExceededError):
                sender.send_messages([half, half])
            sender.send_messages(half)
        assert bodies(received(client, "jobs", 1)) == ["A" * (BYTES_MAX // 2)]
