// What is drawn says the right numbers, in shapes, in words and in its table; and lists that can be searched.

import assert from "node:assert/strict";
import { test } from "node:test";

import { eventually } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const BILLING = "/admin/topics/orders/subscriptions/billing";

const arrive = stage();

const paid = (id) => ({
  id,
  eventType: "Order.Paid",
  subject: `/orders/${id}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { total: 12.5 },
});

/** Four events: one given up at once, three delivered; then two more that wait for a paused subscription. */
async function begin(t, options) {
  const { appliance, ann } = await arrive(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  receiver.script({ status: 400 });
  const orders = await appliance.createTopic("orders");
  await appliance.subscribe(orders, "billing", receiver.url);
  const counts = async () => (await appliance.manage("GET", "/everpost/counts")).value[0];
  await appliance.publish(orders, ["a", "b", "c", "d"].map(paid));
  await eventually(async () => (await counts()).pending === 0, "all have ended");
  await appliance.manage("POST", "/topics/orders/eventSubscriptions/billing/pause");
  await appliance.publish(orders, ["e", "f"].map(paid));
  return { appliance, receiver, orders, ann };
}

const charts = (ann) => ann.page.getByRole("main").locator(".chart svg");

test("charts say what happened, in shapes and in words", async (t) => {
  const { ann } = await begin(t);
  for (const path of ["/admin", "/admin/topics/orders", BILLING]) {
    await ann.page.goto(path);
    const said = await charts(ann).evaluateAll((all) => all.map((it) => it.getAttribute("aria-label")));
    assert.equal(said.length, 5, path);
    assert.equal(said[0], "Last 1 hour: 3 delivered, 1 dead-lettered, 0 dropped.");
    assert.match(said[1], /^Last 1 hour: 75\.0 % of 4 attempts succeeded; at worst [\d.]+ % in 1 min\.$/);
    assert.match(said[2], /^Last 1 hour: half of the deliveries took up to \d+ m?s, 95 % up to /);
    assert.match(said[3], /^Last 1 hour: at most \d deliveries waited; now 2 wait\.$/);
    assert.equal(said[4], "Last 1 hour: 1 delivery was dead-lettered; at most 1 in 1 min.");
    const drawn = ann.page.locator(".chart svg.low path.dead-lettered");
    const { height } = await drawn.boundingBox();
    assert.ok(height > 40, `the only dead letter fills its chart: ${height}`);
  }

  await ann.page.getByText("The same as a table").click();
  const column = async (label) => {
    const cells = ann.page.locator(`td[data-label="${label}"]`);
    return (await cells.allTextContents()).map(Number);
  };
  const sum = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  assert.equal(sum(await column("Delivered")), 3);
  assert.equal(sum(await column("Dead-lettered")), 1);
  assert.equal((await column("Waiting at the end"))[0], 2);
  assert.deepEqual(ann.problems(), []);
});

test("lists show the last day of each row", async (t) => {
  const { ann } = await begin(t);
  const image = (name) => ann.page.getByRole("img", { name, exact: true });
  await ann.page.goto("/admin/topics");
  // The test may run across the full hour.
  await ann.page.getByRole("img", { name: /^Last 24 hours: 6 events, at most \d in an hour\.$/ }).waitFor();
  await ann.page.goto("/admin/subscriptions");
  await image("Last 24 hours: 3 delivered, 1 attempt failed.").waitFor();
  await ann.sees("75.0 %");
  await ann.page.goto("/admin");
  await ann.sees("The event subscription is not healthy; no delivery is due.");
});

testBothWays("subscriptions are searched, and paused and resumed together", async (t, options) => {
  const { appliance, receiver, orders, ann } = await begin(t, options);
  await appliance.manage("POST", "/topics/orders/eventSubscriptions/billing/resume");
  await appliance.subscribe(orders, "crm", receiver.url, { labels: ["north"] });
  await appliance.subscribe(orders, "audit", receiver.url);
  await ann.page.goto("/admin/subscriptions");
  await ann.page.getByLabel("Label", { exact: true }).selectOption("north");
  await ann.press("Search");
  const names = async () => {
    const names = await ann.page.locator("tbody th").allTextContents();
    return names.map((name) => name.trim());
  };
  assert.deepEqual(await names(), ["crm"]);
  await ann.follow("Clear");
  assert.deepEqual(await names(), ["audit", "billing", "crm"]);

  await ann.page.getByLabel("Mark billing of orders").check();
  await ann.page.getByLabel("Mark crm of orders").check();
  // What is marked stays marked while other things happen.
  await appliance.publish(orders, [paid("g")]);
  await ann.press("Pause those ticked…");
  await ann.sees("2 event subscriptions would be paused.", "orders / billing, orders / crm.");
  await ann.press("Pause them");
  await ann.isTold("2 event subscriptions paused.");
  await ann.page.getByLabel("State", { exact: true }).selectOption("Paused");
  await ann.press("Search");
  assert.deepEqual(await names(), ["billing", "crm"]);
  await ann.page.getByLabel("Mark crm of orders").check();
  await ann.press("Resume those ticked…");
  await ann.press("Resume them");
  await ann.isTold("1 event subscription resumed.");
  const { properties } = await appliance.manage("GET", "/topics/orders/eventSubscriptions/crm");
  assert.equal(properties.everpost.state, "Active");
  assert.deepEqual(ann.problems(), []);
});
