// Somebody tries filters, conversions, signatures and tokens with pasted texts, in the browser.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const arrive = stage();

const EVENT = JSON.stringify({
  id: "1",
  eventType: "Order.Paid",
  subject: "/orders/7",
  eventTime: "2026-11-21T06:40:53Z",
  dataVersion: "1",
  data: { total: 12.5 },
});

/** A topic with a subscription, and somebody signed in. */
async function begin(t, options) {
  const { appliance, ann } = await arrive(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const orders = await appliance.createTopic("orders");
  const filter = {
    advancedFilters: [{ operatorType: "NumberGreaterThan", key: "data.total", value: 100 }],
  };
  await appliance.subscribe(orders, "billing", receiver.url, { filter });
  await ann.goesTo("Playground");
  return { appliance, orders, ann };
}

testBothWays("a pasted event is held against filters", async (t, options) => {
  const { ann } = await begin(t, options);
  ann.allow(/422/);
  await ann.follow("Try a filter");
  await ann.type("Event", EVENT);
  await ann.press("Try it");
  await ann.page.getByRole("alert").waitFor();
  await ann.sees("Write a filter here");

  await ann.page.getByLabel("Topic or subscription").selectOption("orders/billing");
  await ann.press("Try it");
  await ann.sees("Does not match", "Wanted: data.total is greater than 100. The event has 12.5.");
  await ann.press("Write the subscription's filter here");
  const filter = JSON.parse(await ann.page.getByLabel("Filter", { exact: true }).inputValue());
  filter.advancedFilters[0].value = 10;
  await ann.type("Filter", JSON.stringify(filter));
  await ann.press("Try it");
  await ann.sees("Every part of the filter holds.");
  assert.equal(await ann.page.getByLabel("Event", { exact: true }).inputValue(), EVENT);

  await ann.type("Event", "<script>alert(1)</script>");
  await ann.press("Try it");
  await ann.sees("This is not JSON. Line 1, column 1:");
  await ann.leave();
});

test("an event is converted, or rejected in words", async (t) => {
  const { ann } = await begin(t);
  ann.allow(/422/);
  await ann.follow("Convert an event");
  await ann.type("Event", EVENT);
  await ann.press("Convert");
  await ann.sees("content-type: application/cloudevents+json; charset=utf-8", '"specversion":"1.0"');

  const body = await ann.page.getByLabel("Body", { exact: true }).locator("code").textContent();
  await ann.type("Event", body);
  await ann.page.getByLabel("Delivery schema", { exact: true }).selectOption("EventGridSchema");
  await ann.press("Convert");
  await ann.page.getByRole("alert").waitFor();
  await ann.sees("published as CloudEventSchemaV1_0 cannot be delivered as EventGridSchema");
  await ann.leave();
});

test("a signature is checked, and the secret does not stay", async (t) => {
  const { ann } = await begin(t);
  ann.allow(/422/);
  await ann.follow("Check a signature");
  const key = Buffer.alloc(32, 7);
  const secret = `whsec_${key.toString("base64")}`;
  const at = Math.floor(Date.now() / 1_000);
  const tag = createHmac("sha256", key).update(`msg-1.${at}.{\n}`).digest("base64");
  await ann.type("Secret", "hush");
  await ann.type("webhook-id", "msg-1");
  await ann.type("webhook-timestamp", `${at}`);
  await ann.type("webhook-signature", `v1,${tag}`);
  await ann.type("Body", "{\n}");
  await ann.press("Check");
  await ann.page.getByRole("alert").waitFor();
  for (const [body, verdict] of [["{\n}", "Valid"], ["{}", "Not valid"]]) {
    assert.equal(await ann.page.getByLabel("Secret", { exact: true }).inputValue(), "");
    await ann.type("Secret", secret);
    await ann.type("Body", body);
    await ann.press("Check");
    await ann.sees(verdict);
    assert.ok(!(await ann.page.content()).includes(secret));
  }
  await ann.leave();
});

for (const [topic, describe] of [["orders", "a topic"], ["shop/orders", "a namespace topic"]]) {
  test(`a token of ${describe} publishes until it ends`, async (t) => {
    const { appliance, ann } = await begin(t);
    ann.allow(/422/);
    await appliance.createNamespace("shop");
    await appliance.manage("PUT", "/namespaces/shop/topics/orders", { properties: {} });
    await ann.page.goto(`/admin/topics/${encodeURIComponent(topic)}`);
    await ann.follow("Create SAS token");
    await ann.page.getByLabel("Valid for").selectOption("other");
    await ann.page.getByLabel("Expires").fill("2020-01-01T00:00");
    await ann.press("Create SAS token");
    await ann.sees("Choose a time in the future.");
    await ann.page.getByLabel("Key").selectOption("key2");
    await ann.page.getByLabel("Expires").fill("2099-01-01T00:00");
    await ann.press("Create SAS token");
    await ann.sees("Publish with it", "regenerating key2 ends it at once");
    const token = await ann.page.locator('[data-copy="token"]').textContent();
    const url = await ann.page.locator('[data-copy="publish URL"]').textContent();
    assert.equal(await publish(url, token), 200);
    assert.equal(await publish(url, token.replace("2099", "2098")), 401);
    await ann.leave();
  });
}

/** Publishes an event to a topic of either kind; returns the status. */
async function publish(url, token) {
  const isInNamespace = url.endsWith(":publish");
  const type = isInNamespace ? "application/cloudevents+json" : "application/json";
  const event = { specversion: "1.0", id: "1", type: "Order.Paid", source: "/shop" };
  const body = isInNamespace ? JSON.stringify(event) : `[${EVENT}]`;
  const headers = { "aeg-sas-token": token, "Content-Type": type };
  const answer = await fetch(url, { method: "POST", headers, body });
  return answer.status;
}
