"""What can be said to the appliance without any client library: doors, credentials, hints."""

import json
import re
import socket

import pytest
import requests

import sas
from appliance import Appliance
from events import EVENT


def post(url, headers, body=None):
    body = [EVENT] if body is None else body
    text = body if isinstance(body, str) else json.dumps(body)
    return requests.post(url, data=text, headers=headers, timeout=30)


@pytest.fixture
def topic(appliance, fresh_name):
    return appliance.create_topic(fresh_name())


def is_accepted(answer):
    """The only answer that Microsoft's clients take for a success, with the number that they log."""
    return answer.status_code == 200 and answer.content == b"" and answer.headers["x-ms-request-id"]


def error_of(answer, status, code):
    """The message of an answer that is an error in Azure's shape."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["message"]
    return error["message"]


def test_a_topic_is_found_by_path_host_and_key(appliance, topic):
    key = {"aeg-sas-key": topic.key1}
    doors = [
        (f"/topics/{topic.name}/api/events", key),
        (f"/{topic.name}/api/events", key),
        (f"/{topic.name.upper()}/api/events", key),
        ("/api/events", {**key, "Host": f"{topic.name}.westeurope-1.eventgrid.azure.net"}),
        ("/api/events", {**key, "Host": f"{topic.name}.localhost:8080"}),
        ("/api/events", key),
    ]

    for count, (path, headers) in enumerate(doors, start=1):
        for query in ["", "?api-version=2018-01-01"]:
            answer = post(appliance.url + path + query, headers)
            assert is_accepted(answer), f"{path}{query}: {answer.status_code} {answer.text}"
        assert len(appliance.events(topic)) == 2 * count, path


def test_slashes_too_many_make_no_difference_and_a_wrong_path_is_told(appliance, topic):
    key = {"aeg-sas-key": topic.key1}
    assert is_accepted(post(f"{appliance.url}/topics/{topic.name}/api/events/", key))
    assert is_accepted(post(f"{appliance.url}//topics/{topic.name}/api/events", key))

    told = error_of(post(f"{appliance.url}/topics/{topic.name}", key), 404, "NotFound")
    assert f"POST /topics/{topic.name}/api/events" in told


def test_what_microsofts_powershell_sample_sends_is_taken(appliance, topic):
    event = {**EVENT, "id": 8741, "eventTime": "2026-11-21T06:40:53"}

    assert is_accepted(post(topic.endpoint, {"aeg-sas-key": topic.key1}, [event]))
    [stored] = appliance.events(topic)
    assert stored["id"] == "8741"


def test_a_key_may_stand_in_the_query(topic):
    query = {"api-version": "2018-01-01", "aeg-sas-key": topic.key2}

    assert is_accepted(requests.post(topic.endpoint, params=query, json=[EVENT], timeout=30))


@pytest.mark.parametrize("writer", sas.WRITERS, ids=lambda writer: writer.__name__)
def test_every_known_way_to_write_a_signature_opens_the_door(topic, writer):
    token = writer(topic.endpoint, topic.key1, sas.in_an_hour())
    expired = writer(topic.endpoint, topic.key1, sas.an_hour_ago())

    for text in [{"aeg-sas-token": token}, {"Authorization": f"SharedAccessSignature {token}"}]:
        answer = post(topic.endpoint, text)
        assert is_accepted(answer), f"{text}: {answer.text}"
    error_of(post(topic.endpoint, {"aeg-sas-token": expired}), 401, "Unauthorized")
    forged = token.replace("&e=", "&e=%20")
    error_of(post(topic.endpoint, {"aeg-sas-token": forged}), 401, "Unauthorized")


def test_without_credentials_nothing_is_stored(appliance, topic):
    answer = post(topic.endpoint, {})

    error_of(answer, 401, "Unauthorized")
    assert appliance.events(topic) == []


def test_an_unknown_topic_is_not_found_by_whoever_may_know(appliance, topic):
    unknown = f"{appliance.url}/topics/imagined/api/events"

    told = error_of(post(unknown, {"Authorization": f"Bearer {appliance.token}"}), 404, "NotFound")
    assert "imagined" in told
    told = error_of(post(unknown, {"aeg-sas-key": topic.key1}), 401, "Unauthorized")
    assert "no such topic" in told


def test_events_at_the_wrong_door_get_a_hint(appliance, topic):
    answer = post(appliance.url + "/", {"aeg-sas-key": topic.key1})

    assert "/api/events" in error_of(answer, 404, "NotFound")


def test_options_needs_no_credentials(topic):
    answer = requests.options(topic.endpoint, timeout=30)

    assert answer.status_code in (200, 204)
    assert "POST" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("{", "JSON"),
        (json.dumps(EVENT), "array"),
        ([EVENT, 7], "1"),
        ([{**EVENT, "id": ""}], "id"),
        ([{**EVENT, "eventTime": "yesterday"}], "eventTime"),
        ([{**EVENT, "surprise": True}], "surprise"),
        ([{**EVENT, "metadataVersion": "2"}], "metadataVersion"),
        ([{**EVENT, "topic": "/another"}], "topic"),
        ([{**EVENT, "data": None}, {**EVENT, "subject": None}], "subject"),
    ],
)
def test_a_bad_body_is_rejected_with_its_field_named(appliance, topic, body, named):
    answer = post(topic.endpoint, {"aeg-sas-key": topic.key1}, body)

    message = error_of(answer, 400, "BadRequest")
    assert answer.json()["error"]["details"][0]["code"] == "InputJsonInvalid"
    assert named.lower() in message.lower()
    assert appliance.events(topic) == []


def test_an_empty_array_is_accepted_and_stores_nothing(appliance, topic):
    answer = post(topic.endpoint, {"aeg-sas-key": topic.key1}, [])

    assert is_accepted(answer)
    assert appliance.events(topic) == []


def test_optional_parts_of_an_event_are_stamped(appliance, topic, receiver):
    appliance.subscribe(topic, "billing", receiver.url)
    short = {name: EVENT[name] for name in ["id", "subject", "eventType", "eventTime"]}

    # curl sends this type unless it is told another; the published examples rely on that.
    form = {"aeg-sas-key": topic.key1, "Content-Type": "application/x-www-form-urlencoded"}
    assert is_accepted(post(topic.endpoint, form, [short]))

    [delivery] = receiver.wait_for(1)
    [event] = delivery.json
    assert (event["dataVersion"], event["metadataVersion"], event["topic"]) == ("", "1", topic.id)


def test_health_is_open_and_tells_no_secrets(appliance, topic):
    for path in ["/healthz", "/readyz"]:
        answer = requests.get(appliance.url + path, timeout=30)
        assert answer.status_code == 200
        assert topic.key1 not in answer.text and appliance.token not in answer.text


def test_metrics_are_told_to_whoever_has_the_token(appliance, topic):
    answer = requests.get(
        appliance.url + "/metrics",
        headers={"Authorization": f"Bearer {appliance.token}"},
        timeout=30,
    )

    assert answer.status_code == 200
    assert "# TYPE " in answer.text


def test_everything_is_spoken_at_every_address(tmp_path):
    with Appliance(tmp_path / "data", "--listen", "127.0.0.1:0") as own:
        addresses = set(re.findall(r"127\.0\.0\.1:\d+", own.log().split("listening on")[1].splitlines()[0]))
        assert len(addresses) == 2
        for address in addresses:
            assert requests.get(f"http://{address}/healthz", timeout=30).status_code == 200
            host, port = address.split(":")
            with socket.create_connection((host, int(port)), timeout=30) as peer:
                peer.sendall(b"AMQP\3\1\0\0")
                assert peer.recv(8) == b"AMQP\3\1\0\0", "SASL goes on"
