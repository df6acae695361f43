"""What Azure's management client lists and waits for: filters, pages, names of groups, handshakes that fail."""

import inspect
import time

import pytest
from azure.core.exceptions import (
    DeserializationError,
    HttpResponseError,
    ResourceNotFoundError,
    SerializationError,
)
from azure.mgmt.eventgrid.models import EventSubscription, Topic, WebHookEventSubscriptionDestination

from test_manage import PLAIN, Arm


@pytest.fixture
def arm(appliance):
    return Arm(appliance)


def names(listed):
    return [each.name for each in listed]


def topics(arm, **options):
    return names(arm.client.topics.list_by_resource_group(arm.group, **options, **PLAIN))


def subscription(url):
    return EventSubscription(destination=WebHookEventSubscriptionDestination(endpoint_url=url))


def begin(arm, topic, name, url):
    operations = arm.client.topic_event_subscriptions
    return operations.begin_create_or_update(arm.group, topic, name, subscription(url), **PLAIN)


def test_lists_are_filtered_by_name(appliance, arm, fresh_name):
    name = fresh_name()
    for suffix in "abc":
        appliance.create_topic(f"{name}-{suffix}")

    assert topics(arm, filter=f"name eq '{name}-b'") == [f"{name}-b"]
    wanted = f"contains(name, '{name.upper()}') and not (name eq '{name}-b')"
    assert topics(arm, filter=wanted) == [f"{name}-a", f"{name}-c"]
    by_subscription = arm.client.topics.list_by_subscription(filter=f"name eq '{name}-c'", **PLAIN)
    assert names(by_subscription) == [f"{name}-c"]
    with pytest.raises(HttpResponseError) as told:
        topics(arm, filter="location eq 'westus'")
    assert told.value.status_code == 400
    assert "$filter" in str(told.value)


def test_pages_follow_each_other(appliance, arm, fresh_name):
    name = fresh_name()
    for number in range(5):
        appliance.create_topic(f"{name}-{number}")
    wanted = f"contains(name, '{name}-')"

    pages = arm.client.topics.list_by_resource_group(arm.group, filter=wanted, top=2, **PLAIN).by_page()

    found = [names(page) for page in pages]
    assert found == [[f"{name}-0", f"{name}-1"], [f"{name}-2", f"{name}-3"], [f"{name}-4"]]


def test_whoever_deletes_what_a_list_names_deletes_nothing_else(appliance, arm, fresh_name):
    name = fresh_name()
    for suffix in ("test-1", "test-2", "kept"):
        appliance.create_topic(f"{name}-{suffix}")

    for found in topics(arm, filter=f"contains(name, '{name}-test-')"):
        arm.client.topics.begin_delete(arm.group, found, **PLAIN).result()

    assert topics(arm, filter=f"contains(name, '{name}')") == [f"{name}-kept"]


def test_built_in_topics_are_in_no_list_and_can_be_read(arm):
    assert not {"everpost-system", "dead-letter-storage"} & set(topics(arm))
    assert arm.client.topics.get(arm.group, "everpost-system", **PLAIN).name == "everpost-system"


def test_other_groups_and_subscriptions_are_not_found(appliance, arm, fresh_name):
    name = appliance.create_topic(fresh_name()).name

    with pytest.raises(ResourceNotFoundError) as told:
        arm.client.topics.begin_delete("elsewhere", name, **PLAIN).result()
    assert told.value.error.code == "ResourceGroupNotFound"
    answer = appliance.request(
        "DELETE",
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/"
        f"{arm.group}/providers/Microsoft.EventGrid/topics/{name}",
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "SubscriptionNotFound")
    assert name in topics(arm)


@pytest.mark.parametrize("path", ["/topics/{}?force=true", "/everpost/counts?verbose=1", "/namespaces?skip=1"])
def test_unknown_parameters_are_rejected_by_name(appliance, fresh_name, path):
    name = appliance.create_topic(fresh_name()).name

    answer = appliance.request("GET", path.format(name))

    assert answer.status_code == 400
    asked = path.split("?")[1].split("=")[0]
    assert asked in answer.json()["error"]["message"]


def test_event_subscriptions_are_listed_over_all_topics(appliance, arm, receiver, fresh_name):
    name = fresh_name()
    topic = arm.create_topic(name)  # in westeurope
    appliance.subscribe(appliance.create_topic(f"{name}-local"), f"{name}-local", receiver.url)
    begin(arm, topic.name, f"{name}-west", receiver.url).result()
    listed = arm.client.event_subscriptions
    of = {"filter": f"contains(name, '{name}-')", **PLAIN}
    both, west = [f"{name}-local", f"{name}-west"], [f"{name}-west"]
    kind = "Microsoft.EventGrid.Topics"

    assert names(listed.list_global_by_subscription(**of)) == both
    assert names(listed.list_global_by_resource_group(arm.group, **of)) == both
    assert names(listed.list_global_by_subscription_for_topic_type(kind, **of)) == both
    assert names(listed.list_global_by_resource_group_for_topic_type(arm.group, kind, **of)) == both
    assert names(listed.list_regional_by_subscription("West Europe", **of)) == west
    assert names(listed.list_regional_by_resource_group(arm.group, "westeurope", **of)) == west
    assert names(listed.list_regional_by_subscription_for_topic_type("westeurope", kind, **of)) == west
    regional = listed.list_regional_by_resource_group_for_topic_type
    assert names(regional(arm.group, "westeurope", kind, **of)) == west
    assert names(regional(arm.group, "westeurope", "Microsoft.Storage.StorageAccounts", **of)) == []
    by_resource = listed.list_by_resource(arm.group, "Microsoft.EventGrid", "topics", name, **of)
    assert names(by_resource) == west


def test_types_and_operations_are_listed(arm, fresh_name):
    name = fresh_name()
    info = {"kind": "Inline", "inlineEventTypes": {"Order.Paid": {"displayName": "Paid"}}}
    topic = Topic.deserialize({"location": "local", "properties": {"eventTypeInfo": info}})
    arm.client.topics.begin_create_or_update(arm.group, name, topic, **PLAIN).result()

    types = arm.client.topics.list_event_types(arm.group, "Microsoft.EventGrid", "topics", name, **PLAIN)
    assert [(each.name, each.display_name) for each in types] == [("Order.Paid", "Paid")]
    kinds = arm.client.topic_types
    assert names(kinds.list(**PLAIN)) == ["Microsoft.EventGrid.Topics"]
    assert kinds.get("Microsoft.EventGrid.Topics", **PLAIN).provider == "Microsoft.EventGrid"
    assert list(kinds.list_event_types("Microsoft.EventGrid.Topics", **PLAIN)) == []
    operations = names(arm.client.operations.list(**PLAIN))
    assert {"Microsoft.EventGrid/topics/write", "Microsoft.EventGrid/topics/listKeys/action"} <= set(operations)


def test_what_is_not_offered_says_so(arm):
    for ask in (
        lambda: list(arm.client.system_topics.list_by_subscription(**PLAIN)),
        lambda: arm.client.domains.get(arm.group, "shop", **PLAIN),
        lambda: list(arm.client.partner_topics.list_by_resource_group(arm.group, **PLAIN)),
        lambda: list(arm.client.private_endpoint_connections.list_by_resource(arm.group, "topics", "orders", **PLAIN)),
    ):
        with pytest.raises(HttpResponseError) as told:
            ask()
        assert told.value.error.code == "NotOffered"


# What an operation is told that there is, of something that there is not.
UNDERSTOOD = {"NotOffered", "ResourceNotFound", "InvalidRequest", "LocationRequired"}


def arguments(arm, operation, topic):
    """Some for every parameter that has to be given."""
    scope = f"/subscriptions/{arm.subscription_id}/resourceGroups/{arm.group}/providers/Microsoft.EventGrid/topics"
    known = {
        "resource_group_name": arm.group,
        "topic_name": topic,
        "scope": f"{scope}/{topic}",
        "location": "westeurope",
        "topic_type_name": "Microsoft.EventGrid.Topics",
        "provider_namespace": "Microsoft.EventGrid",
        "resource_type_name": "topics",
        "resource_name": topic,
    }
    for parameter in inspect.signature(operation).parameters.values():
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is parameter.empty:
            is_body = parameter.name.endswith(("_info", "_parameters", "_request", "event_subscription", "domain"))
            yield known.get(parameter.name, {} if is_body else "none")


def carry_out(operation, given):
    found = operation(*given, **PLAIN)
    if hasattr(found, "result"):
        found.result()
    elif hasattr(found, "by_page"):
        list(found)


def test_every_operation_of_the_client_is_answered_or_not_offered(appliance, arm, fresh_name):
    groups = [each for name, each in vars(arm.client).items() if hasattr(each, "_client") and name[0] != "_"]
    operations = [
        getattr(group, name)
        for group in groups
        for name in dir(group)
        if name[0] != "_" and name != "models" and callable(getattr(group, name))
    ]
    assert len(operations) >= 170, "the client has fewer operations than it had"
    for operation in operations:
        topic = appliance.create_topic(fresh_name()).name
        try:
            carry_out(operation, list(arguments(arm, operation, topic)))
        except (SerializationError, DeserializationError):
            pass  # the client itself rejects the body
        except HttpResponseError as error:
            at = f"{operation.__qualname__}: {error.status_code} {error}"
            assert error.error and error.error.code in UNDERSTOOD, at


def test_a_failed_handshake_raises_with_its_reason(appliance, arm, receiver, fresh_name):
    name = appliance.create_topic(fresh_name()).name
    receiver.handshake_answer = (403, {}, b"")

    operation = begin(arm, name, "billing", receiver.url)

    with pytest.raises(HttpResponseError) as told:
        operation.result()
    assert told.value.error.code == "Url validation"
    assert "403" in told.value.error.message


def test_a_slow_handshake_is_waited_for(appliance, arm, receiver, fresh_name):
    name = appliance.create_topic(fresh_name()).name
    receiver.handshake_delay_s = 6

    operation = begin(arm, name, "billing", receiver.url)

    assert operation.result().provisioning_state == "Succeeded"
