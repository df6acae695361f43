// Filters: tried on what is stored before anything is saved.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Appliance } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";
import { Administrator } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

let browser;

before(async () => {
  browser = await openBrowser();
});

after(() => browser?.close());

const total = (id, total) => ({
  id,
  eventType: "Order.Paid",
  subject: `/orders/${id}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { total },
});

/** A topic with three events, and somebody signed in. */
async function begin(t, options) {
  const appliance = await Appliance.start();
  t.after(() => appliance.stop());
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const ann = await Administrator.arrive(browser, appliance.url, options);
  await ann.claim(appliance);
  const orders = await appliance.createTopic("orders");
  await appliance.publish(orders, [total("cheap", 10), total("fair", 100), total("dear", 1000)]);
  return { appliance, receiver, orders, ann };
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`a filter is tried before and after it is saved, ${how}`, async (t) => {
    const { ann, receiver } = await begin(t, { javaScriptEnabled });
    await ann.page.goto("/admin/topics/orders/new-subscription");
    await ann.type("Name", "billing");
    await ann.type("Subject begins with", "/orders/d");
    await ann.press("Try against stored events");
    await ann.sees("The filter matches 1 of the newest 3 events of orders");
    await ann.sees("Would match: 1", "Would not match: 2", "dear");
    await ann.sees('The filter wants subject begins with "/orders/d"', 'the event has "/orders/cheap"');
    assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "billing");

    await ann.type("Webhook URL", receiver.url);
    await ann.press("Create event subscription");
    await ann.isOn("billing");
    await ann.follow("Try against stored events");
    await ann.isOn("The filter of billing, tried");
    await ann.sees("Would match: 1");
    await ann.follow("Try another filter");
    await ann.isOn("Edit event subscription billing");
    await ann.type("Subject begins with", "/orders/");
    await ann.press("Try against stored events");
    await ann.sees("The filter that billing has now matches 1 of them.");
    await ann.sees("Newly matched: 2", "No longer matched: 0");
    await ann.leave();
  });
}
