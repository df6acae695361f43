// Dead letters read with Service Bus' client for JavaScript.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { ServiceBusClient } from "@azure/service-bus";

import { Appliance, eventually } from "./appliance.mjs";
import { Receiver } from "./receiver.mjs";

let appliance;
let receiver;
let client;
let topics = 0;

before(async () => {
  appliance = await Appliance.start();
  receiver = await Receiver.start();
  const token = (await readFile(join(appliance.dataDir, "management.token"), "utf8")).trim();
  const { host } = new URL(appliance.url);
  const connectionString =
    `Endpoint=sb://${host};SharedAccessKeyName=RootManageSharedAccessKey;` +
    `SharedAccessKey=${token};UseDevelopmentEmulator=true;`;
  client = new ServiceBusClient(connectionString, { retryOptions: { maxRetries: 0 } });
});

after(async () => {
  await client?.close();
  await receiver?.stop();
  await appliance?.stop();
});

const deadLettersOf = async (topic) =>
  (await appliance.manage("GET", `/everpost/deadLetters?topic=${topic.name}`)).value;

async function deadLetter(...ids) {
  const topic = await appliance.createTopic(`topic-${++topics}`);
  await appliance.subscribe(topic, "billing", receiver.url);
  receiver.script(...ids.map(() => 400));
  const events = ids.map((id) => ({
    id,
    subject: "/orders/7",
    eventType: "Order.Paid",
    eventTime: "2026-11-21T06:40:53Z",
    dataVersion: "1",
    data: { id },
  }));
  const headers = { "aeg-sas-key": topic.key1 };
  const body = JSON.stringify(events);
  const answer = await fetch(topic.endpoint, { method: "POST", headers, body });
  assert.equal(answer.status, 200, await answer.text());
  await eventually(
    async () => (await deadLettersOf(topic)).length === ids.length,
    `${ids.length} dead letters`,
  );
  return topic;
}

const receiving = (topic, options) =>
  client.createReceiver(topic.name, "billing", { subQueueType: "deadLetter", ...options });

test("dead letters are received, renewed, deferred and completed", async () => {
  const topic = await deadLetter("a", "b");
  const dead = receiving(topic);
  const peeked = await dead.peekMessages(5);
  assert.deepEqual(peeked.map((message) => message.messageId), ["a", "b"]);
  const found = [];
  while (found.length < 2) {
    found.push(...(await dead.receiveMessages(2, { maxWaitTimeInMs: 20_000 })));
  }
  const [a, b] = found.sort((one, other) => one.sequenceNumber.compare(other.sequenceNumber));
  assert.deepEqual(a.body.data, { id: "a" });
  assert.equal(a.deadLetterReason, "UndeliverableDueToHttpBadRequest");
  assert.ok((await dead.renewMessageLock(a)) >= a.lockedUntilUtc);
  await dead.completeMessage(a);
  await dead.deferMessage(b);
  assert.deepEqual(await dead.receiveMessages(1, { maxWaitTimeInMs: 500 }), []);
  const [deferred] = await dead.receiveDeferredMessages(b.sequenceNumber);
  assert.equal(deferred.state, "deferred");
  await dead.completeMessage(deferred);
  await assert.rejects(dead.completeMessage(deferred));
  assert.deepEqual(await deadLettersOf(topic), []);
  await dead.close();
});

test("dead letters are removed as they are received, and waited for", async () => {
  const topic = await deadLetter("a");
  const dead = receiving(topic, { receiveMode: "receiveAndDelete" });
  const [message] = await dead.receiveMessages(1, { maxWaitTimeInMs: 20_000 });
  assert.equal(message.messageId, "a");
  const isRemoved = async () => (await deadLettersOf(topic)).length === 0;
  await eventually(isRemoved, "it is removed once it is written");
  await dead.close();
});

test("nobody sends to a dead-letter queue", async () => {
  const topic = await deadLetter("a");
  const sender = client.createSender(`${topic.name}/Subscriptions/billing/$DeadLetterQueue`);
  await assert.rejects(sender.sendMessages({ body: "x" }), /Nobody sends to a dead-letter queue/);
  await sender.close();
});
