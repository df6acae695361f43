"""What the tests of queues share."""

from azure.servicebus import ServiceBusMessage

WAIT_S = 5


def connection_string(appliance, key=None, rule="RootManageSharedAccessKey"):
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
