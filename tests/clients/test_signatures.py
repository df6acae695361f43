"""The library that Standard Webhooks publishes for receivers checks real deliveries."""

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from test_delivery import publish


def rotate(appliance, topic, name, **body):
    path = f"/topics/{topic.name}/eventSubscriptions/{name}/rotateSigningSecret"
    return appliance.manage("POST", path, body)["secret"]


def verified(secret, delivery):
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    return Webhook(secret).verify(delivery.body, headers)


def test_the_published_library_takes_our_signatures(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url)
    old = rotate(appliance, topic, "billing")
    new = rotate(appliance, topic, "billing", gracePeriod="PT1H")

    publish(topic, "grüße.1")

    [delivery] = receiver.wait_for(1)
    for secret in (old, new):
        [event] = verified(secret, delivery)
        assert event["id"] == "grüße.1"
    with pytest.raises(WebhookVerificationError):
        verified("whsec_" + "A" * 32, delivery)
    delivery.body = delivery.body.replace(b"Paid", b"Lost")
    with pytest.raises(WebhookVerificationError):
        verified(new, delivery)


def test_a_batch_is_signed_as_it_was_sent(appliance, receiver, fresh_name):
    topic = appliance.create_topic(fresh_name())
    appliance.subscribe(topic, "billing", receiver.url, destination={"maxEventsPerBatch": 10})
    secret = rotate(appliance, topic, "billing")

    publish(topic)

    [delivery] = receiver.wait_for(1)
    assert len(verified(secret, delivery)) == 1
