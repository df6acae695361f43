// Somebody whose events do not arrive finds out why.

import { stage, testBothWays } from "./stage.mjs";

const begin = stage();

testBothWays("from the overview to the reason of a rejected request", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  const orders = await appliance.createTopic("orders");
  const invoices = await appliance.createTopic("invoices");

  await appliance.publishRejected(orders, '[{"id": "order-1", "subject": "/1"}]');
  await appliance.publishRejected(invoices, "[");
  await ann.reloadsUntil("2 publish requests");
  await ann.follow("View requests: 2 publish requests");
  await ann.isOn("Rejected events");
  await ann.page.getByLabel("Topic", { exact: true }).selectOption("orders");
  await ann.press("Filter");
  const told = 'Event 1 has no "eventType".';
  await ann.sees("400 Bad Request", told);
  await ann.openFirstRow();
  await ann.isOn("Rejected request 1");
  await ann.sees(told, '"id": "order-1"', "36 B");
  await ann.leave();
});
