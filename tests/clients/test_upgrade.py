"""A new program in the place of an old one: what it says beforehand, and who notices the change."""

import socket
import subprocess
import threading

import requests

from appliance import BINARY, PATIENCE_S, Appliance, environment, eventually
from events import EVENT

RESTARTS = 3
PUBLISHERS = 4


def test_a_restart_behind_an_inherited_socket_rejects_nobody(tmp_path, receiver):
    acknowledged, failures, over = [], [], threading.Event()

    def publish(topic, publisher):
        for number in range(1_000_000):
            if over.is_set():
                return
            id = f"{publisher}-{number}"
            try:  # a connection of its own for each
                answer = requests.post(
                    topic.endpoint, json=[{**EVENT, "id": id}], headers={"aeg-sas-key": topic.key1}, timeout=PATIENCE_S
                )
                (acknowledged if answer.status_code == 200 else failures).append(id)
            except requests.RequestException as error:
                failures.append(error)

    with socket.create_server(("127.0.0.1", 0), backlog=128) as kept:
        with Appliance(tmp_path / "data", socket=kept) as appliance:
            assert appliance.url.endswith(f":{kept.getsockname()[1]}")
            topic = appliance.create_topic("orders")
            appliance.subscribe(topic, "billing", receiver.url)
            publishers = [threading.Thread(target=publish, args=(topic, it)) for it in range(PUBLISHERS)]
            for publisher in publishers:
                publisher.start()
            for _ in range(RESTARTS):
                before = len(acknowledged)
                eventually(lambda: len(acknowledged) > before + PUBLISHERS or failures, "they publish")
                appliance.stop()
                appliance.start()
            over.set()
            for publisher in publishers:
                publisher.join()
            assert failures == []
            received = lambda: {it["id"] for delivery in receiver.deliveries for it in delivery.events}
            eventually(lambda: received() >= set(acknowledged), "all that was acknowledged is delivered")


def test_an_upgrade_is_foreseen_while_the_old_program_runs(appliance, tmp_path):
    def check(folder):
        command = [BINARY, "upgrade-check", "--data-dir", folder]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment())

    foreseen = check(appliance.data_dir)
    assert foreseen.returncode == 0, foreseen.stderr
    assert "settings  valid" in foreseen.stdout and "no upgrade needed" in foreseen.stdout
    (tmp_path / "everpost.toml").write_text("no_such_setting = 1\n")
    missing = check(tmp_path)
    assert missing.returncode != 0 and "no_such_setting" in missing.stderr
