"""What is played, and what must come of it. Times are seconds of the published rules."""

import datetime
import time

from stage import Receiver, Unexpected
from timeline import GRAIN_MS, Timeline, millis

# Long enough for the longest of them on a busy machine.
PATIENCE_S = 300
# Between two looks at what is planned.
LOOK_S = 0.02
SCHEDULE = [10, 30, 60, 300, 600, 1_800]
PROBATION_REASON = "UndeliverableDueToProbationCausedByClientError"


def event(number, data=None):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    return {"id": f"e{number}", "subject": "/orders/7", "eventType": "Order.Paid", "eventTime": now,
            "dataVersion": "1.0", "data": data or {"total": 12.5}}  # fmt: skip


class Scenario:
    """A topic with one subscription, whose receiver answers by script, and the events published to it."""

    def __init__(self, name, answers, *, receiver=(), topic=None, webhook=None, properties=None, events=None,
                 mode="hold", check):  # fmt: skip
        self.name = name
        self.answers = answers
        self.receiver_arguments = receiver
        self.topic_properties = topic or {}
        self.webhook = webhook or {}
        self.properties = properties or {}
        self.events = events or [event(1)]
        self.mode = mode
        self.check = check
        self.notes = []
        self.faults = []
        self.timelines = []
        # By event key and attempts made: when the next one was planned for.
        self.plans = {}

    def begin(self, appliance, number):
        self.appliance = appliance
        self.topic = f"scenario-{number}"
        self.receiver = Receiver(self.answers, *self.receiver_arguments)
        appliance.create_topic(self.topic, **self.topic_properties)
        appliance.subscribe(self.topic, self.receiver.url, self.webhook, self.properties)
        appliance.publish(self.topic, self.events)
        self.keys = appliance.keys(self.topic)

    def watch(self):
        """Notes what is planned until nothing is pending any more, or the subscription is disabled."""
        pending = list(self.keys)
        deadline = time.monotonic() + PATIENCE_S
        while pending and not self.is_disabled():
            if time.monotonic() > deadline:
                raise Unexpected(f"after {PATIENCE_S} s, {len(pending)} deliveries are still pending")
            pending = [key for key in pending if self._is_pending(key)]
            time.sleep(LOOK_S)

    def _is_pending(self, key):
        delivery = self.appliance.delivery(key)
        if delivery["state"] != "Pending":
            return False
        if delivery["attempts"]:
            self.plans.setdefault(key, {})[delivery["attempts"]] = delivery["nextAttemptAt"]
        return True

    def is_disabled(self):
        return self.appliance.subscription(self.topic).get("disabled")

    def deliveries(self):
        return [self.appliance.delivery(key) for key in self.keys]

    def tell(self, key):
        """The timeline of an event, which is drawn and whose faults count."""
        scale, plans = self.appliance.scale, self.plans.get(key, {})
        found = Timeline(f"event {key}", self.appliance.delivery(key), scale, plans)
        self.timelines.append(found)
        return found

    def expect(self, is_so, fault):
        if not is_so:
            self.faults.append(fault)

    def play(self, appliance, number):
        """From the publishing to the end, and what was wrong about it."""
        try:
            self.begin(appliance, number)
            try:
                self.watch()
                self.check(self)
            finally:
                self.receiver.stop()
        except (Unexpected, IndexError, KeyError) as fault:
            self.faults.append(f"{type(fault).__name__}: {fault}")

    def all_faults(self):
        return self.faults + [f"{each.name}: {fault}" for each in self.timelines for fault in each.faults]


class NamespaceScenario(Scenario):
    """The same with a topic of a namespace."""

    def begin(self, appliance, number):
        self.appliance = appliance
        namespace, topic = f"shop-{number}", "orders"
        self.receiver = Receiver(self.answers, *self.receiver_arguments)
        appliance.create_namespace_topic(namespace, topic)
        appliance.subscribe_in_namespace(namespace, topic, self.receiver.url, self.properties)
        for each in self.events:
            appliance.publish_in_namespace(namespace, topic, each)
        self.keys = appliance.keys(f"{namespace}/{topic}")

    def is_disabled(self):
        return False


def waits_after(answer, wait, *, retry_after=None):
    """One failure with this answer, then success."""
    receiver = () if retry_after is None else ("--retry-after", retry_after)
    told = "" if retry_after is None else f" with Retry-After {retry_after}"

    def check(scenario):
        timeline = scenario.tell(scenario.keys[0])
        timeline.expect_answers([str(answer), "200"])
        timeline.expect_waits([wait])
        timeline.expect_end("Delivered")

    return Scenario(f"the wait after {answer}{told}: {wait} s", f"{answer} 200", receiver=receiver, check=check)


def time_to_live(scenario):
    timeline = scenario.tell(scenario.keys[0])
    timeline.expect_answers(["500"] * 6)
    timeline.expect_waits(SCHEDULE[:5])
    timeline.expect_expiry(30 * 60)
    timeline.expect_end("DeadLettered", "TimeToLiveExceeded")
    scenario.expect(len(scenario.receiver.requests()) == 6, "the receiver got another number of requests than 6")


def time_to_live_in_namespace(scenario):
    """The moments count from the first attempt: the eighth attempt would fall due 20 minutes after the first one,
    when 20 minutes have passed since the event was published."""
    timeline = scenario.tell(scenario.keys[0])
    timeline.expect_answers(["500"] * 7)
    timeline.expect_offsets([10, 30, 60, 300, 600, 900])
    timeline.expect_expiry(20 * 60)
    timeline.expect_end("DeadLettered", "TimeToLiveExceeded")
    scenario.expect(len(scenario.receiver.requests()) == 7, "the receiver got another number of requests than 7")


def probation_held(scenario):
    """Ten failures; probes after 10, 20 and 40 s, the third of which succeeds."""
    scale, requests = scenario.appliance.scale, scenario.receiver.requests()
    moments = [millis(request["receivedAt"]) * scale / 1_000 for request in requests]
    for probe, wait in ((10, 10), (11, 20), (12, 40)):
        gap = moments[probe] - moments[probe - 1]
        # The probation begins with the answer, after the request arrived.
        scenario.expect(gap >= wait - GRAIN_MS * scale / 1_000, f"probe {probe - 9} came after {gap:.1f} s, not {wait} s")
        scenario.notes.append(f"  probe {probe - 9} after {gap:5.1f} s, at least {wait} s")
    attempts = sum(delivery["attempts"] for delivery in scenario.deliveries())
    scenario.expect(len(requests) == 24, f"{len(requests)} requests, not 12 failures and 12 successes")
    scenario.expect(attempts == len(requests), f"{attempts} attempts are counted, not as many as requests")
    for key in (scenario.keys[0], scenario.keys[11]):
        scenario.tell(key).expect_end("Delivered")


def probation_counted(scenario):
    """What falls due meanwhile counts an attempt and moves on."""
    first = scenario.deliveries()[10]["deliveryAttempts"][0]
    scenario.expect(first["outcome"] == "Probation", f"the eleventh event begins with {first['outcome']}")
    for key in (scenario.keys[0], scenario.keys[10], scenario.keys[11]):
        scenario.tell(key).expect_end("Delivered")
    skipped = scenario.timelines[1]
    skipped.expect_waits(SCHEDULE[: len(skipped.attempts) - 1])


def probation_given_up(scenario):
    for key in scenario.keys[10:]:
        timeline = scenario.tell(key)
        timeline.expect_answers(["Probation"])
        timeline.expect_end("DeadLettered", PROBATION_REASON)


def sizes(*expected):
    def check(scenario):
        requests = [request for request in scenario.receiver.requests() if request["kind"] == "delivery"]
        bodies = [request["body"] for request in requests]
        found = sorted(len(body) for body in bodies)
        scenario.notes += [f"  request of {len(body):>5} events" for body in bodies]
        scenario.expect(found == sorted(expected), f"requests of {found} events, not {sorted(expected)}")
        states = {delivery["state"] for delivery in scenario.deliveries()}
        scenario.expect(states == {"Delivered"}, f"states {states}")

    return check


def in_all(expected):
    """A large request is delivered in bites, as its deliveries are created."""

    def check(scenario):
        requests = [request for request in scenario.receiver.requests() if request["kind"] == "delivery"]
        found = [len(request["body"]) for request in requests]
        scenario.notes += [f"  {sum(found)} events in {len(found)} requests"]
        scenario.expect(sum(found) == expected, f"{sum(found)} events, not {expected}")
        states = {delivery["state"] for delivery in scenario.deliveries()}
        scenario.expect(states == {"Delivered"}, f"states {states}")

    return check


def late_answer(scenario):
    timeline = scenario.tell(scenario.keys[0])
    attempt = timeline.attempts[0]
    timeline.expect_answers(["TimedOut"])
    timeline.expect_end("Delivered")
    timeline.expect(attempt["lateHttpStatusCode"] == 200, "no late answer is recorded")
    timeline.expect((attempt["lateAfterMs"] or 0) >= 2_000, "the late answer came before it was given")
    scenario.expect(len(scenario.receiver.requests()) == 1, "the retry was not cancelled")


def gone(scenario):
    state = scenario.appliance.subscription(scenario.topic)["everpost"]["state"]
    scenario.expect(state == "Disabled", f"the subscription is {state}")
    scenario.expect(len(scenario.receiver.requests()) == 1, "it was asked again before it was resumed")
    scenario.notes.append("  disabled by the answer 410, and resumed by hand")
    scenario.appliance.resume(scenario.topic)
    scenario.watch()
    timeline = scenario.tell(scenario.keys[0])
    timeline.expect_answers(["410", "200"])
    timeline.expect_end("Delivered")


def custom():
    mapping = {"eventType": {"defaultValue": "T"}, "subject": {"defaultValue": "/s"},
               "dataVersion": {"defaultValue": "1"}}  # fmt: skip
    return {"inputSchema": "CustomEventSchema",
            "inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": mapping}}  # fmt: skip


def all_scenarios():
    one_by_one = {"maxRequestsInFlight": 1}
    twelve = [event(number) for number in range(1, 13)]
    small = [event(number) for number in range(1, 7)]
    return [
        waits_after(408, 120),
        waits_after(404, 300),
        waits_after(503, 30),
        waits_after(503, 90, retry_after=90),
        waits_after(429, 10),
        waits_after(429, 45, retry_after=45),
        Scenario(
            "a time to live of 30 minutes and 10 attempts: exactly 6 attempts",
            "500",
            properties={"retryPolicy": {"maxDeliveryAttempts": 10, "eventTimeToLiveInMinutes": 30}},
            check=time_to_live,
        ),
        NamespaceScenario(
            "a namespace, 20 minutes and 10 attempts: dead-lettered when the eighth falls due",
            "500",
            properties={"maxDeliveryCount": 10, "eventTimeToLive": "PT20M"},
            events=[{"specversion": "1.0", "id": "e1", "source": "/shop", "type": "Order.Paid"}],
            check=time_to_live_in_namespace,
        ),
        Scenario(
            "probation, due events are held: one probe after 10, 20 and 40 s",
            "503x12 200",
            webhook=one_by_one,
            events=twelve,
            check=probation_held,
        ),
        Scenario(
            "probation as in Azure after lost connections: due events count an attempt",
            "closex10 200",
            webhook=one_by_one,
            events=twelve,
            mode="azure",
            check=probation_counted,
        ),
        Scenario(
            "probation as in Azure after 404: due events are given up",
            "404x10 200",
            webhook=one_by_one,
            events=twelve,
            mode="azure",
            check=probation_given_up,
        ),
        Scenario(
            "5,000 events in one request",
            "200",
            topic=custom(),
            webhook={"maxEventsPerBatch": 5_000},
            events=[{"n": number} for number in range(5_000)],
            check=in_all(5_000),
        ),
        Scenario(
            "an oversized event goes alone",
            "200",
            webhook={"preferredBatchSizeInKilobytes": 4},
            events=[*small[:3], event("big", "x" * 10_000), *small[3:]],
            check=sizes(3, 1, 3),
        ),
        Scenario(
            "a late answer cancels the retry",
            "200",
            receiver=("--delay", "2s"),
            webhook={"responseDeadlineInSeconds": 1},
            properties={"retryPolicy": {"schedule": ["PT1H"]}},
            check=late_answer,
        ),
        Scenario(
            "410 disables the subscription that asked for it",
            "410 200",
            properties={"disableOnGone": True},
            check=gone,
        ),
    ]
