"""The configuration in files: export, diff, apply, and imports from other products."""

import json
import subprocess

import pytest

from appliance import BINARY, Appliance, PATIENCE_S, environment

DEFINED = """\
- kind: Topic
  name: orders
  location: local
- kind: EventSubscription
  name: orders/billing
  properties:
    destination:
      endpointType: WebHook
      properties:
        endpointUrl: https://inspector.everpost.internal/bin
        deliveryAttributeMappings:
        - {name: X-Key, type: Static, properties: {isSecret: true, value: {fromEnvironment: BILLING_KEY}}}
    retryPolicy: {maxDeliveryAttempts: 5}
- kind: Namespace
  name: shop
  location: local
- kind: Topic
  name: shop/orders
- kind: EventSubscription
  name: shop/orders/pull
  properties: {deliveryConfiguration: {deliveryMode: Queue, queue: {eventTimeToLive: P1D}}}
- kind: Queue
  name: ahead
  properties: {forwardTo: jobs}
- kind: Queue
  name: jobs
- kind: ServiceBusTopic
  name: news
- kind: ServiceBusSubscription
  name: news/red
- kind: Rule
  name: news/red/only-red
  properties: {sqlFilter: {sqlExpression: "color = 'red'"}}
- kind: AccessRule
  name: jobs/worker
  properties: {rights: [Send, Listen], key1: {fromEnvironment: BILLING_KEY}}
- kind: AccessRule
  name: news/reader
  properties: {rights: [Listen]}
- kind: AccessRule
  name: deploy
  properties: {rights: [Manage]}
- kind: Inspector
  name: bin
  properties: {answers: 503 200}
- kind: AlertRule
  name: quiet
  properties: {type: NoEvents, topic: orders, minutes: 60}
- kind: AlertChannel
  name: chat
  properties: {type: WebHook, endpointUrl: {fromFile: chat.url}}
- kind: User
  name: ann
  properties: {role: admin, password: correct horse battery}
"""


@pytest.fixture
def appliance(tmp_path):
    with Appliance(tmp_path / "data") as appliance:
        yield appliance


@pytest.fixture
def file(tmp_path):
    (tmp_path / "chat.url").write_text("https://chat.example/hook?token=s3cret-chat\n")
    path = tmp_path / "everpost.yaml"
    path.write_text(DEFINED)
    return path


def run(appliance, *words, key="s3cret-key-of-billing"):
    """A command with its exit code."""
    variables = {**environment(), "EVERPOST_MANAGEMENT_TOKEN": appliance.token}
    if key:
        variables["BILLING_KEY"] = key
    words = [BINARY, *words, "--url", appliance.url]
    return subprocess.run(
        [str(word) for word in words], env=variables, capture_output=True, text=True, timeout=PATIENCE_S
    )


def test_what_is_exported_makes_the_same_appliance(appliance, file, tmp_path):
    applied = run(appliance, "apply", file)
    assert applied.returncode == 0, applied
    exported = appliance.command("export")
    assert "s3cret" not in exported + applied.stdout + applied.stderr
    assert "$Default" not in exported and "only-red" in exported
    again = run(appliance, "apply", file)
    assert (again.returncode, again.stdout) == (0, "no changes\n"), again
    # Secrets that are left out stay.
    keys = appliance.manage("POST", "/everpost/accessRules/jobs%2Fworker/listKeys")
    assert keys["key1"] == "s3cret-key-of-billing"
    (tmp_path / "exported.json").write_text(appliance.command("export", "--format", "json"))
    kept = run(appliance, "apply", tmp_path / "exported.json")
    assert kept.stdout == "no changes\n", kept
    assert appliance.manage("POST", "/everpost/accessRules/jobs%2Fworker/listKeys") == keys
    with Appliance(tmp_path / "fresh") as fresh:
        assert run(fresh, "apply", file).returncode == 0
        assert fresh.command("export") == exported


def test_differences_are_shown_and_secrets_are_masked(appliance, file):
    assert run(appliance, "apply", file).returncode == 0
    assert run(appliance, "diff", file).returncode == 0
    file.write_text(DEFINED.replace("maxDeliveryAttempts: 5", "maxDeliveryAttempts: 9"))
    differ = run(appliance, "diff", file, key="s3cret-new-of-billing")
    assert differ.returncode == 1, differ
    assert "properties.retryPolicy.maxDeliveryAttempts: 5 → 9" in differ.stdout
    assert "deliveryAttributeMappings" in differ.stdout and "s3cret" not in differ.stdout + differ.stderr
    assert run(appliance, "apply", file, "--dry-run", key="s3cret-new-of-billing").stdout == differ.stdout
    assert run(appliance, "diff", file, key="s3cret-new-of-billing").returncode == 1


def test_prune_deletes_what_is_not_named(appliance, file):
    assert run(appliance, "apply", file).returncode == 0
    file.write_text("- {kind: Queue, name: jobs}\n")
    asked = run(appliance, "apply", file, "--prune")
    assert asked.returncode == 2 and "--yes" in asked.stderr, asked
    assert run(appliance, "apply", file, "--prune", "--yes").returncode == 0
    # No user is named, so users stay.
    names = [line for line in appliance.command("export").splitlines() if line.lstrip("- ").startswith("name:")]
    assert [line.split()[-1] for line in names] == ["ann", "jobs"]


def test_nothing_is_changed_by_files_with_faults(appliance, file):
    for wrong, expected in [
        ("maxDeliveryAttempts: 99", "everpost.yaml:4: EventSubscription orders/billing: properties.retryPolicy.max"),
        ("maxDeliveryAttempts: {fromEnvironment: NOT_SET}", "NOT_SET is not set"),
        ("maxDeliveryAttempts: [", "at line"),
    ]:
        file.write_text(DEFINED.replace("maxDeliveryAttempts: 5", wrong))
        applied = run(appliance, "apply", file)
        assert applied.returncode == 2 and expected in applied.stderr, applied
    for wrong, expected in [
        ("- {kind: Queue, name: a b}", "a b: name: "),
        ("- {kind: Topic, name: a.b}", "a.b: name: "),
        ("- {kind: AccessRule, name: lost/app, properties: {rights: [Send]}}", "there is no queue lost or Service Bus topic lost"),
        ("- {kind: AccessRule, name: jobs/app, properties: {rights: []}}", "jobs/app: properties.rights"),
        ("- {kind: AccessRule, name: jobs/key1, properties: {rights: [Send]}}", "jobs/key1: name: "),
        ("- {kind: Queue, name: jobs/more}", "jobs/more: name: its path would be above or below that of queue jobs"),
    ]:
        file.write_text(DEFINED + wrong)
        applied = run(appliance, "apply", file)
        assert applied.returncode == 2 and expected in applied.stderr, applied
    assert "orders" not in appliance.command("export")


def test_what_cannot_be_changed_is_told_before_anything_is(appliance, file):
    file.write_text(DEFINED)
    assert run(appliance, "apply", file).returncode == 0
    for name, property in [
        ("name: jobs", "requiresSession"),
        ("name: jobs", "requiresDuplicateDetection"),
        ("name: news/red", "requiresSession"),
        ("name: news", "requiresDuplicateDetection"),
    ]:
        file.write_text(DEFINED.replace(f"{name}\n", f"{name}\n  properties: {{{property}: true}}\n"))
        applied = run(appliance, "apply", file)
        expected = f"properties.{property}: it cannot be changed"
        assert applied.returncode == 2 and expected in applied.stderr, applied


def test_the_service_bus_emulator_is_imported(appliance, tmp_path):
    config = tmp_path / "Config.json"
    config.write_text("""{ // as Microsoft has it
      "UserConfig": { "Namespaces": [{ "Name": "sbemulatorns",
        "Queues": [{ "Name": "queue.1", "Properties": { "MaxDeliveryCount": 3, "LockDuration": "PT1M",
          "ForwardTo": "", "RequiresSession": false } }],
        "Topics": [{ "Name": "topics/topic.1", "Properties": { "RequiresDuplicateDetection": false,
            "DuplicateDetectionHistoryTimeWindow": "PT20S" },
          "Subscriptions": [{ "Name": "sub.1_a", "Properties": { "MaxDeliveryCount": 3 }, "Rules": [
            { "Name": "r", "Properties": { "FilterType": "Correlation",
              "CorrelationFilter": { "ContentType": "application/json", "Properties": { "Prop1": "v" } } } }] }] }] }],
        "Logging": { "Type": "File" } } }""")
    imported = run(appliance, "import", "servicebus-emulator", config)
    assert imported.returncode == 0 and "Logging" in imported.stderr, imported
    exported = appliance.command("export")
    assert "topics/topic.1/sub.1_a/r" in exported and "Prop1: v" in exported and "queue.1" in exported
    assert run(appliance, "import", "servicebus-emulator", config).stdout == "no changes\n"


def test_the_event_grid_simulator_is_imported(appliance, tmp_path):
    settings, output = tmp_path / "appsettings.json", tmp_path / "out.yaml"
    settings.write_text("""{ "topics": [{ "name": "MyTopic", "port": 60101, "key": "TheLocal+DevelopmentKey=",
      "subscribers": [{ "name": "Function", "endpoint": "http://127.0.0.1:7071/hook?functionName=F",
        "disableValidation": true, "filter": { "includedEventTypes": ["my.eventType"], "advancedFilters": [
          { "operatorType": "NumberGreaterThanOrEquals", "key": "Data.Key1", "value": 5 }] } }] }] }""")
    written = run(appliance, "import", "eventgrid-simulator", settings, "--output", output)
    assert written.returncode == 0 and "60101" in written.stderr, written
    assert "MyTopic" not in appliance.command("export")
    assert run(appliance, "apply", output).returncode == 0
    assert "MyTopic/Function" in appliance.command("export")
    assert run(appliance, "import", "eventgrid-simulator", settings).stdout == "no changes\n"


WEBHOOK = {"endpointType": "WebHook", "properties": {"endpointUrl": "[parameters('endpoint')]"}}

TEMPLATE = {
    "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "parameters": {
        "prefix": {"type": "string", "metadata": {"description": "In front of every name"}},
        "location": {"type": "string", "defaultValue": "[resourceGroup().location]"},
        "endpoint": {"type": "secureString"},
        "site": {"type": "string", "defaultValue": "[concat('site', uniqueString(resourceGroup().id))]"},
    },
    "variables": {"topic": "[concat(parameters('prefix'), '-orders')]", "bus": "[format('{0}-bus', parameters('prefix'))]"},
    "resources": [
        {
            "type": "Microsoft.EventGrid/topics",
            "apiVersion": "2022-06-15",
            "name": "[variables('topic')]",
            "location": "[parameters('location')]",
            "tags": {"team": "[toLower('SALES')]"},
            "identity": {"type": "SystemAssigned"},
            "properties": {"inputSchema": "CloudEventSchemaV1_0"},
            "resources": [
                {
                    "type": "providers/eventSubscriptions",
                    "name": "Microsoft.EventGrid/nested",
                    "properties": {"destination": WEBHOOK, "filter": {"includedEventTypes": ["Order.Created"]}},
                }
            ],
        },
        {
            "type": "Microsoft.EventGrid/topics/eventSubscriptions",
            "name": "[concat(variables('topic'), '/child')]",
            "properties": {
                "destination": WEBHOOK,
                "deadLetterWithResourceIdentity": {
                    "identity": {"type": "SystemAssigned"},
                    "deadLetterDestination": {
                        "endpointType": "StorageBlob",
                        "properties": {
                            "resourceId": "[resourceId('Microsoft.Storage/storageAccounts', 'letters')]",
                            "blobContainerName": "dead",
                        },
                    },
                },
            },
        },
        {
            "type": "Microsoft.EventGrid/topics/providers/eventSubscriptions",
            "name": "[concat(variables('topic'), '/Microsoft.EventGrid/', 'extension')]",
            "properties": {"destination": WEBHOOK},
        },
        {
            "type": "Microsoft.EventGrid/eventSubscriptions",
            "scope": "[format('Microsoft.EventGrid/topics/{0}', variables('topic'))]",
            "name": "scoped",
            "properties": {"destination": WEBHOOK},
        },
        {
            "type": "Microsoft.EventGrid/topics/eventSubscriptions",
            "name": "[concat(variables('topic'), '/function')]",
            "properties": {"destination": {"endpointType": "AzureFunction", "properties": {"resourceId": "x"}}},
        },
        {"type": "Microsoft.EventGrid/topics", "name": "[parameters('site')]", "location": "westus2"},
        {
            "type": "Microsoft.EventGrid/topics/eventSubscriptions",
            "name": "[concat(variables('topic'), '/unknown')]",
            "properties": {
                "destination": {
                    "endpointType": "WebHook",
                    "properties": {"endpointUrl": "[reference(resourceId('Microsoft.Web/sites', 'x')).host]"},
                }
            },
        },
        {"type": "Microsoft.EventGrid/systemTopics", "name": "blobs", "properties": {"source": "x"}},
        {"type": "Microsoft.EventGrid/systemTopics/eventSubscriptions", "name": "blobs/s", "properties": {}},
        {"type": "Microsoft.EventGrid/domains", "name": "many", "location": "westus2"},
        {"type": "Microsoft.EventGrid/eventSubscriptions", "name": "of-the-group", "properties": {"destination": WEBHOOK}},
        {"type": "Microsoft.Web/sites", "name": "[parameters('site')]"},
        {"type": "Microsoft.EventGrid/topics", "name": "off", "condition": "[false()]", "location": "westus2"},
        {"type": "Microsoft.EventGrid/topics", "name": "looped", "copy": {"name": "l", "count": 2}},
        {
            "type": "Microsoft.ServiceBus/namespaces",
            "name": "[variables('bus')]",
            "sku": {"name": "Standard"},
            "resources": [
                {
                    "type": "queues",
                    "name": "jobs",
                    "properties": {
                        "lockDuration": "PT1M",
                        "maxSizeInMegabytes": 1024,
                        "requiresSession": False,
                        "autoDeleteOnIdle": "P10675199DT2H48M5.4775807S",
                        "enablePartitioning": False,
                    },
                },
                {
                    "type": "topics",
                    "name": "news",
                    "properties": {"requiresDuplicateDetection": True, "supportOrdering": True},
                    "resources": [
                        {
                            "type": "subscriptions",
                            "name": "red",
                            "properties": {"maxDeliveryCount": 3, "forwardTo": "jobs"},
                            "resources": [
                                {
                                    "type": "rules",
                                    "name": "only-red",
                                    "properties": {
                                        "filterType": "SqlFilter",
                                        "sqlFilter": {"sqlExpression": "color = 'red'", "requiresPreprocessing": False},
                                        "action": {},
                                    },
                                }
                            ],
                        }
                    ],
                },
            ],
        },
        {
            "type": "Microsoft.Resources/deployments",
            "name": "module",
            "properties": {
                "expressionEvaluationOptions": {"scope": "inner"},
                "mode": "Incremental",
                "parameters": {"name": {"value": "[concat(parameters('prefix'), '-shop')]"}},
                "template": {
                    "languageVersion": "2.0",
                    "parameters": {"name": {"type": "string"}},
                    "resources": {
                        "shop": {
                            "type": "Microsoft.EventGrid/namespaces",
                            "name": "[parameters('name')]",
                            "location": "westus2",
                            "sku": {"name": "Standard", "capacity": 2},
                            "properties": {},
                        },
                        "topic": {
                            "type": "Microsoft.EventGrid/namespaces/topics",
                            "name": "[format('{0}/{1}', parameters('name'), 'orders')]",
                            "properties": {"eventRetentionInDays": 1},
                        },
                        "pull": {
                            "type": "Microsoft.EventGrid/namespaces/topics/eventSubscriptions",
                            "name": "[format('{0}/{1}/{2}', parameters('name'), 'orders', 'pull')]",
                            "properties": {"deliveryConfiguration": {"deliveryMode": "Queue", "queue": {}}},
                        },
                    },
                },
            },
        },
    ],
}


def test_an_arm_template_is_imported(appliance, tmp_path):
    template, values = tmp_path / "azuredeploy.json", tmp_path / "values.json"
    template.write_text(json.dumps(TEMPLATE))
    endpoint = "https://inspector.everpost.internal/bin?code=s3cret-code"
    values.write_text(json.dumps({"parameters": {"prefix": {"value": "acme"}, "endpoint": {"value": endpoint}, "typo": {"value": 1}}}))
    imported = run(appliance, "import", "arm", template, "--parameters", values)
    assert imported.returncode == 0 and "s3cret" not in imported.stdout + imported.stderr, imported
    notes = [line.removeprefix("note: ") for line in imported.stderr.splitlines() if line.startswith("note: ")]
    for start in [
        "the template has no parameter typo",
        'event subscription child of topic acme-orders: there are no managed identities',
        'event subscription child of topic acme-orders: dead letters become files',
        'resources[4]: event subscription function of topic acme-orders is left out: there is no destination AzureFunction',
        "resources[5].name: .id is not there, or known to Azure alone; give the parameter site a value with --parameters",
        "resources[6].properties.destination.properties.endpointUrl: reference() is known to Azure alone",
        "resources[7]: Microsoft.EventGrid/systemTopics is left out",
        "resources[8]: Microsoft.EventGrid/systemTopics/eventSubscriptions is left out",
        "resources[9]: Microsoft.EventGrid/domains is left out: there are no domains",
        "resources[10]: Microsoft.EventGrid/eventSubscriptions is left out",
        "resources[11].name: .id is not there",
        "resources[12]: Microsoft.EventGrid/topics is left out, since its condition is false",
        "resources[13].copy: loops are not supported",
        "10 things were left out",
    ]:
        found = [note for note in notes if note.startswith(start)]
        assert len(found) == 1, (start, notes)
        notes.remove(found[0])
    assert notes == []
    exported = {
        f"{each['kind']} {each['name']}": each for each in json.loads(appliance.command("export", "--format", "json"))
    }
    assert sorted(name for name in exported if not name.startswith("AlertRule")) == [
        "EventSubscription acme-orders/child",
        "EventSubscription acme-orders/extension",
        "EventSubscription acme-orders/nested",
        "EventSubscription acme-orders/scoped",
        "EventSubscription acme-shop/orders/pull",
        "Namespace acme-shop",
        "Queue jobs",
        "Rule news/red/only-red",
        "ServiceBusSubscription news/red",
        "ServiceBusTopic news",
        "Topic acme-orders",
        "Topic acme-shop/orders",
    ]
    topic = exported["Topic acme-orders"]
    assert topic["location"] == "local" and topic["tags"] == {"team": "sales"}
    assert topic["properties"]["inputSchema"] == "CloudEventSchemaV1_0"
    nested = exported["EventSubscription acme-orders/nested"]["properties"]
    assert nested["filter"]["includedEventTypes"] == ["Order.Created"]
    child = exported["EventSubscription acme-orders/child"]["properties"]
    assert child["deadLetterDestination"]["properties"]["blobContainerName"] == "dead"
    assert exported["Queue jobs"]["properties"]["lockDuration"] == "PT1M"
    assert exported["ServiceBusSubscription news/red"]["properties"]["forwardTo"] == "jobs"
    assert run(appliance, "import", "arm", template, "--parameters", values).stdout == "no changes\n"


def test_what_an_arm_template_does_not_say_is_left_out(appliance, tmp_path):
    template = tmp_path / "azuredeploy.json"
    template.write_text(json.dumps(TEMPLATE | {"resources": [
        {"type": "Microsoft.EventGrid/topics", "name": "plain", "properties": {"inputSchema": "[parameters('endpoint')]"}},
        {"type": "Microsoft.EventGrid/topics/eventSubscriptions", "name": "plain/s", "properties": {"destination": {
            "endpointType": "WebHook", "properties": {"endpointUrl": "https://example.com"}}}},
        {"type": "Microsoft.ServiceBus/namespaces/queues", "name": "without-namespace"},
    ]}))
    imported = run(appliance, "import", "arm", template)
    assert imported.returncode == 3 and imported.stdout == "", imported
    assert "holds nothing to import; 3 things were left out" in imported.stderr
    assert "resources[0].properties.inputSchema: the parameter endpoint has no value" in imported.stderr
    assert 'event subscription s of topic plain is left out with topic plain' in imported.stderr
    assert "resources[2].name: " in imported.stderr


def test_the_default_time_to_live_in_namespaces_is_exported_as_it_can_be_applied(appliance, file, tmp_path):
    file.write_text(DEFINED.replace(", queue: {eventTimeToLive: P1D}", ""))
    assert run(appliance, "apply", file).returncode == 0
    (tmp_path / "exported.yaml").write_text(appliance.command("export"))
    assert run(appliance, "apply", tmp_path / "exported.yaml").returncode == 0


def subscription_to(endpoint_type, properties, **others):
    return {"destination": {"endpointType": endpoint_type, "properties": properties}} | others


def test_an_arm_template_is_read_as_loosely_as_azure_reads_it(appliance, fresh_name, tmp_path):
    """Numbers as text, any letter case, identities, empty texts, access rules, destinations of Service Bus."""
    name, template = f"eventgridtopic-{fresh_name()}", tmp_path / "azuredeploy.json"
    queue, shop = f"{name}-jobs", f"{name}-shop"
    account = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/sa"
    dead = {"endpointType": "StorageBlob", "properties": {"resourceId": account, "blobContainerName": "dead"}}
    with_identity = {"identity": {"type": "SystemAssigned"}, "deadLetterDestination": dead}
    bus = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ServiceBus/namespaces/ns1"
    hook = {"endpointUrl": "https://inspector.everpost.internal/h", "skipValidation": True}
    topics, subscriptions = "Microsoft.EventGrid/topics", "Microsoft.EventGrid/topics/eventSubscriptions"
    in_namespace = "Microsoft.EventGrid/namespaces/topics/eventSubscriptions"
    service_bus, rules = "Microsoft.ServiceBus/namespaces", "authorizationRules"
    resources = [
        (f"{service_bus}/queues", f"ns1/{queue}", {"maxDeliveryCount": "5", "requiresSession": "TRUE", "maxSizeInMegabytes": "2048",
                                                   "forwardTo": None, "forwardDeadLetteredMessagesTo": "", "lockDuration": None}),
        (f"{service_bus}/topics", f"ns1/{name}-news", {}),
        (topics, name, {}),
        (subscriptions, f"{name}/eventgridsubscription-1", subscription_to("webhook", hook)),
        (subscriptions, f"{name}/to-queue", subscription_to("ServiceBusQueue", {"resourceId": f"{bus}/queues/{queue}"})),
        (subscriptions, f"{name}/to-topic", subscription_to("ServiceBusTopic", {
            "resourceId": f"[resourceId('Microsoft.ServiceBus/namespaces/topics', 'ns1', '{name}-news')]"})),
        ("Microsoft.EventGrid/namespaces", shop, {}),
        ("Microsoft.EventGrid/namespaces/topics", f"{shop}/orders", {}),
        (in_namespace, f"{shop}/orders/pulled", {"deliveryConfiguration": {"deliveryMode": "Queue", "queue": {
            "maxDeliveryCount": 4, "deadLetterDestinationWithResourceIdentity": with_identity}}}),
        (in_namespace, f"{shop}/orders/pushed", {"deliveryConfiguration": {"deliveryMode": "Push", "push": subscription_to(
            "WebHook", hook, deadLetterDestinationWithResourceIdentity=with_identity)}}),
        (f"{service_bus}/AuthorizationRules", f"ns1/{name}", {"rights": ["Listen", "Send"]}),
        (f"{service_bus}/queues/{rules}", f"ns1/{queue}/worker", {"rights": ["Listen"]}),
        (f"{service_bus}/topics/{rules}", f"ns1/{name}-news/pub", {"rights": ["Send"]}),
        (f"{service_bus}/AuthorizationRules", "ns1/RootManageSharedAccessKey", {"rights": ["Listen", "Send", "Manage"]}),
    ]
    resources = [{"type": kind, "name": path, "apiVersion": "2022-10-01-preview", "location": "westeurope", "properties": given}
                 for kind, path, given in resources]
    template.write_text(json.dumps({"contentVersion": "1.0.0.0", "resources": resources}))
    imported = run(appliance, "import", "arm", template, "--strict")
    assert imported.returncode == 0, imported
    assert imported.stderr.count("there are no managed identities; deadLetterDestination is used without") == 2, imported.stderr
    assert "RootManageSharedAccessKey is there already" in imported.stderr
    exported = {
        f"{each['kind']} {each['name']}": each.get("properties", {})
        for each in json.loads(appliance.command("export", "--format", "json"))
    }
    read = exported[f"Queue {queue}"]
    assert (read["maxDeliveryCount"], read["requiresSession"], read["maxSizeInMegabytes"]) == (5, True, 2_048)
    assert not read.get("forwardTo") and not read.get("forwardDeadLetteredMessagesTo")
    kinds = {path: exported[f"EventSubscription {name}/{path}"]["destination"]["endpointType"]
             for path in ["eventgridsubscription-1", "to-queue", "to-topic"]}
    assert kinds == {"eventgridsubscription-1": "WebHook", "to-queue": "ServiceBusQueue", "to-topic": "ServiceBusTopic"}
    for path, mode in [("pulled", "queue"), ("pushed", "push")]:
        configuration = exported[f"EventSubscription {shop}/orders/{path}"]["deliveryConfiguration"][mode]
        kept = configuration["deadLetterDestinationWithResourceIdentity"]["deadLetterDestination"]
        assert kept["properties"]["blobContainerName"] == "dead"
    for path, rights in [(name, ["Listen", "Send"]), (f"{queue}/worker", ["Listen"]), (f"{name}-news/pub", ["Send"])]:
        assert sorted(exported[f"AccessRule {path}"]["rights"]) == rights
    assert run(appliance, "import", "arm", template).stdout == "no changes\n"


def test_an_arm_template_that_azure_would_reject_is_an_error_with_its_path(appliance, tmp_path):
    template = tmp_path / "azuredeploy.json"
    hook = subscription_to("WebHook", {"endpointUrl": "https://inspector.everpost.internal/h"}, deliveryWithResourceIdentity="")
    template.write_text(json.dumps({"contentVersion": "1.0.0.0", "resources": [
        {"type": "Microsoft.EventGrid/topics", "name": "never-made", "location": "l", "properties": {}},
        {"type": "Microsoft.EventGrid/topics/eventSubscriptions", "name": "never-made/s", "properties": hook}]}))
    imported = run(appliance, "import", "arm", template)
    assert imported.returncode == 2 and "resources[1].properties.deliveryWithResourceIdentity: it must be an object" in imported.stderr
    assert "panicked" not in imported.stderr and "never-made" not in appliance.command("export", "--format", "json")
