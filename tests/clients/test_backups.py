"""Backups to a server of S3: made by a server and without one, kept, read back, and restored."""

import json
import subprocess

import pytest
import requests

from appliance import BINARY, PATIENCE_S, Appliance, environment, eventually
from s3 import BUCKET, KEY_ID, SECRET, names

PLACE = f"s3://{BUCKET}/site/one"

# More than one part of an upload has.
EVENTS, EVENT_BYTES = 12, 900_000


def variables(url):
    return {
        "EVERPOST_BACKUP_S3_ENDPOINT": url,
        "EVERPOST_BACKUP_S3_ACCESS_KEY_ID": KEY_ID,
        "EVERPOST_BACKUP_S3_SECRET_ACCESS_KEY": SECRET,
        "EVERPOST_EGRESS_ALLOW": "127.0.0.0/8",
    }


def run(url, *words):
    ran = subprocess.run(
        [str(word) for word in [BINARY, *words]],
        env={**environment(), **variables(url)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert SECRET not in ran.stdout + ran.stderr
    return ran


@pytest.fixture
def appliance(s3, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    account = ["--backup-s3-endpoint", s3[1], "--backup-s3-access-key-id", KEY_ID]
    account += ["--backup-s3-secret-access-key-file", secret, "--backup-keep", 2]
    with Appliance(tmp_path / "data", *account) as appliance:
        yield appliance
        assert SECRET not in appliance.log()


def fill(appliance):
    topic = appliance.create_topic("orders")
    for number in range(EVENTS):
        event = {"id": f"e{number}", "subject": "/s", "eventType": "T", "eventTime": "2026-11-21T06:40:53Z",
                 "data": "x" * EVENT_BYTES, "dataVersion": "1"}
        answer = requests.post(topic.endpoint, json=[event], headers={"aeg-sas-key": topic.key1}, timeout=30)
        assert answer.status_code == 200


def backups(client):
    """The names of whole backups, the oldest first."""
    return sorted(name.split("/")[-2] for name in names(client) if name.endswith("/manifest.json"))


def test_a_backup_to_s3_is_restored(appliance, s3, tmp_path):
    client, url = s3
    fill(appliance)
    made = json.loads(appliance.command("backup", PLACE, "--json"))
    assert made["path"].startswith(PLACE + "/everpost-")
    folder = made["path"].removeprefix(f"s3://{BUCKET}/")
    assert f"{folder}/master.key" in names(client)
    assert not any("unfinished" in name for name in names(client))
    database = client.head_object(Bucket=BUCKET, Key=f"{folder}/everpost.db")
    assert database["ContentLength"] == made["files"]["everpost.db"]["bytes"] > EVENTS * EVENT_BYTES
    assert "-" in database["ETag"], "it was uploaded in parts"
    assert not (tmp_path / "data/backup-upload").exists()
    audited = appliance.manage("GET", "/everpost/audit")["value"]
    assert any(f"Started backup to {PLACE}" in json.dumps(each) for each in audited)

    dry = run(url, "restore", made["path"], "--data-dir", tmp_path / "new", "--dry-run")
    assert dry.returncode == 0 and "the backup is sound" in dry.stdout and f"{EVENTS} events" in dry.stdout, dry
    assert not (tmp_path / "new").exists()
    restored = run(url, "restore", made["path"], "--data-dir", tmp_path / "new")
    assert restored.returncode == 0, restored
    assert {each.name for each in (tmp_path / "new").iterdir()} - {"LOCK"} == set(made["files"])
    assert all(each.stat().st_mode & 0o77 == 0 for each in (tmp_path / "new").iterdir())
    with Appliance(tmp_path / "new") as new:
        assert len(new.manage("GET", "/everpost/events?topic=orders")["value"]) == EVENTS

    at = {"Bucket": BUCKET, "Key": f"{folder}/everpost.db"}
    body = bytearray(client.get_object(**at)["Body"].read())
    body[len(body) // 2] ^= 1
    client.put_object(**at, Body=bytes(body))
    for dry_run in [["--dry-run"], []]:
        damaged = run(url, "restore", made["path"], "--data-dir", tmp_path / "other", *dry_run)
        assert damaged.returncode != 0 and "everpost.db: it is damaged" in damaged.stderr, damaged


def test_without_a_server_the_command_uploads(appliance, s3, tmp_path):
    client, url = s3
    appliance.create_topic("orders")
    appliance.stop()
    words = ["--data-dir", tmp_path / "data", "--without-master-key", "--json"]
    made = run(url, "backup", PLACE, *words)
    assert made.returncode == 0, made
    name = json.loads(made.stdout)["path"].rsplit("/", 1)[-1]
    assert backups(client) == [name]
    assert names(client) == [f"site/one/{name}/everpost.db", f"site/one/{name}/manifest.json"]
    assert not (tmp_path / "data/backup-upload").exists()


def test_scheduled_backups_are_kept_and_the_rest_is_left_alone(appliance, s3, tmp_path):
    client, _ = s3
    first = json.loads(appliance.command("backup", PLACE, "--json"))
    appliance.stop()
    appliance.printed.clear()  # the next life has another address
    mark = f"{first['databaseId']}.unfinished"
    before = "site/one/everpost-2020-01-01T000000.000Z"
    for name in [f"{before}/everpost.db", f"{before}/{mark}"]:  # as a killed process leaves it
        client.put_object(Bucket=BUCKET, Key=name, Body=b"x")
    others = ["site/one/everpost-2021-01-01T000000.000Z/everpost.db", "site/one/notes.txt", "site/everpost-x/a"]
    for name in others:
        client.put_object(Bucket=BUCKET, Key=name, Body=b"x")
    appliance.arguments += ["--backup-dir", PLACE]
    appliance.start()

    def kept():
        return appliance.manage("GET", "/everpost/backups")

    found = kept()
    assert found["schedule"]["directory"] == PLACE
    assert [each["path"] for each in eventually(lambda: kept()["value"], "they are listed")] == [first["path"]]
    made = [json.loads(appliance.command("backup", "--json"))["path"] for _ in range(2)]
    assert [each["path"] for each in kept()["value"]] == made[::-1]
    assert backups(client) == sorted(path.rsplit("/", 1)[-1] for path in made)
    assert {name for name in names(client) if name.rsplit("/", 1)[0] not in {p[len(f"s3://{BUCKET}/"):] for p in made}} == set(others)


def test_a_backup_that_fails_is_told_of(appliance, s3, tmp_path):
    client, _ = s3
    with pytest.raises(AssertionError, match="NoSuchBucket"):
        appliance.command("backup", "s3://missing/site")
    failed = appliance.manage("GET", "/everpost/backups")["last"]
    assert failed["backup"] is None and "NoSuchBucket" in failed["error"] and SECRET not in failed["error"]
    assert not (tmp_path / "data/backup-upload").exists()
    with pytest.raises(AssertionError, match="s3://bucket/prefix"):
        appliance.command("backup", "s3://No")


def test_a_bucket_needs_an_account_and_the_egress_policy(s3, tmp_path):
    with Appliance(tmp_path / "none") as without:
        with pytest.raises(AssertionError, match="backup.s3_access_key_id"):
            without.command("backup", PLACE)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    account = ["--backup-s3-endpoint", s3[1], "--backup-s3-access-key-id", KEY_ID]
    with Appliance(tmp_path / "data", *account, "--backup-s3-secret-access-key-file", secret, egress=()) as strict:
        with pytest.raises(AssertionError, match="127.0.0.0/8|egress"):
            strict.command("backup", PLACE)
