// Queues, as the stock Service Bus client for JavaScript uses them.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { ServiceBusClient } from "@azure/service-bus";

import { Appliance } from "./appliance.mjs";

const ONCE = { retryOptions: { maxRetries: 0 } };

let appliance;
let client;
let connectionString;

before(async () => {
  appliance = await Appliance.start();
  const token = (await readFile(join(appliance.dataDir, "management.token"), "utf8")).trim();
  const { host } = new URL(appliance.url);
  connectionString = (key = token) =>
    `Endpoint=sb://${host};SharedAccessKeyName=RootManageSharedAccessKey;` +
    `SharedAccessKey=${key};UseDevelopmentEmulator=true;`;
  client = new ServiceBusClient(connectionString(), ONCE);
});

after(async () => {
  await client?.close();
  await appliance?.stop();
});

async function createQueue(properties = { maxDeliveryCount: 3 }) {
  const name = `q-${randomUUID()}`;
  await appliance.manage("PUT", `/queues/${name}`, { properties });
  return name;
}

async function send(queue, messages) {
  const sender = client.createSender(queue);
  await sender.sendMessages(messages);
  await sender.close();
}

async function receiving(queue, options, use) {
  const receiver = client.createReceiver(queue, options);
  try {
    return await use(receiver);
  } finally {
    await receiver.close();
  }
}

async function receive(receiver, count) {
  const found = [];
  while (found.length < count) {
    const messages = await receiver.receiveMessages(count - found.length, {
      maxWaitTimeInMs: 5_000,
    });
    assert.ok(messages.length > 0, `only ${found.length} of ${count}`);
    found.push(...messages);
  }
  return found;
}

test("messages arrive with their properties", async () => {
  const queue = await createQueue();
  const sent = {
    body: { total: 12.5, text: "grün" },
    applicationProperties: { int: 7, text: "grün", yes: true },
    contentType: "application/json",
    correlationId: "c1",
    messageId: "m1",
    subject: "label",
    to: "to",
    replyTo: "reply",
    timeToLive: 300_000,
  };
  await send(queue, sent);
  await receiving(queue, {}, async (receiver) => {
    const [message] = await receive(receiver, 1);
    for (const [name, value] of Object.entries(sent)) {
      assert.deepEqual(message[name], value, name);
    }
    assert.equal(message.deliveryCount, 0);
    assert.ok(message.sequenceNumber.greaterThan(0));
    assert.ok(message.lockedUntilUtc > new Date());
    await receiver.completeMessage(message);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }), []);
  });
});

test("batches and large messages", async () => {
  const queue = await createQueue();
  const sender = client.createSender(queue);
  const batch = await sender.createMessageBatch();
  for (let number = 0; number < 100; number++) assert.ok(batch.tryAddMessage({ body: number }));
  await sender.sendMessages(batch);
  const large = Buffer.alloc(300_000, "x");
  await sender.sendMessages({ body: large });
  await assert.rejects(sender.sendMessages({ body: Buffer.alloc(2_000_000) }), {
    code: "MessageSizeExceeded",
  });
  await sender.close();
  await receiving(queue, {}, async (receiver) => {
    const found = await receive(receiver, 101);
    assert.deepEqual(
      found.slice(0, 100).map((message) => message.body),
      [...Array(100).keys()],
    );
    assert.ok(large.equals(found[100].body));
    for (const message of found) await receiver.completeMessage(message);
  });
});

test("abandoned messages return and die in the end", async () => {
  const queue = await createQueue();
  await send(queue, { body: "poison" });
  await receiving(queue, {}, async (receiver) => {
    for (let count = 0; count < 3; count++) {
      const [message] = await receive(receiver, 1);
      assert.equal(message.deliveryCount, count);
      await receiver.abandonMessage(message, { tried: count });
    }
  });
  await receiving(queue, { subQueueType: "deadLetter" }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    assert.equal(message.deadLetterReason, "MaxDeliveryCountExceeded");
    assert.equal(message.applicationProperties.tried, 2);
    await receiver.completeMessage(message);
  });
});

test("dead-lettered messages have their reason", async () => {
  const queue = await createQueue();
  await send(queue, { body: "bad" });
  await receiving(queue, {}, async (receiver) => {
    const [message] = await receive(receiver, 1);
    await receiver.deadLetterMessage(message, {
      deadLetterReason: "broken",
      deadLetterErrorDescription: "no number",
      extra: 1,
    });
  });
  await receiving(queue, { subQueueType: "deadLetter" }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    assert.equal(message.deadLetterReason, "broken");
    assert.equal(message.deadLetterErrorDescription, "no number");
    assert.equal(message.applicationProperties.extra, 1);
    await receiver.completeMessage(message);
  });
});

test("deferred messages come by their number", async () => {
  const queue = await createQueue();
  await send(queue, { body: "later" });
  await receiving(queue, {}, async (receiver) => {
    const [message] = await receive(receiver, 1);
    await receiver.deferMessage(message);
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(deferred.body, "later");
    await receiver.completeMessage(deferred);
    assert.deepEqual(await receiver.peekMessages(1), []);
  });
});

test("locks are renewed and lost", async () => {
  const queue = await createQueue({ lockDuration: "PT5S" });
  await send(queue, { body: "slow" });
  await receiving(queue, { maxAutoLockRenewalDurationInMs: 0 }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    const until = await receiver.renewMessageLock(message);
    assert.ok(until >= message.lockedUntilUtc);
    await new Promise((resolve) => setTimeout(resolve, 5_500));
    await assert.rejects(receiver.completeMessage(message), { code: "MessageLockLost" });
    const [again] = await receive(receiver, 1);
    assert.equal(again.deliveryCount, 1);
    await receiver.completeMessage(again);
  });
});

test("messages are peeked at, scheduled and cancelled", async () => {
  const queue = await createQueue();
  await send(queue, [{ body: "a" }, { body: "b" }]);
  const sender = client.createSender(queue);
  const late = new Date(Date.now() + 3_600_000);
  const numbers = await sender.scheduleMessages([{ body: "c" }, { body: "d" }], late);
  assert.equal(numbers.length, 2);
  await receiving(queue, {}, async (receiver) => {
    const peeked = await receiver.peekMessages(9);
    assert.deepEqual(
      peeked.map((message) => [message.body, message.state]),
      [
        ["a", "active"],
        ["b", "active"],
        ["c", "scheduled"],
        ["d", "scheduled"],
      ],
    );
    await sender.cancelScheduledMessages(numbers);
    await assert.rejects(sender.cancelScheduledMessages(numbers), { code: "MessageNotFound" });
    const from = { fromSequenceNumber: peeked[0].sequenceNumber };
    assert.equal((await receiver.peekMessages(9, from)).length, 2);
    const [bare] = await receiver.peekMessages(1, { ...from, omitMessageBody: true });
    const told = bare._rawAmqpMessage.deliveryAnnotations;
    assert.ok(told["omitted-message-body-size"] > 0, JSON.stringify(told));
  });
  await sender.close();
});

test("messages are removed as they are received", async () => {
  const queue = await createQueue();
  await send(queue, [{ body: "a" }, { body: "b" }]);
  await receiving(queue, { receiveMode: "receiveAndDelete" }, async (receiver) => {
    const found = await receive(receiver, 2);
    assert.deepEqual(found.map((message) => message.body), ["a", "b"]);
    assert.deepEqual(await receiver.peekMessages(1), []);
  });
});

test("a subscriber sees everything, and what it fails at dies", async () => {
  const queue = await createQueue();
  await send(
    queue,
    [...Array(50).keys()].map((number) => ({ body: number })),
  );
  const seen = new Set();
  await receiving(queue, {}, async (receiver) => {
    await new Promise((resolve, reject) => {
      receiver.subscribe(
        {
          processMessage: async (message) => {
            if (message.body === 13) throw new Error("unlucky");
            seen.add(message.body);
            if (seen.size === 49) setTimeout(resolve, 500);
          },
          processError: async (args) => {
            if (args.error.message !== "unlucky") reject(args.error);
          },
        },
        { maxConcurrentCalls: 5 },
      );
    });
  });
  await receiving(queue, { subQueueType: "deadLetter" }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    assert.equal(message.body, 13);
    await receiver.completeMessage(message);
  });
});

const SESSIONS = { requiresSession: true, maxDeliveryCount: 3, lockDuration: "PT5S" };

test("sessions have one holder, state and order", async () => {
  const queue = await createQueue(SESSIONS);
  await send(queue, [
    { body: "1", sessionId: "one" },
    { body: "2", sessionId: "one" },
    { body: "3", sessionId: "two" },
  ]);
  const one = await client.acceptSession(queue, "one");
  assert.equal(one.sessionId, "one");
  await one.setSessionState({ half: true });
  assert.deepEqual(await one.getSessionState(), { half: true });
  assert.ok((await one.renewSessionLock()) >= one.sessionLockedUntilUtc);
  await assert.rejects(client.acceptSession(queue, "one"), { code: "SessionCannotBeLocked" });
  const found = await receive(one, 2);
  assert.deepEqual(
    found.map((message) => [message.body, message.sessionId]),
    [
      ["1", "one"],
      ["2", "one"],
    ],
  );
  for (const message of found) await one.completeMessage(message);
  const two = await client.acceptNextSession(queue);
  assert.equal(two.sessionId, "two");
  assert.deepEqual((await two.peekMessages(9)).map((message) => message.body), ["3"]);
  await two.close();
  await one.close();
  const again = await client.acceptSession(queue, "one");
  assert.deepEqual(await again.getSessionState(), { half: true });
  await again.close();
});

test("a session is subscribed to, and messages are settled in it", async () => {
  const queue = await createQueue(SESSIONS);
  await send(
    queue,
    ["a", "bad", "later", "b"].map((body) => ({ body, sessionId: "s" })),
  );
  const session = await client.acceptNextSession(queue);
  const seen = [];
  let deferred;
  await new Promise((resolve, reject) => {
    session.subscribe(
      {
        processMessage: async (message) => {
          seen.push(message.body);
          if (message.body === "bad") {
            await session.deadLetterMessage(message, { deadLetterReason: "broken" });
          } else if (message.body === "later") {
            deferred = message.sequenceNumber;
            await session.deferMessage(message);
          } else {
            await session.completeMessage(message);
          }
          if (message.body === "b") setTimeout(resolve, 200);
        },
        processError: async (args) => reject(args.error),
      },
      { autoCompleteMessages: false },
    );
  });
  assert.deepEqual(seen, ["a", "bad", "later", "b"]);
  const [later] = await session.receiveDeferredMessages(deferred);
  assert.equal(later.body, "later");
  await session.completeMessage(later);
  await session.close();
  await receiving(queue, { subQueueType: "deadLetter" }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    assert.deepEqual([message.body, message.sessionId], ["bad", "s"]);
    await receiver.completeMessage(message);
  });
});

test("a session is lost in the end, and renewed until then", async () => {
  const queue = await createQueue(SESSIONS);
  await send(queue, { body: "slow", sessionId: "s" });
  const renewed = await client.acceptSession(queue, "s");
  const [message] = await receive(renewed, 1);
  await new Promise((resolve) => setTimeout(resolve, 6_500));
  await renewed.completeMessage(message);
  await renewed.close();
  await send(queue, { body: "late", sessionId: "s" });
  const never = { maxAutoLockRenewalDurationInMs: 0 };
  const lost = await client.acceptSession(queue, "s", never);
  await receive(lost, 1);
  await new Promise((resolve) => setTimeout(resolve, 5_500));
  await assert.rejects(lost.renewSessionLock(), { code: "SessionLockLost" });
  const other = await client.acceptNextSession(queue, never);
  const [again] = await receive(other, 1);
  assert.equal(again.deliveryCount, 1);
  await other.completeMessage(again);
  await other.close();
  await lost.close();
});

test("what sessions are for is enforced", async () => {
  const queue = await createQueue(SESSIONS);
  await assert.rejects(send(queue, { body: "lost" }), /SessionId was not set/);
  const plain = client.createReceiver(queue);
  await assert.rejects(plain.receiveMessages(1, { maxWaitTimeInMs: 500 }), /non-sessionful/);
  await plain.close();
  // In the client's own words: it does not wait for the reason.
  await assert.rejects(client.acceptSession(await createQueue(), "s"), /Failed to create a receiver for the requested session/);
});

test("duplicates are dropped", async () => {
  const queue = await createQueue({ requiresDuplicateDetection: true });
  await send(queue, [
    { body: "first", messageId: "a" },
    { body: "second", messageId: "a" },
    { body: "third", messageId: "b" },
  ]);
  await send(queue, { body: "fourth", messageId: "b" });
  await receiving(queue, { receiveMode: "receiveAndDelete" }, async (receiver) => {
    const found = await receive(receiver, 2);
    assert.deepEqual(found.map((message) => message.body), ["first", "third"]);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }), []);
  });
});

async function createTopic(...subscriptions) {
  const topic = `t-${randomUUID()}`;
  await appliance.manage("PUT", `/serviceBusTopics/${topic}`, { properties: {} });
  for (const name of subscriptions) {
    const path = `/serviceBusTopics/${topic}/subscriptions/${name}`;
    await appliance.manage("PUT", path, { properties: {} });
  }
  return topic;
}

async function received(topic, subscription, count) {
  const receiver = client.createReceiver(topic, subscription, { receiveMode: "receiveAndDelete" });
  const found = count ? await receive(receiver, count) : [];
  assert.deepEqual(await receiver.peekMessages(1), []);
  await receiver.close();
  return found;
}

async function listed(rules) {
  const found = {};
  for await (const { name, filter, action } of rules.listRules()) found[name] = { filter, action };
  return found;
}

test("rules are managed", async () => {
  const topic = await createTopic("all");
  const rules = client.createRuleManager(topic, "all");
  assert.deepEqual(await listed(rules), {
    $Default: { filter: { sqlExpression: "1=1" }, action: {} },
  });
  await rules.createRule("sql", { sqlExpression: "total > 100" }, { sqlExpression: "SET size = 'L'" });
  const correlation = {
    subject: "paid",
    correlationId: "c",
    applicationProperties: { text: "x", yes: true, number: 7 },
  };
  await rules.createRule("paid", correlation);
  await rules.deleteRule("$Default");
  const found = await listed(rules);
  assert.deepEqual(Object.keys(found), ["paid", "sql"]);
  assert.deepEqual(found.sql, {
    filter: { sqlExpression: "total > 100" },
    action: { sqlExpression: "SET size = 'L'" },
  });
  for (const [name, value] of Object.entries(correlation)) {
    assert.deepEqual(found.paid.filter[name], value, name);
  }
  await send(topic, [
    { body: "1", applicationProperties: { total: 700 } },
    {
      body: "2",
      subject: "paid",
      correlationId: "c",
      applicationProperties: { text: "x", yes: true, number: 7, more: 1 },
    },
    { body: "3", subject: "paid", applicationProperties: { total: 7 } },
  ]);
  const [first, second] = await received(topic, "all", 2);
  assert.deepEqual([first.body, second.body], ["1", "2"]);
  assert.deepEqual(first.applicationProperties, { total: 700, size: "L", RuleName: "sql" });
});

test("rules that cannot be are named", async () => {
  const topic = await createTopic("all");
  const rules = client.createRuleManager(topic, "all");
  await rules.createRule("one", { sqlExpression: "1=1" });
  await assert.rejects(rules.createRule("ONE", { sqlExpression: "1=1" }), {
    code: "MessagingEntityAlreadyExists",
  });
  await assert.rejects(rules.createRule("two", { sqlExpression: "total >" }), /column 8/);
  await assert.rejects(rules.createRule("two words", { sqlExpression: "1=1" }), /name of a rule/);
  await assert.rejects(rules.deleteRule("two"), { code: "MessagingEntityNotFound" });
  const missing = client.createRuleManager(topic, "none");
  await assert.rejects(missing.createRule("one", { sqlExpression: "1=1" }));
});

test("rules are listed page by page", async () => {
  const topic = await createTopic("all");
  const path = `/serviceBusTopics/${topic}/subscriptions/all/rules`;
  for (let number = 0; number < 105; number++) {
    await appliance.manage("PUT", `${path}/r${number}`, { properties: {} });
  }
  const rules = client.createRuleManager(topic, "all");
  assert.equal(Object.keys(await listed(rules)).length, 106);
});

test("subscriptions are received from and settled", async () => {
  const topic = await createTopic("one", "two");
  await send(topic, [{ body: "good" }, { body: "bad" }]);
  assert.equal((await received(topic, "two", 2)).length, 2);
  const receiver = client.createReceiver(topic, "one");
  const [good, bad] = await receive(receiver, 2);
  await receiver.completeMessage(good);
  await receiver.deadLetterMessage(bad, { deadLetterReason: "broken" });
  await receiver.close();
  const dead = client.createReceiver(topic, "one", { subQueueType: "deadLetter" });
  const [message] = await receive(dead, 1);
  assert.deepEqual([message.body, message.deadLetterReason], ["bad", "broken"]);
  await dead.completeMessage(message);
  await dead.close();
});

test("missing queues are named", async () => {
  await assert.rejects(send("missing", { body: "lost" }), { code: "MessagingEntityNotFound" });
});

test("a wrong key opens nothing", async () => {
  const wrong = new ServiceBusClient(connectionString("d3Jvbmc="), ONCE);
  const sender = wrong.createSender(await createQueue());
  await assert.rejects(sender.sendMessages({ body: "lost" }), { code: "UnauthorizedAccess" });
  await wrong.close();
});
