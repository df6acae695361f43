// The stock Service Bus client for JavaScript against the appliance's AMQP connections.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { ServiceBusClient } from "@azure/service-bus";

const NODE =
  process.env.AMQP_NODE ??
  fileURLToPath(new URL("../../target/debug/examples/amqp_node", import.meta.url));

let node;
let client;
let connectionString;

before(async () => {
  node = spawn(NODE, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: node.stdout })) {
    const endpoint = line.match(/listening on (\S+)/)[1];
    connectionString = (key) =>
      `Endpoint=sb://${endpoint};SharedAccessKeyName=RootManageSharedAccessKey;` +
      `SharedAccessKey=${key};UseDevelopmentEmulator=true;`;
    break;
  }
  client = new ServiceBusClient(connectionString("c2VjcmV0"), { retryOptions: { maxRetries: 0 } });
});

after(async () => {
  await client.close();
  node.kill();
});

const named = (prefix = "q") => `${prefix}-${randomUUID()}`;

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
  const queue = named();
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
    assert.equal(message.sequenceNumber.toString(), "1");
    assert.ok(message.lockedUntilUtc > new Date());
    await receiver.completeMessage(message);
    assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }), []);
  });
});

test("batches and large messages", async () => {
  const queue = named();
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
  const queue = named();
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
  const queue = named();
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
  const queue = named();
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
  const queue = named("short");
  await send(queue, { body: "slow" });
  await receiving(queue, { maxAutoLockRenewalDurationInMs: 0 }, async (receiver) => {
    const [message] = await receive(receiver, 1);
    const until = await receiver.renewMessageLock(message);
    assert.ok(until >= message.lockedUntilUtc);
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await assert.rejects(receiver.completeMessage(message), { code: "MessageLockLost" });
    const [again] = await receive(receiver, 1);
    assert.equal(again.deliveryCount, 1);
    await receiver.completeMessage(again);
  });
});

test("messages are peeked at, scheduled and cancelled", async () => {
  const queue = named();
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
  });
  await sender.close();
});

test("messages are removed as they are received", async () => {
  const queue = named();
  await send(queue, [{ body: "a" }, { body: "b" }]);
  await receiving(queue, { receiveMode: "receiveAndDelete" }, async (receiver) => {
    const found = await receive(receiver, 2);
    assert.deepEqual(found.map((message) => message.body), ["a", "b"]);
    assert.deepEqual(await receiver.peekMessages(1), []);
  });
});

test("a subscriber sees everything, and what it fails at dies", async () => {
  const queue = named();
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

test("sessions have one holder, state and order", async () => {
  const queue = named("session");
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
  assert.deepEqual(found.map((message) => message.body), ["1", "2"]);
  for (const message of found) await one.completeMessage(message);
  const two = await client.acceptNextSession(queue);
  assert.equal(two.sessionId, "two");
  await two.close();
  await one.close();
});

test("missing queues are named", async () => {
  await assert.rejects(send("missing", { body: "lost" }), { code: "MessagingEntityNotFound" });
});

test("a wrong key opens nothing", async () => {
  const wrong = new ServiceBusClient(connectionString("d3Jvbmc="), {
    retryOptions: { maxRetries: 0 },
  });
  const sender = wrong.createSender(named());
  await assert.rejects(sender.sendMessages({ body: "lost" }), { code: "UnauthorizedAccess" });
  await wrong.close();
});
