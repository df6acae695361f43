"""The configuration in files: export, diff, apply, and imports from other products."""

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


def run(appliance, *words, key="s3cret-key"):
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
    (tmp_path / "exported.json").write_text(appliance.command("export", "--format", "json"))
    kept = run(appliance, "apply", tmp_path / "exported.json")
    assert kept.stdout == "no changes\n", kept
    with Appliance(tmp_path / "fresh") as fresh:
        assert run(fresh, "apply", file).returncode == 0
        assert fresh.command("export") == exported


def test_differences_are_shown_and_secrets_are_masked(appliance, file):
    assert run(appliance, "apply", file).returncode == 0
    assert run(appliance, "diff", file).returncode == 0
    file.write_text(DEFINED.replace("maxDeliveryAttempts: 5", "maxDeliveryAttempts: 9"))
    differ = run(appliance, "diff", file, key="s3cret-new")
    assert differ.returncode == 1, differ
    assert "properties.retryPolicy.maxDeliveryAttempts: 5 → 9" in differ.stdout
    assert "deliveryAttributeMappings" in differ.stdout and "s3cret" not in differ.stdout + differ.stderr
    assert run(appliance, "apply", file, "--dry-run", key="s3cret-new").stdout == differ.stdout
    assert run(appliance, "diff", file, key="s3cret-new").returncode == 1


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
    assert "orders" not in appliance.command("export")


def test_the_service_bus_emulator_is_imported(appliance, tmp_path):
    config = tmp_path / "Config.json"
    config.write_text("""{ // as Microsoft has it
      "UserConfig": { "Namespaces": [{ "Name": "sbemulatorns",
        "Queues": [{ "Name": "queue-1", "Properties": { "MaxDeliveryCount": 3, "LockDuration": "PT1M",
          "ForwardTo": "", "RequiresSession": false } }],
        "Topics": [{ "Name": "topic-1", "Properties": { "RequiresDuplicateDetection": false,
            "DuplicateDetectionHistoryTimeWindow": "PT20S" },
          "Subscriptions": [{ "Name": "sub-1", "Properties": { "MaxDeliveryCount": 3 }, "Rules": [
            { "Name": "r", "Properties": { "FilterType": "Correlation",
              "CorrelationFilter": { "ContentType": "application/json", "Properties": { "Prop1": "v" } } } }] }] }] }],
        "Logging": { "Type": "File" } } }""")
    imported = run(appliance, "import", "servicebus-emulator", config)
    assert imported.returncode == 0 and "Logging" in imported.stderr, imported
    exported = appliance.command("export")
    assert "topic-1/sub-1/r" in exported and "Prop1: v" in exported and "queue-1" in exported
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


def test_the_default_time_to_live_in_namespaces_is_exported_as_it_can_be_applied(appliance, file, tmp_path):
    file.write_text(DEFINED.replace(", queue: {eventTimeToLive: P1D}", ""))
    assert run(appliance, "apply", file).returncode == 0
    (tmp_path / "exported.yaml").write_text(appliance.command("export"))
    assert run(appliance, "apply", tmp_path / "exported.yaml").returncode == 0
