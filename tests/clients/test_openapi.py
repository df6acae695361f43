"""The OpenAPI document: valid, and true of every request that it describes."""

import json
import re

import jsonschema
import pytest
import requests
from openapi_spec_validator import validate

from appliance import Appliance, eventually

# Operations at the paths of Azure Resource Manager: the same as others, and asked only to show something.
BY_RESOURCE_ID = "ByResourceId"

# What the examples are rejected for: locks and codes that nobody holds, a delivery that is not pending,
# an event of another topic, what a pulled subscription has not, a directory that is not there.
REJECTED = {
    "confirmValidation": 404,
    "confirmValidationByPost": 404,
    "completeDeadLetter": 404,
    "completeDeadLetterInNamespace": 404,
    "unlockDeadLetter": 404,
    "unlockDeadLetterInNamespace": 404,
    "renewDeadLetterLock": 404,
    "renewDeadLetterLockInNamespace": 404,
    "completeMessage": 404,
    "completeMessageOfSubscription": 404,
    "unlockMessage": 404,
    "unlockMessageOfSubscription": 404,
    "renewMessageLock": 404,
    "renewMessageLockOfSubscription": 404,
    "peekLockMessageOfSubscription": 400,
    "receiveMessageOfSubscription": 400,
    "tryDeliveryNow": 409,
    "explainNamespaceEvent": 404,
    "explainNamespaceEventToSubscription": 404,
    "getNamespaceFullUrl": 400,
    "rotateNamespaceSigningSecret": 400,
    "startBackup": 400,
}

# A replay job may be over before it is told anything, and has taken the dead letters; the event of the
# example has gone to its subscription.
OR_REFUSED = {
    "pauseReplay": 409,
    "resumeReplay": 409,
    "cancelReplay": 409,
    "resubmitDeadLetter": 409,
    "sendEvent": 409,
}

# In the place of the examples: an inspector that rejects, so that there are dead letters; queues that
# are not waited for.
# The user of the example of createUser is put before.
BODIES = {"putInspector": {"answers": "400"}, "createUser": {"name": "another", "role": "viewer"}}
QUERIES = {
    "peekLockDeadLetter": {"timeout": 0},
    "peekLockDeadLetterInNamespace": {"timeout": 0},
    "receiveDeadLetter": {"timeout": 0},
    "peekLockMessage": {"timeout": 0},
    "receiveMessage": {"timeout": 0},
    "receiveDeadLetterInNamespace": {"timeout": 0},
    "purgeDeadLetters": {"topic": "orders"},
}

# What others ask for.
CREATIONS = {"createUser", "createToken", "startReplay"}

# The topic is told by the key alone.
BY_KEY = {"publishByHost", "publishByAzurePath"}

# The topic of the examples takes events in the schema of Event Grid alone.
TAKES_CLOUD_EVENTS = {"publishByTopic", "publishInNamespace"}


class Operation:
    def __init__(self, document, path, method):
        item = document["paths"][path]
        self.document = document
        self.path = path
        self.method = method.upper()
        self.json = item[method]
        self.id = self.json["operationId"]
        self.parameters = item.get("parameters", []) + self.json["parameters"]

    def url(self):
        """The path with examples in the place of names."""
        examples = {each["name"]: each["example"] for each in self.parameters if each["in"] == "path"}
        return re.sub(r"\{(\w+)\}", lambda found: str(examples[found[1]]), self.path)

    def query(self):
        needed = [each for each in self.parameters if each["in"] == "query" and each.get("required")]
        own = {each["name"]: each["schema"].get("examples", ["none"])[0] for each in needed}
        return {**own, **QUERIES.get(self.id, {})}

    def bodies(self):
        """Content types with an example of each."""
        content = self.json.get("requestBody", {}).get("content", {})
        found = [(kind, BODIES.get(self.id, each["example"])) for kind, each in content.items()]
        if self.id.startswith("publish") and self.id not in TAKES_CLOUD_EVENTS:
            found = [each for each in found if each[0] == "application/json"]
        return found or [(None, None)]

    def check(self, answer):
        """Fails unless the answer is one that the document tells of."""
        at = f"{self.id} ({self.method} {self.path}): {answer.status_code} {answer.text[:500]}"
        told = self.json["responses"].get(str(answer.status_code))
        assert told, at
        if "content" not in told:
            assert answer.content == b"", at
            return
        kind = answer.headers["Content-Type"].split(";")[0]
        assert kind in told["content"], f"{at}\n{kind}"
        if kind.endswith("json"):
            schema = told["content"][kind]["schema"]
            errors = list(self.validator(schema).iter_errors(answer.json()))
            assert not errors, f"{at}\n{errors[0]}"

    def validator(self, schema):
        schema = {**schema, "components": self.document["components"]}
        formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
        return jsonschema.Draft202012Validator(schema, format_checker=formats)


@pytest.fixture(scope="module")
def own_appliance(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("documented") / "data") as appliance:
        # The first one must be.
        admin = {"name": "root", "role": "admin", "password": "correct horse battery"}
        appliance.manage("POST", "/everpost/users", admin)
        yield appliance


@pytest.fixture(scope="module")
def document(own_appliance):
    return own_appliance.manage("GET", "/openapi.json")


@pytest.fixture(scope="module")
def operations(document):
    methods = ["get", "put", "patch", "post", "delete", "options"]
    return [
        Operation(document, path, method)
        for path, item in document["paths"].items()
        for method in methods
        if method in item
    ]


def test_the_document_is_valid(document):
    validate(document)


def test_examples_fit_their_schemas(operations):
    for operation in operations:
        for kind, content in operation.json.get("requestBody", {}).get("content", {}).items():
            errors = list(operation.validator(content["schema"]).iter_errors(content["example"]))
            assert not errors, f"{operation.id} {kind}: {errors[0]}"
        for parameter in operation.parameters:
            if "example" in parameter:
                operation.validator(parameter["schema"]).validate(parameter["example"])


def test_strangers_see_nothing_of_it(own_appliance):
    assert requests.get(own_appliance.url + "/openapi.json", timeout=30).status_code == 401


def test_every_request_is_answered_as_the_document_tells(own_appliance, operations):
    world = World(own_appliance)
    firsts = [each for each in operations if not each.id.endswith(BY_RESOURCE_ID)]
    seconds = [each for each in operations if each not in firsts and each.method == "GET"]
    publishes = [each for each in firsts if each.id.startswith("publish")]
    rest = [each for each in firsts if each not in publishes]
    of = lambda *methods: [each for each in rest if each.method in methods]
    outermost_first = lambda each: len(each.path)
    creations = [each for each in of("POST") if each.id in CREATIONS]

    for operation in sorted(of("PUT"), key=outermost_first):
        world.ask(operation)
    for operation in publishes:
        world.ask(operation)
    world.publish_what_is_rejected()
    world.await_dead_letters()
    for operation in [*creations, *of("GET", "OPTIONS", "PATCH"), *seconds]:
        world.ask(operation)
    for operation in of("POST"):
        if operation not in creations:
            world.ask(operation)
    for operation in sorted(of("DELETE"), key=outermost_first, reverse=True):
        world.ask(operation)


class World:
    """An appliance that is asked with the examples of its document."""

    def __init__(self, appliance):
        self.appliance = appliance

    def ask(self, operation):
        for kind, example in operation.bodies():
            headers = self.credential(operation)
            if kind:
                headers["Content-Type"] = kind
            answer = requests.request(
                operation.method,
                self.appliance.url + operation.url(),
                params=operation.query(),
                headers=headers,
                data=json.dumps(example) if kind and kind.endswith("json") else example,
                timeout=60,
                allow_redirects=False,
            )
            operation.check(answer)
            expected = REJECTED.get(operation.id)
            at = f"{operation.id}: {answer.status_code} {answer.text}"
            if expected:
                assert answer.status_code == expected, at
            else:
                assert answer.ok or answer.status_code == OR_REFUSED.get(operation.id), at

    def credential(self, operation):
        if operation.id in BY_KEY:
            keys = self.appliance.manage("POST", "/topics/orders/listKeys")
            return {"aeg-sas-key": keys["key1"]}
        return {"Authorization": f"Bearer {self.appliance.token}"} if operation.json["security"] else {}

    def publish_what_is_rejected(self):
        headers = {"Authorization": f"Bearer {self.appliance.token}"}
        url = f"{self.appliance.url}/topics/orders/api/events"
        assert requests.post(url, json=[{}], headers=headers, timeout=30).status_code == 400
        path = "/everpost/rejectedEvents"
        eventually(lambda: self.appliance.manage("GET", path)["value"], "a rejected request")

    def await_dead_letters(self):
        path = "/everpost/deadLetters?topic=orders"
        are_there = lambda: len(self.appliance.manage("GET", path)["value"]) >= 2
        eventually(are_there, "dead letters")
