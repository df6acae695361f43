"""Dead letters on their way to a server of S3: killed again and again, each is there under one name, and the
import of what is there delivers it."""

import json
import random
import time

import requests

from appliance import Appliance, eventually
from s3 import BUCKET, KEY_ID, SECRET, names

KILLS = 20
EVENTS_BETWEEN_KILLS = 30


def storage_at(url, bucket=BUCKET):
    account = {"type": "S3", "endpointUrl": url, "accessKeyId": KEY_ID, "secretAccessKey": SECRET}
    place = {"blobContainerName": bucket, "storage": account}
    return {"endpointType": "StorageBlob", "properties": place}


def text_of(client, name):
    return client.get_object(Bucket=BUCKET, Key=name)["Body"].read()


def publish(topic, ids):
    events = [
        {"id": each, "subject": "/s", "eventType": "T", "eventTime": "2026-11-21T06:40:53Z",
         "data": 1, "dataVersion": "1"}
        for each in ids
    ]
    headers = {"aeg-sas-key": topic.key1}
    assert requests.post(topic.endpoint, json=events, headers=headers, timeout=30).status_code == 200


def reject(receiver):
    """Everything, for as long as a test takes."""
    receiver.script(*[400] * 10_000)


def kill(appliance):
    process, appliance.process = appliance.process, None
    process.kill()
    process.wait()
    appliance.printed.clear()  # the next life has another address


def at(appliance, topic):
    """The topic where the appliance is now."""
    topic.endpoint = appliance.url + "/topics/" + topic.name + "/api/events"
    return topic


def test_an_export_to_s3_survives_every_kill_and_its_import_delivers(s3, receiver, tmp_path):
    client, url = s3
    dice = random.Random()
    fast = ["--time-scale", 100, "--dead-letter-export-delay-s", 0]
    with Appliance(tmp_path / "data", *fast) as appliance:
        topic = appliance.create_topic("orders")
        reject(receiver)
        appliance.subscribe(topic, "billing", receiver.url, {"skipValidation": True},
                            deadLetterDestination=storage_at(url))
        published = []
        for number in range(KILLS):
            there = len(names(client))
            some = [f"e{len(published) + n:06}" for n in range(dice.randint(1, EVENTS_BETWEEN_KILLS))]
            publish(at(appliance, topic), some)
            published += some
            if number % 2:
                time.sleep(dice.random())
            else:  # between the put and the mark
                eventually(lambda: len(names(client)) > there, "another blob is there")
            kill(appliance)
            appliance.start()
        count = "/everpost/deadLetters/count"

        def stored():
            found = {}
            for name in names(client):
                for record in json.loads(text_of(client, name)):
                    found.setdefault(record["id"], []).append(name)
            left = appliance.manage("GET", count)["count"]
            return found if left == 0 and len(found) >= len(published) else None

        found = eventually(stored, "everything is exported")
        assert sorted(found) == published
        assert [each for each in found.items() if len(each[1]) != 1] == [], "under one name each"
        assert SECRET not in appliance.log()

        for number, name in enumerate(names(client)):
            (tmp_path / f"{number}.json").write_bytes(text_of(client, name))
        receiver.script()
        receiver.deliveries.clear()
        to = ["--topic", "orders", "--subscription", "billing"]
        counted = appliance.command("dead-letters", "import", tmp_path, *to)
        assert counted.startswith(f"{len(published)} records in ")
        done = appliance.command("dead-letters", "import", tmp_path, *to, "--yes", "--json")
        assert json.loads(done)["imported"] == len(published)

        def arrived():
            return {event["id"] for event in receiver.events()} == set(published)

        eventually(arrived, "what was imported arrives")


def test_storage_that_rejects_is_told_of_with_the_subscription(s3, receiver, tmp_path):
    client, url = s3
    fast = ["--time-scale", 10, "--dead-letter-export-delay-s", 0]
    with Appliance(tmp_path / "data", *fast) as appliance:
        topic = appliance.create_topic("orders")
        reject(receiver)
        late = "dead-and-late"
        appliance.subscribe(topic, "billing", receiver.url, {"skipValidation": True},
                            deadLetterDestination=storage_at(url, late))
        publish(topic, ["e1"])
        path = "/topics/orders/eventSubscriptions/billing"

        def outage():
            shown = appliance.manage("GET", path)["properties"]
            assert SECRET not in json.dumps(shown)
            return shown["everpost"]["deadLetterStorage"]

        assert "NoSuchBucket" in eventually(outage, "the storage is away")["error"]
        client.create_bucket(Bucket=late)
        eventually(lambda: len(names(client, late)) == 1, "it is tried again")
        eventually(lambda: outage() is None, "the storage is back")
