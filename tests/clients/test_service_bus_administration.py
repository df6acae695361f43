"""Queues, topics, subscriptions and rules as the stock administration client for Python manages them, over TLS."""

import contextlib
import datetime
import uuid
from xml.etree import ElementTree

import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
)
from azure.servicebus.management import (
    AccessRights,
    ApiVersion,
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from appliance import PATIENCE_S, Appliance
from queues import token

# The last one is what the client makes of a rejected token over TLS.
REJECTED = (ServiceBusAuthenticationError, ServiceBusAuthorizationError, ServiceBusConnectionError)

MINUTES_5 = datetime.timedelta(minutes=5)


@pytest.fixture(scope="module")
def shared_appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("administration") / "data", "--tls-dev") as appliance:
        yield appliance


@pytest.fixture
def own_appliance(tmp_path):
    with Appliance(tmp_path / "data", "--tls-dev") as appliance:
        yield appliance


@pytest.fixture(autouse=True)
def trusting(monkeypatch, appliance):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(appliance.authority))


@pytest.fixture
def connection_string(appliance):
    host = appliance.url.removeprefix("https://")
    return f"Endpoint=sb://{host};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={appliance.token}"


@pytest.fixture
def admin(connection_string):
    with ServiceBusAdministrationClient.from_connection_string(connection_string) as admin:
        yield admin


@pytest.fixture
def bus(appliance, connection_string):
    host = appliance.url.removeprefix("https://")
    with ServiceBusClient.from_connection_string(
        connection_string,
        custom_endpoint_address=f"sb://{host}",
        connection_verify=str(appliance.authority),
        retry_total=0,
    ) as bus:
        yield bus


@pytest.fixture
def name():
    return f"n-{uuid.uuid4()}"


def test_names_have_dots_underscores_and_slashes(admin, bus, name):
    queue, topic = f"A.b_c/.{name}", f"Contracts.v1/{name}/Placed_2"
    admin.create_queue(queue)
    admin.create_topic(topic)
    admin.create_subscription(topic, "Mail.Sender_1")
    admin.create_rule(topic, "Mail.Sender_1", "Large.Only_1", filter=SqlRuleFilter("total > 1"))
    runtime = admin.get_topic_runtime_properties(topic)
    assert (runtime.sql_filter_count, runtime.correlation_filter_count) == (2, 0)
    assert admin.get_queue(queue).name == queue
    assert topic in [each.name for each in admin.list_topics()]
    assert [each.name for each in admin.list_subscriptions(topic)] == ["Mail.Sender_1"]
    rules = [each.name for each in admin.list_rules(topic, "Mail.Sender_1")]
    assert sorted(rules) == ["$Default", "Large.Only_1"]
    with bus.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage("hello"))
    assert admin.get_subscription_runtime_properties(topic, "Mail.Sender_1").active_message_count == 1
    admin.delete_rule(topic, "Mail.Sender_1", "Large.Only_1")
    admin.delete_subscription(topic, "Mail.Sender_1")
    admin.delete_topic(topic)
    admin.delete_queue(queue)
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(queue)


def test_a_topic_keeps_the_window_of_duplicate_detection(admin, name):
    window = datetime.timedelta(minutes=12)
    admin.create_topic(name, duplicate_detection_history_time_window=window)
    assert admin.get_topic(name).duplicate_detection_history_time_window == window


def test_a_queue_is_created_read_changed_listed_and_deleted(admin, name):
    made = admin.create_queue(
        name,
        lock_duration=datetime.timedelta(seconds=30),
        max_delivery_count=3,
        default_message_time_to_live=datetime.timedelta(days=1),
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=MINUTES_5,
        user_metadata="for <the> \"night\" & day",
        max_size_in_megabytes=2048,
    )
    found = admin.get_queue(name)
    for each in (made, found):
        assert each.name == name
        assert each.lock_duration == datetime.timedelta(seconds=30)
        assert each.max_delivery_count == 3
        assert each.default_message_time_to_live == datetime.timedelta(days=1)
        assert each.dead_lettering_on_message_expiration is True
        assert each.requires_duplicate_detection is True
        assert each.duplicate_detection_history_time_window == MINUTES_5
        assert each.requires_session is False
        assert each.user_metadata == "for <the> \"night\" & day"
        assert each.max_size_in_megabytes == 2048
        assert each.status == "Active" and each.availability_status == "Available"

    found.max_delivery_count = 7
    found.user_metadata = None
    admin.update_queue(found)
    assert admin.get_queue(name).max_delivery_count == 7
    assert admin.get_queue(name).user_metadata is None
    admin.update_queue(admin.get_queue(name), lock_duration="PT1M")
    assert admin.get_queue(name).lock_duration == datetime.timedelta(minutes=1)

    assert name in [each.name for each in admin.list_queues()]
    admin.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue(name)
    assert name not in [each.name for each in admin.list_queues()]


def test_sizes_are_told(admin, bus, name):
    admin.create_queue(name)
    with bus.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("x" * 10_000))
    assert admin.get_queue(name).max_size_in_megabytes == 1024
    assert 10_000 < admin.get_queue_runtime_properties(name).size_in_bytes < 10_500
    topic = f"t-{name}"
    admin.create_topic(topic, max_size_in_megabytes=5120)
    assert admin.get_topic(topic).max_size_in_megabytes == 5120
    assert admin.get_topic_runtime_properties(topic).size_in_bytes == 0
    partitioned = admin.create_topic(f"p-{name}", enable_partitioning=True, support_ordering=True)
    assert (partitioned.max_size_in_megabytes, partitioned.support_ordering) == (16_384, True)
    assert admin.get_queue(name).max_message_size_in_kilobytes == 1024
    for size in (1023, 102_401):
        problem = "value for 'MaxMessageSizeInKilobytes' must be between 1024 and 102400"
        with pytest.raises(HttpResponseError, match=problem):
            admin.create_queue(f"{name}-large", max_message_size_in_kilobytes=size)


def test_an_older_version_has_no_size_of_messages(connection_string, name):
    version = ApiVersion.V2017_04
    with ServiceBusAdministrationClient.from_connection_string(connection_string, api_version=version) as older:
        for create, get in ((older.create_queue, older.get_queue), (older.create_topic, older.get_topic)):
            own = f"{name}-{create.__name__}"
            create(own)
            assert get(own).max_message_size_in_kilobytes is None
            with pytest.raises(HttpResponseError, match="'MaxMessageSizeInKilobytes' needs the api-version 2021-05"):
                create(f"{own}-large", max_message_size_in_kilobytes=1024)


def test_a_topic_keeps_what_is_said_of_its_order(admin, name):
    made = admin.create_topic(name)
    assert made.support_ordering
    admin.update_topic(made, support_ordering=False)
    assert not admin.get_topic(name).support_ordering


def test_all_defaults_make_the_round(admin, name):
    admin.create_queue(name)
    admin.update_queue(admin.get_queue(name))
    admin.create_topic(name + "t")
    admin.update_topic(admin.get_topic(name + "t"))
    admin.create_subscription(name + "t", "all")
    admin.update_subscription(name + "t", admin.get_subscription(name + "t", "all"))
    rule = admin.get_rule(name + "t", "all", "$Default")
    assert isinstance(rule.filter, TrueRuleFilter) and rule.action is None
    admin.update_rule(name + "t", "all", rule)


def test_counts_say_what_lies_where(admin, bus, name):
    admin.create_queue(name)
    with bus.get_queue_sender(name) as sender:
        sender.send_messages([ServiceBusMessage(each) for each in "abc"])
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        sender.schedule_messages(ServiceBusMessage("later"), later)
    with bus.get_queue_receiver(name, max_wait_time=5) as receiver:
        receiver.dead_letter_message(receiver.receive_messages()[0], reason="odd")
    counts = admin.get_queue_runtime_properties(name)
    assert (counts.active_message_count, counts.scheduled_message_count) == (2, 1)
    assert (counts.dead_letter_message_count, counts.total_message_count) == (1, 4)
    assert (counts.transfer_message_count, counts.transfer_dead_letter_message_count) == (0, 0)
    now = datetime.datetime.now(datetime.timezone.utc)
    assert abs(now - counts.created_at_utc) < datetime.timedelta(minutes=5)
    assert counts.updated_at_utc >= counts.created_at_utc
    listed = {each.name: each for each in admin.list_queues_runtime_properties()}
    assert listed[name].active_message_count == 2


def test_a_status_closes_one_side_or_both(admin, bus, name):
    admin.create_queue(name)

    def set_status(status):
        found = admin.get_queue(name)
        found.status = status
        admin.update_queue(found)
        assert admin.get_queue(name).status == status

    def send():
        with bus.get_queue_sender(name) as sender:
            sender.send_messages(ServiceBusMessage("a"))

    def receive():
        with bus.get_queue_receiver(name, max_wait_time=5) as receiver:
            [message] = receiver.receive_messages()
            receiver.complete_message(message)

    for status, sends, receives in [
        ("SendDisabled", False, True),
        ("ReceiveDisabled", True, False),
        ("Disabled", False, False),
        ("Active", True, True),
    ]:
        send()
        set_status(status)
        for use, works in ((send, sends), (receive, receives)):
            if works:
                use()
            else:
                with pytest.raises(MessagingEntityDisabledError):
                    use()
        set_status("Active")
        with bus.get_queue_receiver(name, receive_mode="receiveanddelete", max_wait_time=1) as receiver:
            list(receiver)
    admin.create_topic(name + "t")
    topic = admin.get_topic(name + "t")
    topic.status = "Disabled"
    admin.update_topic(topic)
    with pytest.raises(MessagingEntityDisabledError):
        with bus.get_topic_sender(name + "t") as sender:
            sender.send_messages(ServiceBusMessage("a"))
    with pytest.raises(HttpResponseError, match="Status: .*SendDisabled"):
        topic.status = "Asleep"
        admin.update_topic(topic)


def test_a_topic_with_subscriptions(admin, bus, name):
    topic = admin.create_topic(name, default_message_time_to_live="PT1H")
    assert topic.default_message_time_to_live == datetime.timedelta(hours=1)
    admin.create_subscription(name, "first", max_delivery_count=2, requires_session=False)
    admin.create_subscription(name, "second", lock_duration="PT30S")
    assert admin.get_topic_runtime_properties(name).subscription_count == 2
    assert [each.name for each in admin.list_subscriptions(name)] == ["first", "second"]
    with bus.get_topic_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("a"))
    counts = admin.get_subscription_runtime_properties(name, "first")
    assert (counts.active_message_count, counts.total_message_count) == (1, 1)

    changed = admin.get_subscription(name, "first")
    assert changed.max_delivery_count == 2
    changed.max_delivery_count = 9
    admin.update_subscription(name, changed)
    assert admin.get_subscription(name, "first").max_delivery_count == 9
    admin.delete_subscription(name, "first")
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription(name, "first")
    assert name in [each.name for each in admin.list_topics()]
    admin.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        admin.get_topic(name)


def test_rules_keep_their_filters_actions_and_types(admin, name):
    admin.create_topic(name)
    admin.create_subscription(name, "some")
    sql = SqlRuleFilter("total > @least AND color = @color", parameters={"@least": 7, "@color": "red"})
    action = SqlRuleAction("SET size = @size", parameters={"@size": 2.5})
    admin.create_rule(name, "some", "large", filter=sql, action=action)
    when = datetime.datetime(2026, 11, 26, 10, 0, tzinfo=datetime.timezone.utc)
    properties = {"n": 7, "far": 2**40, "half": 0.5, "yes": True, "text": "x & y", "at": when}
    properties |= {"wall": datetime.datetime(2026, 11, 26, 10, 0), "long": datetime.timedelta(days=1, minutes=3)}
    correlation = CorrelationRuleFilter(label="paid", session_id="s", properties=properties)
    admin.create_rule(name, "some", "paid", filter=correlation)
    admin.create_rule(name, "some", "none", filter=FalseRuleFilter())
    admin.create_rule(name, "some", "all", filter=TrueRuleFilter())

    large = admin.get_rule(name, "some", "large")
    assert large.filter.sql_expression == "total > @least AND color = @color"
    assert large.filter.parameters == {"@least": 7, "@color": "red"}
    assert large.action.sql_expression == "SET size = @size"
    assert large.action.parameters == {"@size": 2.5}
    paid = admin.get_rule(name, "some", "paid").filter
    assert (paid.label, paid.session_id, paid.message_id) == ("paid", "s", None)
    assert paid.properties == properties
    rules = {each.name: each for each in admin.list_rules(name, "some")}
    assert set(rules) == {"$Default", "large", "paid", "none", "all"}
    assert isinstance(rules["none"].filter, FalseRuleFilter)
    assert isinstance(rules["all"].filter, TrueRuleFilter)

    rules["all"].filter = SqlRuleFilter("1=0")
    admin.update_rule(name, "some", rules["all"])
    assert admin.get_rule(name, "some", "all").filter.sql_expression == "1=0"
    admin.delete_rule(name, "some", "all")
    with pytest.raises(ResourceNotFoundError):
        admin.get_rule(name, "some", "all")
    with pytest.raises(HttpResponseError, match="SqlFilter.SqlExpression: column 5"):
        admin.create_rule(name, "some", "bad", filter=SqlRuleFilter("a = "))


def test_rules_that_were_made_here_choose_messages(admin, bus, name):
    admin.create_topic(name)
    admin.create_subscription(name, "large")
    sql = SqlRuleFilter("total > @least", parameters={"@least": 100})
    admin.create_rule(name, "large", "large", filter=sql, action=SqlRuleAction("SET size = 'L'"))
    admin.delete_rule(name, "large", "$Default")
    with bus.get_topic_sender(name) as sender:
        for total in (7, 700):
            sender.send_messages(ServiceBusMessage(str(total), application_properties={"total": total}))
    with bus.get_subscription_receiver(name, "large", max_wait_time=5) as receiver:
        [message] = receiver.receive_messages(max_message_count=5)
        assert str(message) == "700" and message.application_properties[b"size"] == b"L"
        receiver.complete_message(message)


def test_forwarding_names_its_target_by_url(appliance, admin, bus, name):
    host = appliance.url.removeprefix("https://")
    for each in ("end", "dead"):
        admin.create_queue(name + each)
    made = admin.create_queue(name, forward_to=name + "end", forward_dead_lettered_messages_to=name + "dead")
    assert made.forward_to == f"sb://{host}/{name}end"
    assert admin.get_queue(name).forward_dead_lettered_messages_to == f"sb://{host}/{name}dead"
    admin.update_queue(admin.get_queue(name))
    with bus.get_queue_sender(name) as sender:
        sender.send_messages(ServiceBusMessage("a"))
    with bus.get_queue_receiver(name + "end", max_wait_time=5) as receiver:
        [message] = receiver.receive_messages()
        assert str(message) == "a"
    with pytest.raises(HttpResponseError, match="nowhere is no queue or Service Bus topic") as rejected:
        admin.create_queue(name + "x", forward_to="nowhere")
    assert rejected.value.status_code == 400


def test_lists_come_in_pages(admin, name):
    names = [f"{name}-{number:03}" for number in range(5)]
    for each in names:
        admin.create_queue(each)
    every = [each.name for each in admin.list_queues()]
    paged = [each.name for each in admin.list_queues(max_page_size=2)]
    first = [each.name for each in next(admin.list_queues(max_page_size=2).by_page())]
    assert paged == every and set(names) <= set(every)
    assert first == every[:2]
    behind = [each.name for each in admin.list_queues(start_index=3)]
    assert behind == every[3:]


def test_errors_have_the_status_and_the_reason(admin, name):
    admin.create_queue(name)
    admin.create_topic(name + "t")
    admin.create_subscription(name + "t", "one")
    for again in (
        lambda: admin.create_queue(name),
        lambda: admin.create_topic(name),
        lambda: admin.create_subscription(name + "t", "one"),
        lambda: admin.create_rule(name + "t", "one", "$Default"),
    ):
        with pytest.raises(ResourceExistsError):
            again()
    missing = admin.get_queue(name)
    missing.name = "missing"
    for gone in (
        lambda: admin.delete_queue("missing"),
        lambda: admin.update_queue(missing),
        lambda: admin.get_subscription(name + "t", "two"),
        lambda: admin.create_subscription("missing", "one"),
    ):
        with pytest.raises(ResourceNotFoundError):
            gone()
    with pytest.raises(HttpResponseError, match="SubCode=40000. LockDuration: .*PT5S") as rejected:
        admin.create_queue(name + "x", lock_duration="PT1S")
    assert rejected.value.status_code == 400
    fixed = admin.get_queue(name)
    fixed.requires_session = True
    with pytest.raises(HttpResponseError, match="RequiresSession .* cannot be changed"):
        admin.update_queue(fixed)
    with pytest.raises(HttpResponseError, match="not a valid name"):
        admin.create_queue("a b")


def test_the_namespace_has_properties(admin):
    properties = admin.get_namespace_properties()
    assert properties.name and properties.messaging_sku == "Premium"
    assert properties.namespace_type == "Messaging"
    assert properties.created_at_utc <= datetime.datetime.now(datetime.timezone.utc)


def rule(name, *rights, **keys):
    return AuthorizationRule(type="SharedAccessAuthorizationRule", key_name=name, rights=list(rights), **keys)


@contextlib.contextmanager
def as_rule(appliance, rule, key):
    """A client that has a key of an access rule."""
    host = appliance.url.removeprefix("https://")
    connection = f"Endpoint=sb://{host};SharedAccessKeyName={rule};SharedAccessKey={key}"
    options = {"connection_verify": str(appliance.authority), "retry_total": 0}
    with ServiceBusClient.from_connection_string(
        connection, custom_endpoint_address=f"sb://{host}", **options
    ) as client:
        yield client


def send_as(appliance, rule, key, queue):
    with as_rule(appliance, rule, key) as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("hello"))


def receive_as(appliance, rule, key, queue):
    with as_rule(appliance, rule, key) as client, client.get_queue_receiver(queue, max_wait_time=5) as receiver:
        [message] = receiver.receive_messages()
        receiver.complete_message(message)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_access_rules_make_the_round(appliance, admin, name, kind):
    create, get, update = (getattr(admin, f"{verb}_{kind}") for verb in ("create", "get", "update"))
    key = "k" * 44
    rules = [rule("send.only", AccessRights.SEND, primary_key=key), rule("all", AccessRights.MANAGE)]
    created = create(name, authorization_rules=rules)
    found = get(name)
    for each in (created, found):
        own = {each.key_name: sorted(each.rights) for each in each.authorization_rules}
        assert own == {"all": ["Listen", "Manage", "Send"], "send.only": ["Send"]}
        assert not any(each.primary_key for each in each.authorization_rules), "keys are shown on demand alone"
    path = f"/everpost/accessRules/{name}%2Fsend.only"
    keys = appliance.manage("POST", f"{path}/listKeys")
    assert keys["key1"] == key
    # What was read is written back: keys stay, rights change, and what is left out goes.
    found.authorization_rules = [rule("send.only", AccessRights.SEND, AccessRights.LISTEN)]
    update(found)
    [left] = get(name).authorization_rules
    assert sorted(left.rights) == ["Listen", "Send"]
    assert appliance.manage("POST", f"{path}/listKeys") == keys
    update(get(name))
    assert appliance.manage("POST", f"{path}/listKeys") == keys
    other = f"/everpost/accessRules/{name.upper()}%2Fother"
    assert appliance.manage("PUT", other, {"rights": ["Send"]}, status=201)["name"] == f"{name}/other"
    with pytest.raises(HttpResponseError, match="AuthorizationRules.Rights") as rejected:
        create(name + "x", authorization_rules=[rule("none")])
    assert rejected.value.status_code == 400
    with pytest.raises(HttpResponseError, match="key1 is there already"):
        create(name + "x", authorization_rules=[rule("key1", AccessRights.SEND)])
    many = [rule(f"r{number}", AccessRights.SEND) for number in range(13)]
    with pytest.raises(HttpResponseError, match="up to 12 access rules"):
        create(name + "x", authorization_rules=many)
    with pytest.raises(ResourceNotFoundError):
        get(name + "x")


@pytest.mark.guesses
def test_rules_open_what_they_say_and_no_more(appliance, admin, name):
    rules = [rule("s", AccessRights.SEND), rule("l", AccessRights.LISTEN), rule("m", AccessRights.MANAGE)]
    admin.create_queue(name, authorization_rules=rules)
    admin.create_queue(name + "2")
    keys = {each: appliance.manage("POST", f"/everpost/accessRules/{name}%2F{each}/listKeys") for each in "slm"}
    for each in ("key1", "key2"):
        send_as(appliance, "s", keys["s"][each], name)
    receive_as(appliance, "l", keys["l"]["key2"], name)
    receive_as(appliance, "m", keys["m"]["key1"], name)
    for rejected in [
        lambda: send_as(appliance, "l", keys["l"]["key1"], name),
        lambda: receive_as(appliance, "s", keys["s"]["key1"], name),
        lambda: send_as(appliance, "s", keys["l"]["key1"], name),
        lambda: send_as(appliance, "s", keys["s"]["key1"], name + "2"),
    ]:
        with pytest.raises(REJECTED):
            rejected()
    # For all queues and topics, unless one has a rule of that name.
    for everywhere in (f"{name}-all", "s"):
        appliance.manage("PUT", f"/everpost/accessRules/{everywhere}", {"rights": ["Send"]})
        key = appliance.manage("POST", f"/everpost/accessRules/{everywhere}/listKeys")["key1"]
        send_as(appliance, everywhere, key, name + "2")
    with pytest.raises(REJECTED):
        send_as(appliance, "s", key, name)
    # A key that is regenerated, and a rule that is deleted, open nothing any more.
    appliance.manage("POST", f"/everpost/accessRules/{name}%2Fs/regenerateKey", {"keyName": "key1"})
    appliance.manage("DELETE", f"/everpost/accessRules/{name}%2Fl")
    for rule_, key in [("s", keys["s"]["key1"]), ("l", keys["l"]["key1"])]:
        with pytest.raises(REJECTED):
            send_as(appliance, rule_, key, name)
    send_as(appliance, "s", keys["s"]["key2"], name)
    counts = [appliance.manage("GET", f"/queues/{each}")["properties"]["messageCount"] for each in (name, name + "2")]
    assert counts == [1, 2], "what was allowed, and no more"
    appliance.manage("DELETE", "/everpost/accessRules/s")


def test_who_manages_one_entity_forwards_to_no_other(appliance, admin, name):
    admin.create_queue(name, authorization_rules=[rule("m", AccessRights.MANAGE)])
    admin.create_queue(name + "2")
    key = appliance.manage("POST", f"/everpost/accessRules/{name}%2Fm/listKeys")["key1"]
    own = token(f"{appliance.url}/{name}", key, rule="m")
    assert ask(appliance, "GET", f"/{name}", own).status_code == 200
    assert ask(appliance, "GET", f"/{name}2", own).status_code == 401
    body = (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription '
        'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect">'
        f"<ForwardTo>{name}2</ForwardTo></QueueDescription></content></entry>"
    )
    other = token(f"{appliance.url}/{name}2", appliance.token)
    for supplement, status in [(None, 401), (own, 401), (other, 200)]:
        answer = requests.put(
            f"{appliance.url}/{name}?api-version=2021-05",
            data=body,
            headers={
                "Authorization": own,
                "If-Match": "*",
                **({"ServiceBusSupplementaryAuthorization": supplement} if supplement else {}),
            },
            timeout=PATIENCE_S,
        )
        assert answer.status_code == status, answer.text
    entries = appliance.manage("GET", "/everpost/audit")["value"]
    assert entries[0]["actor"] == f"{name}/m" and entries[0]["actorKind"] == "AccessRule"


def ask(appliance, method, path, authorization=None, body=None):
    headers = {"Authorization": authorization} if authorization else {}
    url = f"{appliance.url}{path}?api-version=2021-05"
    return requests.request(method, url, data=body, headers=headers, timeout=PATIENCE_S)


@pytest.mark.guesses
def test_only_who_may_manage_is_heard(appliance, admin, name):
    admin.create_queue(name)
    keys = appliance.manage("POST", f"/topics/{name}/listKeys")
    wrong = token(appliance.url, "wrong")
    of_queue = token(f"{appliance.url}/{name}", keys["key1"], rule="key1")
    elsewhere = token(f"{appliance.url}/other", appliance.token)
    lacking = {
        "GET": "Manage,EntityRead claims required for this operation.",
        "PUT": "Authorization failed for specified action: Manage,EntityWrite.",
        "DELETE": "Authorization failed for specified action: Manage,EntityDelete.",
    }
    for authorization, begins in (
        (None, "SubCode=40100. "),
        (wrong, "SubCode=40103: InvalidSignature: The token has an invalid signature."),
        (of_queue, None),
        (elsewhere, None),
        ("Bearer wrong", "SubCode=40100. "),
    ):
        for method, words in lacking.items():
            answer = ask(appliance, method, f"/{name}", authorization)
            assert answer.status_code == 401, authorization
            error = ElementTree.fromstring(answer.text)
            assert error.find("Code").text == "401"
            assert error.find("Detail").text.startswith(begins or words)
    viewer = appliance.manage("POST", "/everpost/tokens", {"name": name, "role": "viewer"})["token"]
    assert ask(appliance, "GET", f"/{name}", f"Bearer {viewer}").status_code == 403
    assert ask(appliance, "GET", f"/{name}", f"Bearer {appliance.token}").status_code == 200
    narrow = token(f"{appliance.url}/{name}", appliance.token)
    assert ask(appliance, "GET", f"/{name}", narrow).status_code == 200


@pytest.mark.parametrize(
    "body, problem",
    [
        ("", "it has no element"),
        ("<entry", "no XML"),
        ("<entry><content/></entry>", "must be an Atom entry"),
        ("<entry><content><Odd/></content></entry>", "must be an Atom entry"),
        ("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>", "document type"),
        ("<a>" * 1000, "deep"),
        ("<entry><content><RuleDescription/></content></entry>", "is not described by a RuleDescription"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_bodies_that_describe_nothing_are_rejected(appliance, name, body, problem):
    authorization = f"Bearer {appliance.token}"
    answer = ask(appliance, "PUT", f"/{name}", authorization, body)
    assert answer.status_code == 400 and problem in answer.text, answer.text
    assert answer.headers["Content-Type"].startswith("application/xml")
    assert ask(appliance, "PUT", f"/{name}", authorization, b"x" * 262_145).status_code == 413
    assert ask(appliance, "GET", "/a/b/c/d/e/f", authorization).status_code == 404
