// Forms that were rejected, or not understood at first.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NAME, PASSWORD } from "./administrator.mjs";
import { stage } from "./stage.mjs";

const begin = stage();

test("a rejected form is gone back to and read again without being sent twice", async (t) => {
  const { ann } = await begin(t);
  ann.allow(/422/);
  await ann.page.goto("/admin/new-topic");
  await ann.type("Name", "two words");
  await ann.press("Create topic");
  await ann.page.getByRole("alert").waitFor();
  assert.match(ann.page.url(), /\/admin\/new-topic$/);
  await ann.type("Name", "orders");
  await ann.press("Create topic");
  await ann.isOn("orders");
  await ann.page.goBack();
  await ann.isOn("New topic");
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "orders");

  await ann.type("Name", "two words");
  await ann.press("Create topic");
  await ann.page.getByRole("alert").waitFor();
  const sent = [];
  ann.page.on("request", (request) => sent.push(request.method()));
  await ann.page.reload();
  await ann.isOn("New topic");
  assert.ok(!sent.includes("POST"), `${sent}`);
  assert.equal(await ann.page.getByRole("alert").count(), 0);
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "two words");
  await ann.leave();
});

test("a draft stays with its page, but for what is secret in it", async (t) => {
  const { appliance, ann } = await begin(t);
  ann.allow(/422/);
  await appliance.createTopic("orders");
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.type("Name", "two words");
  await ann.type("Endpoint URL", "https://shop.example/in?code=hush");
  await ann.page.getByLabel("Case-sensitive subject").check();
  await ann.press("Create event subscription");
  await ann.page.getByRole("alert").waitFor();
  const kept = await ann.page.evaluate(() => JSON.stringify(history.state));
  assert.ok(kept.includes("two words") && !kept.includes("hush") && !kept.includes("csrf"), kept);
  await ann.goesTo("Topics");
  await ann.page.goBack();
  await ann.isOn("New event subscription of orders");
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), "two words");
  assert.equal(await ann.page.getByLabel("Endpoint URL", { exact: true }).inputValue(), "");
  assert.ok(await ann.page.getByLabel("Case-sensitive subject").isChecked());
  await ann.leave();
});

test("a form with a clause added is gone back to, and shown keys are hidden again", async (t) => {
  const { appliance, ann } = await begin(t);
  await appliance.createTopic("orders");
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.press("Add clause");
  await ann.goesTo("Topics");
  await ann.page.goBack();
  await ann.isOn("New event subscription of orders");

  await ann.page.goto("/admin/topics/orders");
  await ann.press("Show keys");
  await ann.page.reload();
  await ann.isOn("orders");
  await ann.page.getByRole("button", { name: "Show keys", exact: true }).waitFor();
  await ann.leave();
});

test("a webhook that may not be called is told when it is saved, with what would allow it", async (t) => {
  const { appliance, ann } = await begin(t);
  await appliance.createTopic("orders");
  await ann.page.goto("/admin/topics/orders/new-subscription");
  await ann.type("Name", "billing");
  await ann.type("Endpoint URL", "http://10.1.2.3:9000/in");
  await ann.press("Create event subscription");
  await ann.isTold("Event subscription billing has been created, but its webhook cannot be called yet");
  await ann.sees("10.1.2.3 is", "--egress-allow 10.1.2.3/32", "EVERPOST_EGRESS_ALLOW");
  await ann.leave();
});

test("a password that is typed can be looked at", async (t) => {
  const { ann } = await begin(t);
  await ann.press("Sign out");
  await ann.page.goto("/admin/login");
  await ann.type("Name", NAME);
  await ann.type("Password", PASSWORD);
  const field = ann.page.getByLabel("Password", { exact: true });
  await ann.page.getByRole("button", { name: "Show password", exact: true }).click();
  assert.equal(await field.getAttribute("type"), "text");
  await ann.page.getByRole("button", { name: "Hide password", exact: true }).click();
  assert.equal(await field.getAttribute("type"), "password");
  await ann.press("Sign in");
  await ann.isOn("Overview");
  await ann.leave();
});

test("fields show for the choice that they belong to, and a renewed key at once", async (t) => {
  const { appliance, ann } = await begin(t);
  await ann.page.goto("/admin/new-topic");
  const mapping = ann.page.getByLabel("Default event type", { exact: true });
  assert.equal(await mapping.isVisible(), false);
  await ann.page.getByLabel("Input schema").selectOption("CustomEventSchema");
  assert.equal(await mapping.isVisible(), true);

  await appliance.createTopic("orders");
  await ann.page.goto("/admin/topics/orders/keys/key1/regenerate");
  await ann.press("Regenerate key");
  await ann.isTold("key1 has been regenerated.");
  await ann.page.getByRole("button", { name: "Copy key1", exact: true }).waitFor();
  await ann.page.reload();
  await ann.page.getByRole("button", { name: "Show keys", exact: true }).waitFor();
  await ann.leave();
});
