"""Clients, their credentials and their connections, with the stock Service Bus client for Python."""

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError

import queues
from queues import (
    RULE,
    TCP,
    WEBSOCKETS,
    bodies,
    client_options,
    drain,
    over_all_transports,
    received,
    receiver,
    send,
    token,
)

pytestmark = over_all_transports

# The last one is what the client makes of a rejected token over TLS.
REJECTED = (ServiceBusAuthenticationError, ServiceBusError)


@pytest.fixture
def queue(create_queue):
    return create_queue()


@pytest.mark.parametrize("kind", ["named key", "token"])
def test_a_client_shows_a_key_or_a_token(appliance, transport, queue, kind):
    options = client_options(appliance, transport)
    options.pop("conn_str")
    host = appliance.url.split("://")[1]
    credential = {
        "named key": AzureNamedKeyCredential(RULE, appliance.token),
        "token": AzureSasCredential(token(f"sb://{host}/{queue}", appliance.token)),
    }[kind]
    tls = appliance.url.startswith("https:")
    with ServiceBusClient(host, credential, use_tls=tls, **options) as client:
        send(client, queue, "a")
        assert bodies(received(client, queue, 1)) == ["a"]


def test_a_connection_string_may_hold_a_token_or_name_an_entity(appliance, transport, queue):
    options = client_options(appliance, transport)
    whole = options.pop("conn_str")
    endpoint = whole.split(";")[0]
    without_tls = "UseDevelopmentEmulator=true;" if "Emulator" in whole else ""
    host = appliance.url.split("://")[1]
    signature = token(f"sb://{host}/{queue}", appliance.token)
    for string in (
        f"{endpoint};SharedAccessSignature={signature};{without_tls}",
        f"{whole};EntityPath={queue}".replace(";;", ";"),
    ):
        with ServiceBusClient.from_connection_string(string, **options) as client:
            send(client, queue, "a")
            assert bodies(received(client, queue, 1)) == ["a"]
    with ServiceBusClient.from_connection_string(f"{whole};EntityPath={queue}".replace(";;", ";"), **options) as client:
        with pytest.raises(ValueError, match="does not match"):
            client.get_queue_sender("another")


def test_a_token_that_has_expired_opens_nothing(appliance, transport, queue):
    options = client_options(appliance, transport)
    options.pop("conn_str")
    host = appliance.url.split("://")[1]
    credential = AzureSasCredential(token(f"sb://{host}/{queue}", appliance.token, expires_in_s=-60))
    with ServiceBusClient(host, credential, use_tls=appliance.url.startswith("https:"), **options) as client:
        with pytest.raises(REJECTED):
            send(client, queue, "lost")


def test_a_closed_client_has_closed_what_it_opened(connect, queue):
    client = connect()
    sender, receiving = client.get_queue_sender(queue), receiver(client, queue)
    sender.send_messages(ServiceBusMessage("a"))
    [_] = receiving.receive_messages()
    client.close()
    for use in (lambda: sender.send_messages(ServiceBusMessage("b")), receiving.receive_messages):
        with pytest.raises(ValueError):
            use()
    assert bodies(receiver(connect(), queue).peek_messages()) == ["a"]


def test_several_clients_share_a_queue(connect, queue):
    one, other = connect(), connect()
    send(one, queue, "a")
    [message] = received(other, queue, 1)
    assert str(message) == "a"


def test_identifiers_of_clients_are_taken(client, queue):
    with client.get_queue_sender(queue, client_identifier="my sender") as sender:
        assert sender.client_identifier == "my sender"
        sender.send_messages(ServiceBusMessage("a"))
    with receiver(client, queue, client_identifier="my receiver") as receiving:
        assert receiving.client_identifier == "my receiver"
        assert drain(receiving, 1) == ["a"]


@pytest.mark.guesses
def test_a_wrong_key_opens_nothing(appliance, connect, queue):
    with pytest.raises(REJECTED):
        send(connect(key="d3Jvbmc="), queue, "lost")
    assert "credentials were rejected" in appliance.log()


@pytest.mark.guesses
def test_a_key_of_a_queue_opens_that_queue_alone(appliance, connect, create_queue):
    queue, other = create_queue(requiresSession=True), create_queue()
    keys = appliance.manage("POST", f"/topics/{queue}/listKeys")
    client = connect(key=keys["key2"], rule="key2")
    send(client, queue, "mine", session_id="a")
    with receiver(client, queue, session_id=NEXT_AVAILABLE_SESSION) as receiving:
        receiving.session.set_state(b"half-way")
        assert bodies(receiving.peek_messages()) == ["mine"]
        assert drain(receiving, 1) == ["mine"]
    with receiver(client, queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
        assert dead.peek_messages() == []
    with pytest.raises(REJECTED):
        send(client, other, "lost")
    for key, rule in ((keys["key1"], "key2"), (keys["key2"], "key3")):
        with pytest.raises(REJECTED):
            send(connect(key=key, rule=rule), queue, "lost", session_id="a")


def test_a_client_that_does_nothing_is_not_waited_for_at_the_end(request, transport):
    """It answers a close when it is used again; until then nobody else is kept from what it had."""
    own = request.getfixturevalue("own_appliance" if transport == TCP else "own_secure_appliance")
    own.manage("PUT", "/queues/jobs", {"properties": {}}, status=201)
    sender = queues.connect(own, transport).get_queue_sender("jobs")
    sender.send_messages(ServiceBusMessage("a"))
    own.stop()


def test_websockets_work_without_tls(appliance, transport, create_queue):
    if transport != TCP:
        pytest.skip("with TLS it is a transport of its own")
    queue = create_queue()
    client = queues.connect(appliance, WEBSOCKETS)
    send(client, queue, "x" * 300_000)
    assert bodies(received(client, queue, 1)) == ["x" * 300_000]
