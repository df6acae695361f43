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

test("charts say what happened, in shapes and in words", async (t) => {
  const { ann } = await begin(t);
  for (const path of ["/admin", "/admin/topics/orders", BILLING]) {
    await ann.page.goto(path);
    const chart = (name) => ann.page.getByRole("img", { name, exact: true });
    const readouts = async (name) => (await chart(name).locator(".readout").allTextContents()).join("\n");
    const drawn = chart("Delivery attempts").locator("rect.fill-bad").last();
    const { height } = await drawn.boundingBox();
    assert.ok(height > 15, `the only failure shows: ${height}`);
    assert.match(await readouts("Delivery attempts"), /3 succeeded, 1 failed/);
    assert.match(await readouts("Success rate"), /75\.0 %/);
    assert.match(await readouts("Delivery time"), /p50 ≤\s\d+ m?s, p95 /);
    assert.match(await readouts("Pending deliveries"), /2 pending$/);
    // By the keyboard one value after the other.
    await chart("Pending deliveries").focus();
    await ann.page.keyboard.press("End");
    await chart("Pending deliveries").getByText("2 pending").waitFor();
  }

  await ann.page.getByText("Charts as a table").click();
  const table = ann.page.locator("#traffic-table table");
  const heads = await table.locator("thead th").allTextContents();
  const rows = await table.locator("tbody tr").all();
  const column = (label) =>
    Promise.all(rows.map(async (row) => Number((await row.locator("th, td").allTextContents())[heads.indexOf(label)])));
  const sum = (numbers) => numbers.reduce((sum, number) => sum + number, 0);
  assert.equal(sum(await column("Succeeded")), 3);
  assert.equal(sum(await column("Dead-lettered")), 1);
  assert.equal((await column("Pending"))[0], 2);
  assert.deepEqual(ann.problems(), []);
});

test("lists show the last day of each row", async (t) => {
  const { ann } = await begin(t);
  await ann.page.goto("/admin/topics");
  await ann.sees("6");
  await ann.page.goto("/admin/subscriptions");
  await ann.page.getByRole("img", { name: "Last 4 attempts: 3 succeeded, 1 failed", exact: true }).waitFor();
  await ann.sees("75.0 %");
  await ann.page.goto("/admin");
  await ann.sees("No delivery is overdue.");
});

testBothWays("subscriptions are searched, and paused and resumed together", async (t, options) => {
  const { appliance, receiver, orders, ann } = await begin(t, options);
  await appliance.manage("POST", "/topics/orders/eventSubscriptions/billing/resume");
  await appliance.subscribe(orders, "crm", receiver.url, { labels: ["north"] });
  await appliance.subscribe(orders, "audit", receiver.url);
  await ann.page.goto("/admin/subscriptions");
  await ann.page.getByLabel("Label", { exact: true }).selectOption("north");
  await ann.press("Filter");
  const names = async () => {
    const links = await ann.page.getByRole("rowheader").getByRole("link").allTextContents();
    return links.map((name) => name.trim()).sort();
  };
  assert.deepEqual(await names(), ["crm"]);
  await ann.follow("Clear filters");
  assert.deepEqual(await names(), ["audit", "billing", "crm"]);

  await ann.page.getByLabel("Select orders / billing").check();
  await ann.page.getByLabel("Select orders / crm").check();
  // What is selected stays selected while other things happen.
  await appliance.publish(orders, [paid("g")]);
  await ann.press("Pause selected");
  await ann.isOn("Pause 2 event subscriptions?");
  await ann.press("Pause 2 event subscriptions");
  await ann.isTold("Pause: 2 event subscriptions.");
  await ann.follow("Paused or disabled 2");
  assert.deepEqual(await names(), ["billing", "crm"]);
  await ann.page.getByLabel("Select orders / crm").check();
  await ann.press("Resume selected");
  await ann.press("Resume 1 event subscription");
  await ann.isTold("Resume: 1 event subscription.");
  const { properties } = await appliance.manage("GET", "/topics/orders/eventSubscriptions/crm");
  assert.equal(properties.everpost.state, "Active");
  assert.deepEqual(ann.problems(), []);
});
