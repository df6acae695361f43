// The guided way: from claiming to a delivered event without leaving the browser, and through failures.

import assert from "node:assert/strict";
import { test } from "node:test";

import { stage, testBothWays } from "./stage.mjs";

// What somebody may have to wait for at true speed; a busy machine may need longer than people do.
const MINUTE_MS = 60_000;

const begin = stage();

testBothWays("from claiming to a delivered event within a minute", async (t, options) => {
  const { ann } = await begin(t, options);
  const startedAt = Date.now();
  await ann.follow("Deliver the first event");
  await ann.isOn("First event");
  await ann.press("Create topic, inspector and subscription");
  await ann.press("Publish it");
  await ann.comesToSee("It has arrived: the inspector answered 200.");
  assert.ok(Date.now() - startedAt < MINUTE_MS, `${Date.now() - startedAt} ms`);
  await ann.sees("Delivered", "Attempt 1");

  await ann.follow("the request");
  await ann.isOn("orders-inspector");
  await ann.comesToSee("2 received");
  await ann.sees("Example.Created", "aeg-event-type: Notification");
  await ann.leave();
});

testBothWays("through failures to a delivery, without waiting for the schedule", async (t, options) => {
  const { ann } = await begin(t, options);
  await ann.page.goto("/admin/first-event");
  await ann.press("Create topic, inspector and subscription");
  await ann.press("Publish an event that fails twice");
  await ann.comesToSee("1 attempt of at most 30");
  await ann.sees("Attempt 2", "Busy", "503");
  await ann.press("Publish an event that is rejected"); // it has an inspector of its own
  await ann.comesToSee("A 400 is never retried: the event has become a dead letter.");
  await ann.press("Retry now");
  await ann.isTold("503 Service Unavailable after");
  await ann.comesToSee("2 attempts of at most 30");
  await ann.press("Retry now");
  await ann.comesToSee("After two failures it has been delivered.");

  await ann.press("Answer 200 and resubmit");
  await ann.comesToSee("The dead letter has been resubmitted, and has arrived.");
  await ann.goesTo("Dead letters");
  await ann.isOn("Dead letters");
  await ann.sees("No dead letters.");
  await ann.leave();
});

test("an inspector shows what comes while one looks", async (t) => {
  const { ann, appliance } = await begin(t);
  await ann.goesTo("Topics");
  await ann.follow("New topic");
  await ann.type("Name", "orders");
  await ann.press("Create topic");
  await ann.goesTo("Inspectors");
  await ann.follow("New inspector");
  await ann.type("Name", "bin");
  await ann.type("Statuses", "410");
  await ann.press("Create inspector");
  await ann.isTold("Inspector bin has been created.");
  await ann.press("Subscribe");
  await ann.isTold("This inspector now gets the events of");
  await ann.comesToSee("Event Grid validation, accepted");

  await ann.page.getByText("Event Grid validation").click(); // folds it up
  const topic = { path: "/topics/orders" };
  const { key1 } = await appliance.manage("POST", `${topic.path}/listKeys`);
  const event = { id: "seen", eventType: "T", subject: "s", eventTime: new Date(), data: {}, dataVersion: "" };
  const sent = await fetch(`${appliance.url}${topic.path}/api/events`, {
    method: "POST",
    headers: { "aeg-sas-key": key1, "content-type": "application/json" },
    body: JSON.stringify([event]),
  });
  assert.equal(sent.status, 200);
  await ann.sees("2 received", "T seen");
  const open = await ann.page.locator("details[open]").evaluateAll((each) => each.map(({ id }) => id));
  assert.deepEqual(open, ["request-2"], "what was folded up stays so");
  await ann.leave();
});
