// The way that everybody goes first: from the set-up link to a dead letter that is delivered after all.

import assert from "node:assert/strict";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const begin = stage("--time-scale", "60");

testBothWays("from the set-up link to a dead letter that is resubmitted", async (t, options) => {
  const { ann } = await begin(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  await createTopic(ann);
  await hasScripts(ann, options.javaScriptEnabled);
  await subscribe(ann, receiver);
  await watchRetries(ann, receiver);
  const rejected = await findDeadLetter(ann, receiver);
  await resubmit(ann, receiver, rejected);
  await ann.leave();
});

async function createTopic(ann) {
  await ann.goesTo("Topics");
  await ann.follow("New topic");
  await ann.isOn("New topic");
  await ann.type("Name", "orders");
  await ann.press("Create topic");
  await ann.isTold("Topic orders has been created.");
  await ann.isOn("orders");
}

/** Buttons that copy are the script's; without them nothing may be missing. */
async function hasScripts(ann, expected) {
  const buttons = await ann.page.getByRole("button", { name: /^Copy/ }).count();
  assert.equal(buttons > 0, expected);
}

async function subscribe(ann, receiver) {
  await ann.follow("New subscription");
  await ann.isOn("New event subscription of orders");
  await ann.type("Name", "billing");
  await ann.type("Endpoint URL", receiver.url);
  await ann.press("Create event subscription");
  await ann.isTold("Event subscription billing has been created.");
  await ann.isOn("billing");
  await ann.comesToSee("Active");
}

/** Publishes by the form; what is on the page then is the page of the event. */
async function publish(ann, id) {
  await ann.goesTo("Topics");
  await ann.follow("orders");
  await ann.follow("Publish event");
  await ann.isOn("Publish to orders");
  const example = JSON.parse(await ann.page.getByLabel("Events", { exact: true }).inputValue());
  await ann.type("Events", JSON.stringify([{ ...example[0], id }]));
  await ann.press("Publish");
  await ann.isTold("1 event has been accepted.");
  await ann.sees("Example.Created", id);
}

async function watchRetries(ann, receiver) {
  let recover;
  receiver.script(503, 503, new Promise((resolve) => (recover = resolve)));
  await publish(ann, "order-1");

  await ann.comesToSee("2 attempts of 30");
  await ann.sees("Pending", "Attempt 1", "Attempt 2", "Busy", "503");
  await ann.sees("The receiver says that it is not available right now.");

  recover(200);
  await ann.comesToSee("Delivered");
  await ann.sees("3 attempts", "Attempt 1", "Attempt 2", "Attempt 3", "200");
  assert.deepEqual(ids(receiver), ["order-1", "order-1", "order-1"]);
}

/** Returns the number of the delivery. */
async function findDeadLetter(ann, receiver) {
  receiver.script({ status: 400, body: "no field total" });
  await publish(ann, "order-2");
  await ann.comesToSee("UndeliverableDueToHttpBadRequest");
  await ann.sees("Dead-lettered", "no field total", "A 400 is never retried.");

  await ann.goesTo("Dead letters");
  await ann.isOn("Dead letters");
  await ann.sees("billing", "400 Bad Request", "Example.Created");
  await ann.openFirstRow();
  const [delivery] = ann.page.url().match(/\d+$/);
  await ann.isOn(`Dead letter ${delivery}`);
  await ann.sees("UndeliverableDueToHttpBadRequest", "Attempt 1", "no field total");
  return delivery;
}

async function resubmit(ann, receiver, rejected) {
  await ann.follow("Resubmit");
  await ann.isOn(`Resubmit dead letter ${rejected}?`);
  await ann.sees("Event order-2 would be sent to billing again, at once.");
  await ann.press("Resubmit");
  await ann.isTold(`Dead letter ${rejected} has been resubmitted as delivery`);
  await ann.comesToSee("Delivered");
  await ann.sees("delivered", `Resubmission of delivery ${rejected}`);
  assert.deepEqual(ids(receiver).slice(3), ["order-2", "order-2"]);

  await ann.goesTo("Dead letters");
  await ann.isOn("Dead letters");
  await ann.sees("No dead letters.");
}

const ids = (receiver) => receiver.deliveries.map(({ body }) => body[0].id);
