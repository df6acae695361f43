// The way of a new user: from the set-up link to a first event, through failures and a dead letter, to a filter, a
// namespace whose events are pulled, and a colleague.

import assert from "node:assert/strict";

import { Receiver } from "../clients/receiver.mjs";
import { Administrator } from "./administrator.mjs";
import { stage, testBothWays } from "./stage.mjs";

const AUDIT = "orders/eventsubscriptions/audit";

const begin = stage();

testBothWays("from the set-up link to a colleague", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  await deliverFirstEvent(ann);
  await createTopic(ann);
  await hasScripts(ann, options.javaScriptEnabled);
  await subscribe(ann, receiver);
  await retryNow(ann, receiver);
  const rejected = await findDeadLetter(ann, receiver);
  await mend(ann, receiver, rejected);
  await changeFilter(ann);
  await createNamespace(ann);
  await subscribeReceivers(ann);
  // PUT changes nothing of the namespace that is there.
  await pull(ann, await appliance.createNamespace("shop"));
  await removeNamespace(ann);
  await inviteColleague(ann, appliance, options);
  await ann.leave();
});

async function deliverFirstEvent(ann) {
  await ann.follow("Deliver the first event");
  await ann.isOn("First event");
  await ann.press("Create topic, inspector and subscription");
  await ann.press("Publish it");
  await ann.comesToSee("It has arrived: the inspector answered 200.");
}

async function createTopic(ann) {
  await ann.goesTo("Topics");
  await ann.follow("New topic");
  await ann.isOn("New topic");
  await ann.type("Name", "invoices");
  await ann.press("Create topic");
  await ann.isTold("Topic invoices has been created.");
  await ann.isOn("invoices");
}

/** Buttons that copy are the script's; without them nothing may be missing. */
async function hasScripts(ann, expected) {
  const buttons = await ann.page.getByRole("button", { name: /^Copy/ }).count();
  assert.equal(buttons > 0, expected);
}

async function subscribe(ann, receiver) {
  await ann.follow("New subscription");
  await ann.isOn("New event subscription of invoices");
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
  await ann.follow("invoices");
  await ann.follow("Publish event");
  await ann.isOn("Publish to invoices");
  const example = JSON.parse(await ann.page.getByLabel("Events", { exact: true }).inputValue());
  await ann.type("Events", JSON.stringify([{ ...example[0], id }]));
  await ann.press("Publish");
  await ann.isTold("1 event has been accepted.");
  await ann.sees("Example.Created", id);
}

/** Nobody waits for the schedule. */
async function retryNow(ann, receiver) {
  receiver.script(503, 503);
  await publish(ann, "order-1");
  await ann.comesToSee("1 attempt of at most 30");
  await ann.sees("Pending", "Attempt 1", "Busy", "503 Service Unavailable");
  await ann.sees("The receiver says that it is not available right now.");
  await ann.press("Retry now");
  await ann.isTold("503 Service Unavailable after");
  await ann.comesToSee("2 attempts of at most 30");
  await ann.press("Retry now");
  await ann.isTold("Delivered: 200 OK after");
  await ann.comesToSee("Delivered");
  await ann.sees("3 attempts", "Attempt 1", "Attempt 2", "Attempt 3", "200");
  assert.deepEqual(ids(receiver), ["order-1", "order-1", "order-1"]);
}

/** Returns the number of the delivery. */
async function findDeadLetter(ann, receiver) {
  receiver.script({ status: 400, body: "no field total" });
  await publish(ann, "order-2");
  await ann.comesToSee("400 Bad Request");
  await ann.sees("Dead-lettered", "no field total", "A 400 is never retried.");

  await ann.goesTo("Dead letters");
  await ann.isOn("Dead letters");
  await ann.sees("billing", "400 Bad Request", "Example.Created");
  await ann.openFirstRow();
  const [delivery] = ann.page.url().match(/\d+$/);
  await ann.isOn(`Dead letter ${delivery}`);
  await ann.sees("400 Bad Request", "Attempt 1", "no field total");
  return delivery;
}

async function mend(ann, receiver, rejected) {
  await ann.follow("Edit and resubmit");
  const event = JSON.parse(await ann.page.getByLabel("Event", { exact: true }).inputValue());
  await ann.type("Event", JSON.stringify({ ...event, subject: "/invoices/2" }));
  await ann.press("Resubmit");
  await ann.isTold("has been resubmitted as edited");
  await ann.comesToSee("Delivered");
  assert.equal(receiver.deliveries.at(-1).body[0].subject, "/invoices/2");
  await ann.goesTo("Dead letters");
  await ann.isOn("Dead letters");
  await ann.sees("No dead letters.");
  await ann.page.goto(`/admin/dead-letters/${rejected}`);
  await ann.sees("Resubmitted");
}

async function changeFilter(ann) {
  await ann.goesTo("Subscriptions");
  await ann.follow("billing");
  await ann.follow("Edit");
  await ann.isOn("Edit event subscription billing");
  await ann.type("Subject begins with", "/invoices/");
  await ann.press("Try on stored events");
  await ann.sees("No longer matched: 2");
  await ann.press("Save changes");
  await ann.isOn("billing");
  await ann.sees("/invoices/");
}

async function createNamespace(ann) {
  await ann.goesTo("Namespaces");
  await ann.follow("New namespace");
  await ann.isOn("New namespace");
  await ann.type("Name", "shop");
  await ann.press("Create namespace");
  await ann.isTold("Namespace shop has been created.");
  await ann.isOn("shop");
  await ann.follow("New topic");
  await ann.isOn("New topic in shop");
  await ann.type("Name", "orders");
  await ann.press("Create topic");
  await ann.isTold("Topic shop/orders has been created.");
  await ann.isOn("shop/orders");
}

async function subscribeReceivers(ann) {
  await ann.follow("New pull subscription");
  await ann.isOn("New pull subscription of shop/orders");
  await ann.type("Name", "audit");
  await ann.press("Create event subscription");
  await ann.isTold("Event subscription audit has been created.");
  await ann.isOn("audit");
  await ann.sees("Available", "Locked");
  await ann.follow("shop/orders");
  await ann.follow("Publish event");
  await ann.isOn("Publish to shop/orders");
  await ann.press("Publish");
  await ann.isTold("1 event has been accepted.");
  await ann.goesTo("Subscriptions");
  await ann.follow("audit");
  await ann.isOn("audit");
  await ann.comesToSee("Example.Created");
}

async function pull(ann, shop) {
  const { value } = await shop.post(`${AUDIT}:receive?maxWaitTime=10`);
  assert.equal(value.length, 1);
  await ann.comesToSee("1 ×");

  const lockTokens = value.map(({ brokerProperties }) => brokerProperties.lockToken);
  const { succeededLockTokens } = await shop.post(`${AUDIT}:acknowledge`, { lockTokens });
  assert.deepEqual(succeededLockTokens, lockTokens);
  await ann.comesToSee("1 of 1 due");
}

async function removeNamespace(ann) {
  await ann.goesTo("Namespaces");
  await ann.follow("shop");
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Delete namespace…");
  await ann.isOn("Delete namespace shop?");
  await ann.sees("Also deleted: 1 topic with 1 event subscription.");
  await ann.press("Delete namespace");
  await ann.isTold("Namespace shop has been deleted.");
}

async function inviteColleague(ann, appliance, options) {
  await ann.goesTo("Users");
  await ann.follow("New user");
  await ann.type("Name", "bob");
  await ann.page.getByLabel("Viewer").check();
  await ann.press("Create user");
  await ann.isOn("Password link for bob");
  const link = await ann.page.locator('[data-copy="link"]').textContent();
  const bob = await Administrator.arrive(ann.page.context().browser(), appliance.url, options);
  bob.allow(/403/);
  await bob.page.goto(link);
  await bob.type("New password", "chosen by nobody else");
  await bob.press("Set password");
  await bob.signIn("bob", "chosen by nobody else");
  await bob.isOn("Overview");
  await bob.page.goto("/admin/topics/invoices/subscriptions/billing/edit");
  await bob.isOn("Not allowed");
  await bob.follow("Go to Subscriptions");
  await bob.isOn("Subscriptions");
  await bob.leave();
}

const ids = (receiver) => receiver.deliveries.map(({ body }) => body[0].id);
