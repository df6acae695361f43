// Somebody wants to be notified when deliveries fail, and sees on the page what fires.

import assert from "node:assert/strict";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const begin = stage();

const event = { id: "1", eventType: "Paid", subject: "/1", eventTime: "2026-11-21T06:40:53.138Z", dataVersion: "1", data: {} };

const row = (ann, name) => ann.page.getByRole("row").filter({ has: ann.page.getByRole("rowheader", { name }) });
const presses = async (ann, label, of) => ann.press(`${label}: ${of}`);

testBothWays("a channel is made and tested, an endpoint fires, and a rule is disabled", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  ann.allow(/422/);
  const [billing, chat] = await Promise.all([Receiver.start(), Receiver.start()]);
  t.after(() => Promise.all([billing.stop(), chat.stop()]));

  await ann.page.goto("/admin/alerts");
  await ann.sees("Add a channel to be notified.", "No channels yet.", "disk-space", "failing-endpoints");
  assert.deepEqual(await ann.barriers(), []);
  await ann.follow("New channel");
  await ann.isOn("New alert channel");
  assert.ok(await ann.page.getByLabel("Mail server", { exact: true }).isVisible());
  await ann.type("Name", "chat");
  await ann.page.getByLabel("Kind", { exact: true }).selectOption("Webhook");
  assert.ok(!(await ann.page.getByLabel("Mail server", { exact: true }).isVisible()));
  for (const [service, fields] of [["Slack", ["URL"]], ["PagerDuty", ["Token"]], ["ntfy", ["URL", "Token"]]]) {
    await ann.page.getByLabel("Service", { exact: true }).selectOption(service);
    for (const field of ["URL", "Token"]) {
      const isShown = await ann.page.getByLabel(field, { exact: true }).isVisible();
      assert.equal(isShown, fields.includes(field), `${field} of ${service}`);
    }
  }
  await ann.page.getByLabel("Service", { exact: true }).selectOption("Any other, as JSON");
  assert.deepEqual(await ann.barriers(), []);
  await ann.press("Create channel");
  await ann.sees("Enter the URL that messages are posted to.");
  await ann.type("URL", `${chat.url}/hush`);
  await ann.press("Create channel");
  await ann.isTold("Alert channel chat has been saved.");
  await presses(ann, "Test", "chat");
  await ann.isTold("Test message sent to chat. Answer: 200 OK");
  assert.equal((await chat.waitFor(1))[0].body.subject, "Test message");
  await row(ann, /chat/).getByText("Working").waitFor();
  await ann.follow("chat");
  await ann.press("Save and test");
  await ann.isTold("Test message sent to chat. Answer: 200 OK");
  assert.ok(!(await ann.page.content()).includes("hush"), "the URL is a secret");

  const topic = await appliance.createTopic("orders");
  await appliance.subscribe(topic, "billing", billing.url);
  billing.script(...Array(50).fill(400));
  await ann.page.goto("/admin/new-alert-rule");
  await ann.type("Name", "rejected-orders");
  await ann.page.getByLabel("Fires when", { exact: true }).selectOption("There are too many dead letters");
  await ann.type("Minimum dead letters", "1");
  await ann.type("For at least (minutes)", "5");
  await ann.press("Create rule");
  await ann.isTold("Alert rule rejected-orders has been saved.");
  await appliance.publish(topic, [event]);
  // Rules are evaluated every few seconds, and whenever one is saved.
  await billing.waitFor(1);
  await ann.comesToSee("1 alert is firing.");
  await ann.sees("orders/billing", "dead letters within 5 min: 1");
  assert.equal((await chat.waitFor(3))[2].body.subject, "Dead letters: orders/billing");
  assert.deepEqual(await ann.barriers(), []);
  await ann.comesToSee("Sent");

  await presses(ann, "Disable", "rejected-orders");
  await ann.isTold("Alert rule rejected-orders has been disabled.");
  await ann.comesToSee("No alerts are firing.");
  await row(ann, /rejected-orders/).getByText("Disabled", { exact: true }).waitFor();
  await ann.follow("rejected-orders");
  await ann.isOn("Edit alert rule rejected-orders");
  await ann.leave();
});
