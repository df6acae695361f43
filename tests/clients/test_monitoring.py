"""The Grafana dashboard and the Prometheus alerts, asked of a Prometheus that scrapes an appliance."""

import json
import re
import subprocess

import pytest
import requests

from appliance import PATIENCE_S, REPOSITORY, Appliance, eventually
from debian import program
from events import EVENT
from receiver import Receiver
from test_documents import free_port

RULES = REPOSITORY / "packaging/prometheus/everpost.rules.yml"
DASHBOARD = json.loads((REPOSITORY / "packaging/grafana/everpost.json").read_text())
NAME = re.compile(r"\beverpost_\w+")

VARIABLES = {"$instance": ".*", "$topic": ".*", "$subscription": ".*", "$__rate_interval": "1m"}


def panels():
    return [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]


def filled(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


class Prometheus:
    """One that scrapes `appliance` each second and knows the alerts."""

    def __init__(self, folder, appliance):
        self.url = f"http://127.0.0.1:{free_port()}"
        scrape = {
            "job_name": "everpost",
            "authorization": {"credentials_file": str(appliance.data_dir / "management.token")},
            "static_configs": [{"targets": [appliance.url.removeprefix("http://")]}],
        }
        settings = {"global": {"scrape_interval": "1s"}, "rule_files": [str(RULES)], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(
            [
                program("prometheus", "prometheus"),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def __enter__(self):
        eventually(self.answers, "Prometheus is ready")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()

    def answers(self):
        assert self.process.poll() is None, "Prometheus has ended"
        try:
            return requests.get(f"{self.url}/-/ready", timeout=PATIENCE_S).ok
        except requests.ConnectionError:
            return False

    def ask(self, path, **parameters):
        answer = requests.get(f"{self.url}/api/v1/{path}", parameters, timeout=PATIENCE_S).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]


def publish(topic, *events, key=None):
    headers = {"aeg-sas-key": key or topic.key1}
    return requests.post(topic.endpoint, json=list(events), headers=headers, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """After something of everything has happened at the appliance."""
    program("prometheus", "prometheus")
    folder = tmp_path_factory.mktemp("monitoring")
    with Appliance(folder / "appliance") as appliance, Receiver() as good, Receiver() as bad:
        topic = appliance.create_topic("orders")
        bad.script(*[400] * 9)
        appliance.subscribe(topic, "good", good.url)
        appliance.subscribe(topic, "bad", bad.url)
        appliance.subscribe(topic, "careless", bad.url, deadLetterDestination={"endpointType": "Drop"})
        assert publish(topic, EVENT).ok and publish(topic, {}).status_code == 400
        assert publish(appliance.create_topic("unheard"), EVENT).ok
        eventually(lambda: len(appliance.dead_letters(topic)) == 1 and len(bad.deliveries) == 2, "dead letters")
        with Prometheus(folder, appliance) as prometheus:
            yield prometheus


def test_every_panel_shows_something(prometheus):
    # What rates need: two scrapes.
    eventually(lambda: prometheus.query("count_over_time(everpost_topics[1m]) > 1"), "scrapes")
    for title, expression in panels():
        assert prometheus.query(filled(expression)), f"{title}: {expression}"


def test_the_variables_of_the_dashboard_have_values(prometheus):
    queries = [each["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    for query in queries:
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        eventually(lambda: prometheus.ask(f"label/{label}/values", **{"match[]": filled(selector)}), query)


def test_every_metric_of_the_alerts_exists(prometheus):
    eventually(lambda: prometheus.query('up{job="everpost"} == 1'), "a scrape")
    existing = set(prometheus.ask("label/__name__/values"))
    named = set(NAME.findall(RULES.read_text()))
    assert named and named <= existing, named - existing


def test_the_alerts_are_loaded_and_new_dead_letters_raise_one(prometheus):
    [group] = prometheus.ask("rules")["groups"]
    assert len(group["rules"]) == RULES.read_text().count("- alert:")
    assert {rule["lastError"] for rule in group["rules"] if "lastError" in rule} == set()
    [expression] = [rule["query"] for rule in group["rules"] if rule["name"] == "EverpostDeadLetters"]
    [found] = eventually(lambda: prometheus.query(expression), "dead letters")
    assert (found["metric"]["topic"], found["metric"]["subscription"]) == ("orders", "bad")


ONE = 'instance="one"'
TOPIC = f'{ONE}, topic="orders"'
OF = f'{TOPIC}, subscription="bad"'

# Each alert: a series and its values, one a minute; a minute without the alert, and one with it.
RAISED = {
    "EverpostDown": (f'up{{{ONE}, job="everpost"}}', "1 1 0x10", 2, 5),
    "EverpostEndpointFailing": (f"everpost_subscription_on_probation{{{OF}}}", "0 1x30", 9, 12),
    "EverpostDeadLetters": (f'everpost_dead_lettered_events_total{{{OF}, reason="BadRequest"}}', "_x20 1x30", 19, 22),
    "EverpostDroppedEvents": (f'everpost_dropped_events_total{{{OF}, reason="BadRequest"}}', "2x20 3x20", 20, 23),
    "EverpostPublishRequestsRejected": (f"everpost_publish_failed_requests_total{{{TOPIC}}}", "0x5 1+1x30", 9, 20),
    "EverpostDiskLow": (f"everpost_disk_free_bytes{{{ONE}}}", "2000000000x5 1000000000x30", 9, 12),
    "EverpostDiskFillsUp": (f"everpost_disk_free_bytes{{{ONE}}}", "20000000000-20000000x300", 50, 90),
    "EverpostSlowDisk": (f"everpost_writer_longest_commit_seconds{{{ONE}}}", "0.5x5 2x20", 9, 12),
    "EverpostExportFails": (f"everpost_export_failures_total{{{ONE}}}", "0+1x60", 10, 20),
    "EverpostBackupFails": (f"everpost_backup_failures_total{{{ONE}}}", "0x5 1x20", 5, 8),
    "EverpostProvisioningFails": (f"everpost_provisioning_failures_total{{{ONE}}}", "0x5 1+1x20", 8, 14),
    "EverpostRequestsCutOff": (f"everpost_request_panics_total{{{ONE}}}", "0x5 1x20", 5, 8),
}


def test_each_alert_is_raised_when_it_should_be_and_not_before(tmp_path):
    assert set(RAISED) == set(re.findall(r"- alert: (\w+)", RULES.read_text()))

    def raised(moment):
        """The alerts that are there, by what promtool says of an expectation of none."""
        tests = [
            {
                "interval": "1m",
                "input_series": [{"series": series, "values": values}],
                "alert_rule_test": [{"eval_time": f"{minutes[moment]}m", "alertname": alert, "exp_alerts": []}],
            }
            for alert, (series, values, *minutes) in RAISED.items()
        ]
        (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
        command = [program("promtool", "prometheus"), "test", "rules", tmp_path / "test.yml"]
        ran = subprocess.run(command, capture_output=True, text=True)
        told = ran.stdout + ran.stderr
        assert told.count("summary=") == told.count("alertname:"), told
        return sorted(re.findall(r"alertname: (\w+),", told))

    assert raised(0) == []
    assert raised(1) == sorted(RAISED)
