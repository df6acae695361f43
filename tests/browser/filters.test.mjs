// The form of event subscriptions: filters tried and built, and secrets that are not shown again.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const arrive = stage();

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
  const { appliance, ann } = await arrive(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const orders = await appliance.createTopic("orders");
  await appliance.publish(orders, [total("cheap", 10), total("fair", 100), total("dear", 1000)]);
  return { appliance, receiver, orders, ann };
}

testBothWays("a filter is tried before and after it is saved", async (t, options) => {
  const { ann, receiver } = await begin(t, options);
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.type("Name", "billing");
  await ann.type("Subject begins with", "/orders/d");
  await ann.press("Try on stored events");
  await ann.sees("The filter matches 1 of the newest 3 events of orders");
  await ann.sees("Would match: 1", "Would not match: 2", "dear");
  await ann.sees('Wanted: subject begins with "/orders/d". The event has "/orders/cheap"');
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "billing");

  await ann.type("Endpoint URL", receiver.url);
  await ann.press("Create event subscription");
  await ann.isOn("billing");
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Try filter on stored events");
  await ann.isOn("Try the filter of billing");
  await ann.sees("Would match: 1");
  await ann.follow("Try another filter");
  await ann.isOn("Edit event subscription billing");
  await ann.type("Subject begins with", "/orders/");
  await ann.press("Try on stored events");
  await ann.sees("The saved filter matches 1.");
  await ann.sees("Newly matched: 2");
  await ann.leave();
});

test("clauses are added, removed and saved without JavaScript", async (t) => {
  const { appliance, ann, receiver } = await begin(t, { javaScriptEnabled: false });
  ann.allow(/422/); // what a rejected form answers with
  const clause = (number) => ann.page.getByRole("group", { name: `Clause ${number}`, exact: true });
  const fill = async (number, key, operator, values) => {
    await clause(number).getByLabel("Key").fill(key);
    await clause(number).getByLabel("Operator").selectOption(operator);
    await clause(number).getByLabel("Values").fill(values);
  };
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.type("Name", "billing");
  await ann.press("Add clause");
  await fill(1, "data.total", "NumberGreaterThan", "50");
  await ann.press("Add clause");
  const top = await clause(2).locator("legend").evaluate((legend) => legend.getBoundingClientRect().top);
  assert.ok(top >= 0, `the legend begins at ${top}`);
  await fill(2, "data.nothing", "IsNotNull", "");
  await ann.press("Add clause");
  await fill(3, "subject", "StringContains", "ea\nx");
  await ann.press("Remove clause 2");
  assert.equal(await clause(1).getByLabel("Values").inputValue(), "50");
  assert.equal(await clause(2).getByLabel("Values").inputValue(), "ea\nx");
  assert.equal(await clause(3).count(), 0);
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "billing");
  const keys = await ann.page.locator("datalist option").evaluateAll((all) => all.map(({ value }) => value));
  assert.ok(keys.includes("data.total") && keys.includes("subject"), keys.join());

  await clause(1).getByLabel("Values").fill("much");
  await ann.press("Try on stored events");
  await ann.page.getByRole("alert").getByRole("link", { name: "Clause 1: Values" }).waitFor();
  await clause(1).getByText('It must be a number, but it is "much".').waitFor();
  await clause(1).getByLabel("Values").fill("50");
  await ann.press("Try on stored events");
  await ann.sees("The filter matches 1 of the newest 3 events of orders", "subject contains one of");

  await ann.press("Edit as JSON");
  await ann.press("Edit as rows");
  await ann.type("Endpoint URL", receiver.url);
  await ann.press("Create event subscription");
  await ann.isOn("billing");
  const path = "/topics/orders/eventSubscriptions/billing";
  const { properties } = await appliance.manage("GET", path);
  assert.deepEqual(properties.filter.advancedFilters, [
    { operatorType: "NumberGreaterThan", key: "data.total", value: 50 },
    { operatorType: "StringContains", key: "subject", values: ["ea", "x"] },
  ]);
  await ann.leave();
});

test("Enter in a field of the form saves it", async (t) => {
  const { ann, receiver } = await begin(t);
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.press("Add clause");
  await ann.press("Remove clause 1");
  await ann.type("Name", "billing");
  await ann.type("Endpoint URL", receiver.url);
  await ann.page.getByLabel("Name", { exact: true }).press("Enter");
  await ann.isOn("billing");
  await ann.leave();
});

test("a bearer token is sent, and never shown again", async (t) => {
  const { appliance, orders, ann, receiver } = await begin(t);
  await appliance.subscribe(orders, "billing", receiver.url);
  await ann.page.goto("/admin/topics/orders/subscriptions/billing/edit");
  const token = ann.page.getByLabel("Token", { exact: true });
  assert.equal(await token.isVisible(), false, "nothing is asked that the choice does not need");
  await ann.unfold("Credentials");
  await ann.page.getByLabel("Authentication").selectOption("Bearer");
  assert.equal(await token.getAttribute("type"), "password");
  await token.fill("hush-hush");
  await ann.press("Add clause");
  assert.equal(await token.inputValue(), "hush-hush", "what was typed is not lost");
  await ann.press("Remove clause 1");
  await ann.press("Save changes");
  await ann.isOn("billing");
  await ann.sees("Bearer token");
  for (const path of ["", "/edit"]) {
    await ann.page.goto(`/admin/topics/orders/subscriptions/billing${path}`);
    assert.ok(!(await ann.page.content()).includes("hush-hush"));
  }
  await ann.unfold("Labels and expiration");
  await ann.type("Labels", "kept");
  await ann.press("Save changes");
  await appliance.publish(orders, [total("later", 1)]);
  await receiver.waitFor(1);
  assert.equal(receiver.deliveries[0].headers.authorization, "Bearer hush-hush");
  await ann.leave();
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`what is folded away keeps its values, ${how}`, async (t) => {
    const { appliance, ann, orders, receiver } = await begin(t, { javaScriptEnabled });
    ann.allow(/422/); // what a rejected form answers with
    const fold = (id) => ann.page.locator(`#fold-${id}`);
    const isOpen = (id) => fold(id).evaluate((details) => details.open);
    const header = (number) => ann.page.getByRole("group", { name: `Header ${number}`, exact: true });
    await ann.page.goto("/admin/topics/orders/new-subscription");
    assert.equal(await ann.page.locator("details.fold[open]").count(), 0);
    await ann.sees("Events per batch: 1", "Max attempts: 30");
    await ann.type("Name", "billing");
    await ann.type("Endpoint URL", receiver.url);
    await ann.unfold("Delivery");
    await ann.type("Events per batch", "many");
    await fold("delivery").locator("summary").click();
    await ann.press("Create event subscription");
    await ann.page.getByRole("alert").getByRole("link", { name: "Events per batch" }).waitFor();
    assert.ok(await isOpen("delivery"));
    await ann.type("Events per batch", "10");

    await ann.unfold("Custom headers");
    await ann.press("Add header");
    await ann.press("Add header");
    await header(1).getByLabel("Name").fill("X-Gone");
    await header(2).getByLabel("Name").fill("Host");
    await header(2).getByLabel("Value", { exact: true }).fill("hush-hush");
    await header(2).getByLabel("Secret", { exact: true }).check();
    await ann.press("Remove header 1");
    assert.equal(await header(1).getByLabel("Value", { exact: true }).getAttribute("type"), "password");
    await ann.press("Add header");
    await header(2).getByLabel("Name").fill("X-Order");
    await header(2).getByLabel("Value is").selectOption("Dynamic");
    await header(2).getByLabel("Field of the event").fill("subject");
    await ann.press("Create event subscription");
    await header(1).getByText("cannot be set").waitFor();
    await header(1).getByLabel("Name").fill("X-Key");
    for (const id of ["delivery", "headers"]) {
      await fold(id).locator("summary").click();
    }
    await ann.press("Create event subscription");
    await ann.isOn("billing");

    await ann.page.goto("/admin/topics/orders/subscriptions/billing/edit");
    assert.ok((await isOpen("delivery")) && (await isOpen("headers")) && !(await isOpen("retries")));
    assert.ok(!(await ann.page.content()).includes("hush-hush"));
    await ann.press("Save changes");
    await ann.isOn("billing");
    await appliance.publish(orders, [total("later", 1)]);
    await receiver.waitFor(1);
    const { headers } = receiver.deliveries[0];
    assert.equal(headers["x-key"], "hush-hush");
    assert.equal(headers["x-order"], "/orders/later");
    assert.equal(headers["x-gone"], undefined);
    await ann.leave();
  });
}
