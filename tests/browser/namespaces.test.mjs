// Somebody makes a namespace whose events are pulled, and sees them come and go.

import assert from "node:assert/strict";

import { stage, testBothWays } from "./stage.mjs";

const AUDIT = "orders/eventsubscriptions/audit";

const begin = stage();

testBothWays("from a new namespace to an event that was pulled", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  await createNamespace(ann);
  await createTopic(ann);
  await createSubscription(ann);
  await publish(ann);
  // PUT changes nothing of the namespace that is there.
  await pull(ann, await appliance.createNamespace("shop"));
  await removeNamespace(ann);
  await ann.leave();
});

async function createNamespace(ann) {
  await ann.goesTo("Namespaces");
  await ann.follow("New namespace");
  await ann.isOn("New namespace");
  await ann.type("Name", "shop");
  await ann.press("Create namespace");
  await ann.isTold("Namespace shop has been created.");
  await ann.isOn("shop");
}

async function createTopic(ann) {
  await ann.follow("New topic");
  await ann.isOn("New topic of shop");
  await ann.type("Name", "orders");
  await ann.press("Create topic");
  await ann.isTold("Topic shop/orders has been created.");
  await ann.isOn("shop/orders");
}

async function createSubscription(ann) {
  await ann.follow("New pull subscription");
  await ann.isOn("New pull subscription of shop/orders");
  await ann.type("Name", "audit");
  await ann.press("Create event subscription");
  await ann.isTold("Event subscription audit has been created.");
  await ann.isOn("audit");
  await ann.sees("Available", "Locked");
}

async function publish(ann) {
  await ann.follow("shop/orders");
  await ann.follow("Publish event");
  await ann.isOn("Publish to shop/orders");
  await ann.press("Publish");
  await ann.isTold("1 event has been accepted.");
  await ann.goesTo("Subscriptions");
  await ann.follow("audit");
  await ann.isOn("audit");
  await ann.comesToSee("Example.Created");
  await ann.sees("1 never");
}

async function pull(ann, shop) {
  const { value } = await shop.post(`${AUDIT}:receive?maxWaitTime=10`);
  assert.equal(value.length, 1);
  await ann.comesToSee("1 once");

  const lockTokens = value.map(({ brokerProperties }) => brokerProperties.lockToken);
  const { succeededLockTokens } = await shop.post(`${AUDIT}:acknowledge`, { lockTokens });
  assert.deepEqual(succeededLockTokens, lockTokens);
  await ann.comesToSee("1 of 1 due");
}

async function removeNamespace(ann) {
  await ann.goesTo("Namespaces");
  await ann.follow("shop");
  await ann.follow("Delete");
  await ann.isOn("Delete namespace shop?");
  await ann.sees("1 topic with 1 event subscription would be deleted with it.");
  await ann.press("Delete");
  await ann.isTold("Namespace shop has been deleted.");
}
