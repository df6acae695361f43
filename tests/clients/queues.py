"""What the tests of queues share."""

import base64
import functools
import hashlib
import hmac
import time
from urllib.parse import quote_plus

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, TransportType

WAIT_S = 5

# How a client reaches the appliance. Its TLS is that of `--tls-dev`, and so is that of WebSockets, as in Azure.
TCP, TLS, WEBSOCKETS = "tcp", "tls", "websockets"
TRANSPORTS = [TCP, TLS, WEBSOCKETS]

# The mark of a module whose tests run over all of them.
over_all_transports = pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)

# Below and above what fits into one frame; five of the latter fit into a batch.
SIZES = [pytest.param(10, id="small"), pytest.param(200_000, id="large")]

RULE = "RootManageSharedAccessKey"


def token(resource, key, rule=RULE, expires_in_s=300):
    """The recipe of Microsoft's documentation."""
    encoded = quote_plus(resource)
    expiry = str(int(time.time()) + expires_in_s)
    digest = hmac.new(key.encode(), f"{encoded}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expiry}&skn={rule}"


def connection_string(appliance, key=None, rule=RULE):
    scheme, endpoint = appliance.url.split("://")
    without_tls = "UseDevelopmentEmulator=true;" if scheme == "http" else ""
    return (
        f"Endpoint=sb://{endpoint};SharedAccessKeyName={rule};"
        f"SharedAccessKey={key or appliance.token};{without_tls}"
    )


def client_options(appliance, transport=TCP, key=None, rule=RULE):
    """What the stock clients, synchronous and asynchronous, are made with."""
    string = connection_string(appliance, key, rule)
    kind = TransportType.AmqpOverWebsocket if transport == WEBSOCKETS else TransportType.Amqp
    options = {"conn_str": string, "transport_type": kind, "retry_total": 0}
    scheme, host = appliance.url.split("://")
    if scheme == "https" or transport == WEBSOCKETS:
        options["custom_endpoint_address"] = f"sb://{host}"
    if scheme == "https":
        options["connection_verify"] = str(appliance.authority)
    return options


def connect(appliance, transport=TCP, key=None, rule=RULE, **options):
    client = ServiceBusClient.from_connection_string(**client_options(appliance, transport, key, rule) | options)
    for kind in ("queue_sender", "queue_receiver", "topic_sender", "subscription_receiver"):
        # The thread that keeps an idle connection alive sleeps for a second when it is closed.
        opens = functools.partial(getattr(client, f"get_{kind}"), keep_alive=0)
        setattr(client, f"get_{kind}", opens)
    return client


def send(client, queue, *bodies, **properties):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


def receiver(client, queue, **options):
    return client.get_queue_receiver(queue, max_wait_time=WAIT_S, **options)


def bodies(messages):
    return [str(message) for message in messages]


def take(receiving, count):
    """Receives so many messages, however many come at a time."""
    found = []
    while len(found) < count:
        messages = receiving.receive_messages(max_message_count=count - len(found))
        assert messages, bodies(found)
        found += messages
    return found


def drain(receiving, count):
    """Receives so many messages and completes them."""
    found = take(receiving, count)
    for message in found:
        receiving.complete_message(message)
    return bodies(found)


def received(client, queue, count, **options):
    """So many messages of a queue, which are removed. The receiver is closed with its client."""
    return take(receiver(client, queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE, **options), count)


def body_of(message):
    return b"".join(message.body)


def manage(receiving, operation, body):
    """What the entity answers to a request that the client has no function for."""
    answer = lambda status, message, description, **_: message.value if status == 200 else None
    return receiving._mgmt_request_response_with_retry(b"com.microsoft:" + operation.encode(), body, answer)
