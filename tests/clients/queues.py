"""What the tests of queues share."""

import base64
import hashlib
import hmac
import time
from urllib.parse import quote_plus

from azure.servicebus import ServiceBusMessage

WAIT_S = 5

RULE = "RootManageSharedAccessKey"


def token(resource, key, rule=RULE, expires_in_s=300):
    """The recipe of Microsoft's documentation."""
    encoded = quote_plus(resource)
    expiry = str(int(time.time()) + expires_in_s)
    digest = hmac.new(key.encode(), f"{encoded}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(digest))
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expiry}&skn={rule}"


def connection_string(appliance, key=None, rule=RULE):
    endpoint = appliance.url.removeprefix("http://")
    return (
        f"Endpoint=sb://{endpoint};SharedAccessKeyName={rule};"
        f"SharedAccessKey={key or appliance.token};UseDevelopmentEmulator=true;"
    )


def send(client, queue, *bodies, **properties):
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])


def receiver(client, queue, **options):
    return client.get_queue_receiver(queue, max_wait_time=WAIT_S, **options)


def bodies(messages):
    return [str(message) for message in messages]


def drain(receiving, count):
    """Receives so many messages and completes them."""
    found = []
    while len(found) < count:
        messages = receiving.receive_messages(max_message_count=count - len(found))
        assert messages, found
        for message in messages:
            receiving.complete_message(message)
        found += messages
    return bodies(found)
