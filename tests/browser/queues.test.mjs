// A queue as its administrator works with it: made, sent to, looked into, connected to, and deleted.

import assert from "node:assert/strict";

import { stage, testBothWays } from "./stage.mjs";

const begin = stage();

testBothWays("from a new queue to its messages", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  ann.allow(/422/); // what the form answers with that is rejected
  await create(ann);
  await sendByHand(ann);
  await lookAtMessage(ann);
  await seeWhatComes(ann, appliance);
  await connect(ann, options.javaScriptEnabled);
  await change(ann);
  await remove(ann);
  await ann.leave();
});

async function create(ann) {
  await ann.goesTo("Queues");
  await ann.follow("New queue");
  await ann.type("Name", "jobs");
  await ann.type("Lock duration", "a minute");
  await ann.press("Create queue");
  await ann.page.getByRole("alert").getByRole("link", { name: "Lock duration" }).waitFor();
  await ann.type("Lock duration", "PT30S");
  await ann.page.getByLabel("Require sessions").check();
  await ann.press("Create queue");
  await ann.isTold("Queue jobs has been created.");
  await ann.isOn("jobs");
  await ann.sees("No messages.", "No sessions here.");
}

async function sendByHand(ann) {
  await ann.follow("Send message");
  await ann.type("Body", '{"customer": {"name": "Zoë"}, "total": 12.5}');
  await ann.type("Message ID", "invoice-7");
  await ann.press("Send message");
  await ann.page.getByRole("alert").getByRole("link", { name: "Session ID" }).waitFor();
  await ann.type("Session ID", "order-7");
  await ann.press("Send message");
  await ann.isTold("Message invoice-7 has been accepted.");
  await ann.page.getByRole("region", { name: "Sessions" }).getByRole("link", { name: "order-7" }).waitFor();
}

async function lookAtMessage(ann) {
  await ann.follow("invoice-7");
  const body = ann.page.getByRole("region", { name: "Body" });
  await body.getByText('"Zoë"').waitFor();
  await ann.follow("Hex");
  await body.getByText("0000  7b 22 63").waitFor();
  await ann.page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "jobs" }).click();
  await ann.isOn("jobs");
}

/** An event that is published to it has no session id, and becomes a dead letter. */
async function seeWhatComes(ann, appliance) {
  const { key1 } = await appliance.manage("POST", "/topics/jobs/listKeys");
  const queue = { name: "jobs", endpoint: `${appliance.url}/topics/jobs/api/events`, key1 };
  const event = { specversion: "1.0", id: "e-1", type: "Job.Created", source: "/shop" };
  await appliance.publish(queue, event, "application/cloudevents+json");
  await ann.comesToSee("1 dead letter");
  await ann.follow("1 dead letter");
  await ann.isOn("Dead letters");
  await ann.page.goBack();
  await ann.isOn("jobs");
}

async function connect(ann, isScripted) {
  const connection = ann.page.getByRole("region", { name: "Connection string" });
  await connection.getByText("SharedAccessKey=KEY;").waitFor();
  await ann.press("Show keys");
  for (const key of ["key1", "key2"]) {
    await connection.getByText(key, { exact: true }).click();
    await connection.getByText(new RegExp(`Name=${key};SharedAccessKey=[\\w+/]{43}=;`)).waitFor();
  }
  const copy = connection.getByRole("button", { name: "Copy connection string" });
  assert.equal(await copy.count(), isScripted ? 1 : 0);
  await ann.follow("Hide keys");
  await connection.getByText("SharedAccessKey=KEY;").waitFor();
}

async function change(ann) {
  await ann.follow("Edit");
  assert.equal(await ann.page.getByLabel("Require sessions").count(), 0);
  await ann.type("Max deliveries", "3");
  await ann.press("Save changes");
  await ann.isTold("Queue jobs has been changed.");
}

async function remove(ann) {
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Delete queue…");
  await ann.sees("1 message is dropped");
  await ann.press("Delete queue");
  await ann.isTold("Queue jobs has been deleted.");
  await ann.sees("No queues yet.");
}
