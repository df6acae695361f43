// The stock Service Bus client for JavaScript, by areas: queues, topics and their subscriptions over TCP, TLS and WebSockets.
//
// A process trusts what it was started with, so each transport has a process of its own, all of them at once.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { AzureNamedKeyCredential } from "@azure/core-auth";
import { ServiceBusClient } from "@azure/service-bus";
import WebSocket from "ws";

import { Appliance, eventually } from "./appliance.mjs";

const TRANSPORTS = ["tcp", "tls", "websockets"];

// Below and above what fits into one frame.
const LARGE = 200_000;
const SIZES = [["small", 10], ["large", LARGE]];

const { SERVICE_BUS_OVER: OVER, SERVICE_BUS_URL: URL_OF, SERVICE_BUS_TOKEN: TOKEN } = process.env;

if (OVER === undefined) {
  let plain;
  let secure;

  before(async () => {
    [plain, secure] = await Promise.all([Appliance.start(), Appliance.start("--tls-dev")]);
  });

  after(() => Promise.all([plain?.stop(), secure?.stop()]));

  describe("over", { concurrency: true }, () => {
    for (const transport of TRANSPORTS) {
      test(transport, async () => {
        const appliance = transport === "tcp" ? plain : secure;
        const child = spawn(process.execPath, ["--test", "--test-reporter=spec", fileURLToPath(import.meta.url)], {
          env: {
            PATH: process.env.PATH,
            ...(transport === "tcp" ? {} : { NODE_EXTRA_CA_CERTS: join(appliance.dataDir, "tls-dev-ca.pem") }),
            SERVICE_BUS_OVER: transport,
            SERVICE_BUS_URL: appliance.url,
            SERVICE_BUS_TOKEN: await appliance.token(),
          },
        });
        let output = "";
        for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
        const status = await new Promise((resolve) => child.once("close", resolve));
        assert.equal(status, 0, output);
        assert.match(output, /pass [1-9]/);
      });
    }
  });
} else {
  suite(timers());
}

/** Timers from now on: the client leaves some behind, which keep a process for a minute. */
function timers() {
  const begun = new Set();
  const { setTimeout } = globalThis;
  globalThis.setTimeout = (...options) => {
    const timer = setTimeout(...options);
    begun.add(timer);
    return timer;
  };
  return begun;
}

function suite(timers) {
  const { host } = new URL(URL_OF);
  const connectionString = (key = TOKEN) =>
    `Endpoint=sb://${host};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=${key};` +
    (OVER === "tcp" ? "UseDevelopmentEmulator=true;" : "");
  const CONNECTION_STRING = connectionString();
  const OPTIONS = {
    retryOptions: { maxRetries: 0 },
    ...(OVER === "tcp" ? {} : { customEndpointAddress: `sb://${host}` }),
    ...(OVER === "websockets" ? { webSocketOptions: { webSocket: WebSocket } } : {}),
  };
  const client = new ServiceBusClient(CONNECTION_STRING, OPTIONS);

  after(async () => {
    await client.close();
    for (const timer of timers) clearTimeout(timer);
  });

  async function manage(method, path, body) {
    const headers = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" };
    const answer = await fetch(URL_OF + path, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  const bodies = (messages) => messages.map((message) => message.body);

  /** So many messages, which are removed. */
  async function removed(queue, count, options = {}) {
    return receiving(queue, { ...options, receiveMode: "receiveAndDelete" }, (receiver) => receive(receiver, count));
  }

  /** What a subscriber sees while something happens, until it has seen enough. */
  async function subscribed(queue, options, happens, isEnough) {
    return receiving(queue, options, async (receiver) => {
      const seen = [];
      const enough = new Promise((resolve, reject) => {
        receiver.subscribe({
          processMessage: async (message) => {
            seen.push(message.body);
            if (isEnough(seen)) resolve();
          },
          processError: async (args) => reject(args.error),
        });
      });
      await happens();
      await enough;
      return seen;
    });
  }

  async function createQueue(properties = { maxDeliveryCount: 3 }) {
    const name = `q-${randomUUID()}`;
    await manage("PUT", `/queues/${name}`, { properties });
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

  const SESSIONS = { requiresSession: true, maxDeliveryCount: 3, lockDuration: "PT5S" };

  async function createTopic(...subscriptions) {
    const topic = `t-${randomUUID()}`;
    await manage("PUT", `/serviceBusTopics/${topic}`, { properties: {} });
    for (const name of subscriptions) {
      const path = `/serviceBusTopics/${topic}/subscriptions/${name}`;
      await manage("PUT", path, { properties: {} });
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

  describe("sender", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`messages are sent and scheduled, ${kind}`, async () => {
        const queue = await createQueue();
        const sender = client.createSender(queue);
        const body = "x".repeat(size);
        await sender.sendMessages({ body });
        await sender.sendMessages([{ body }, { body: "b" }]);
        const numbers = await sender.scheduleMessages({ body }, new Date(Date.now() + 1_000));
        assert.equal(numbers.length, 1);
        await sender.close();
        assert.deepEqual(bodies(await removed(queue, 4)), [body, body, "b", body]);
      });
    }

    test("a closed sender sends nothing", async () => {
      const queue = await createQueue();
      const sender = client.createSender(queue);
      await sender.sendMessages({ body: "a" });
      await sender.close();
      assert.ok(sender.isClosed);
      await assert.rejects(sender.sendMessages({ body: "b" }), /closed/);
      assert.deepEqual(bodies(await removed(queue, 1)), ["a"]);
    });

    test("a disabled queue takes nothing", async () => {
      const queue = await createQueue({ status: "SendDisabled" });
      await assert.rejects(send(queue, { body: "lost" }), { code: "MessagingEntityDisabled" });
    });

    test("a full queue takes nothing more", async () => {
      const queue = await createQueue({ maxSizeInMegabytes: 1 });
      await send(queue, { body: Buffer.alloc(900_000) });
      await assert.rejects(send(queue, { body: Buffer.alloc(200_000) }), { code: "QuotaExceeded" });
    });

    test("nothing is sent to a dead-letter queue", async () => {
      await assert.rejects(send(`${await createQueue()}/$DeadLetterQueue`, { body: "lost" }));
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

    test("missing queues are named", async () => {
      await assert.rejects(send("missing", { body: "lost" }), { code: "MessagingEntityNotFound" });
    });
  });

  describe("batch", { concurrency: 6 }, () => {
    test("a batch takes no more than it is meant to", async () => {
      const queue = await createQueue();
      const sender = client.createSender(queue);
      const batch = await sender.createMessageBatch({ maxSizeInBytes: 500 });
      assert.ok(batch.tryAddMessage({ body: "a" }));
      assert.ok(!batch.tryAddMessage({ body: "x".repeat(500) }));
      assert.equal(batch.count, 1);
      await sender.sendMessages(batch);
      await assert.rejects(sender.createMessageBatch({ maxSizeInBytes: 2_000_000 }), /maxSizeInBytes|Max message size/i);
      await sender.close();
      assert.deepEqual(bodies(await removed(queue, 1)), ["a"]);
    });

    for (const [kind, size] of SIZES) {
      test(`messages of a batch keep what is their own, ${kind}`, async () => {
        const queue = await createQueue();
        const sender = client.createSender(queue);
        const batch = await sender.createMessageBatch();
        for (const number of [0, 1, 2]) {
          assert.ok(batch.tryAddMessage({ body: number + "x".repeat(size), messageId: `m${number}`, applicationProperties: { number } }));
        }
        await sender.sendMessages(batch);
        await sender.close();
        const found = await removed(queue, 3);
        assert.deepEqual(
          found.map((message) => [message.messageId, message.applicationProperties.number, message.body.length]),
          [0, 1, 2].map((number) => [`m${number}`, number, size + 1]),
        );
      });
    }

    test("a batch is stored whole or not at all", async () => {
      const queue = await createQueue(SESSIONS);
      await assert.rejects(send(queue, [{ body: "a", sessionId: "s" }, { body: "b" }]), /SessionId was not set/);
      const session = await client.acceptSession(queue, "s");
      assert.deepEqual(await session.peekMessages(9), []);
      await session.close();
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
  });

  describe("receiver", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`messages are settled in every way, ${kind}`, async () => {
        const queue = await createQueue();
        const large = "x".repeat(size);
        await send(queue, ["complete", "abandon", "defer", "dead"].map((each) => ({ body: each + large })));
        await receiving(queue, {}, async (receiver) => {
          const [complete, abandon, defer, dead] = await receive(receiver, 4);
          await receiver.completeMessage(complete);
          await receiver.deferMessage(defer, { tried: 1 });
          await receiver.deadLetterMessage(dead, { deadLetterReason: "broken", deadLetterErrorDescription: "y".repeat(4_000) });
          await receiver.abandonMessage(abandon);
          const [again] = await receive(receiver, 1);
          assert.deepEqual([again.body, again.deliveryCount], ["abandon" + large, 1]);
          await receiver.completeMessage(again);
          const [deferred] = await receiver.receiveDeferredMessages(defer.sequenceNumber);
          assert.deepEqual([deferred.body, deferred.applicationProperties.tried], ["defer" + large, 1]);
          await receiver.completeMessage(deferred);
        });
        const [dead] = await removed(queue, 1, { subQueueType: "deadLetter" });
        assert.deepEqual([dead.body, dead.deadLetterErrorDescription], ["dead" + large, "y".repeat(4_000)]);
      });
    }

    test("a message is settled once, and after its receiver was closed", async () => {
      const queue = await createQueue();
      await send(queue, [{ body: "a" }, { body: "b" }]);
      const receiver = client.createReceiver(queue);
      const [a, b] = await receive(receiver, 2);
      await receiver.completeMessage(a);
      await assert.rejects(receiver.completeMessage(a), /already settled/);
      await receiver.close();
      await assert.rejects(receiver.receiveMessages(1), /closed/);
      await receiving(queue, {}, async (other) => {
        await other.completeMessage(b);
        assert.deepEqual(await other.peekMessages(9), []);
      });
    });

    test("a receiver waits for what comes later", async () => {
      const queue = await createQueue();
      await receiving(queue, {}, async (receiver) => {
        const waiting = receiver.receiveMessages(1, { maxWaitTimeInMs: 10_000 });
        await send(queue, { body: "late" });
        assert.deepEqual(bodies(await waiting), ["late"]);
      });
    });

    test("what is waited for can be given up", async () => {
      const queue = await createQueue();
      await receiving(queue, {}, async (receiver) => {
        const abortSignal = AbortSignal.timeout(200);
        await assert.rejects(receiver.receiveMessages(1, { abortSignal }), { name: "AbortError" });
      });
    });

    test("wrong numbers are told", async () => {
      const queue = await createQueue();
      await send(queue, { body: "a" });
      await receiving(queue, {}, async (receiver) => {
        const [peeked] = await receiver.peekMessages(1);
        await assert.rejects(receiver.receiveDeferredMessages(peeked.sequenceNumber), { code: "MessageNotFound" });
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
  });

  describe("session receiver", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`a session has its messages and its state, ${kind}`, async () => {
        const queue = await createQueue(SESSIONS);
        const texts = [0, 1, 2].map((number) => number + "x".repeat(size));
        await send(queue, texts.map((body) => ({ body, sessionId: "s" })));
        await send(queue, { body: "other", sessionId: "t" });
        const session = await client.acceptSession(queue, "s");
        const found = await receive(session, 3);
        assert.deepEqual(bodies(found), texts);
        await session.setSessionState("y".repeat(size));
        assert.equal(await session.getSessionState(), "y".repeat(size));
        const [complete, defer, dead] = found;
        await session.completeMessage(complete);
        await session.deferMessage(defer);
        await session.deadLetterMessage(dead);
        const [deferred] = await session.receiveDeferredMessages(defer.sequenceNumber);
        assert.equal(deferred.body, texts[1]);
        await session.completeMessage(deferred);
        assert.deepEqual(await session.peekMessages(9), []);
        await session.close();
      });
    }

    test("several receivers hold a session each", async () => {
      const queue = await createQueue(SESSIONS);
      await send(queue, ["a", "b", "c"].map((sessionId) => ({ body: sessionId, sessionId })));
      const sessions = [];
      for (const _ of "abc") sessions.push(await client.acceptNextSession(queue));
      assert.deepEqual(sessions.map((session) => session.sessionId), ["a", "b", "c"]);
      for (const session of sessions) await session.close();
    });

    test("no session is told in time", async () => {
      const queue = await createQueue(SESSIONS);
      const impatient = new ServiceBusClient(CONNECTION_STRING, { ...OPTIONS, retryOptions: { maxRetries: 0, timeoutInMs: 1_000 } });
      await assert.rejects(impatient.acceptNextSession(queue), { code: "ServiceTimeout" });
      await impatient.close();
    });

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
  });

  describe("processor", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`a subscriber gets what comes later, in order, ${kind}`, async () => {
        const queue = await createQueue();
        const texts = [...Array(8).keys()].map((number) => number + "x".repeat(size));
        const seen = await subscribed(queue, {}, async () => {
          for (const body of texts) await send(queue, { body });
        }, (found) => found.length === texts.length);
        assert.deepEqual(seen, texts);
      });
    }

    test("a subscriber that settles itself", async () => {
      const queue = await createQueue();
      await send(queue, ["a", "bad", "b"].map((body) => ({ body })));
      await receiving(queue, {}, async (receiver) => {
        await new Promise((resolve, reject) => {
          receiver.subscribe(
            {
              processMessage: async (message) => {
                if (message.body === "bad") await receiver.deadLetterMessage(message, { deadLetterReason: "broken" });
                else await receiver.completeMessage(message);
                if (message.body === "b") resolve();
              },
              processError: async (args) => reject(args.error),
            },
            { autoCompleteMessages: false },
          );
        });
        assert.deepEqual(await receiver.peekMessages(9), []);
      });
      assert.deepEqual(bodies(await removed(queue, 1, { subQueueType: "deadLetter" })), ["bad"]);
    });

    test("a subscriber is told what went wrong", async () => {
      const receiver = client.createReceiver("missing");
      const error = await new Promise((resolve) => {
        receiver.subscribe({ processMessage: async () => {}, processError: async (args) => resolve(args.error) });
      });
      assert.equal(error.code, "MessagingEntityNotFound");
      await receiver.close();
    });

    test("messages are iterated over", async () => {
      const queue = await createQueue();
      await send(queue, ["a", "b", "c"].map((body) => ({ body })));
      await receiving(queue, {}, async (receiver) => {
        const found = [];
        for await (const message of receiver.getMessageIterator()) {
          found.push(message.body);
          await receiver.completeMessage(message);
          if (found.length === 3) break;
        }
        assert.deepEqual(found, ["a", "b", "c"]);
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
  });

  describe("session processor", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`each session is processed in its order, ${kind}`, async () => {
        const queue = await createQueue(SESSIONS);
        const names = ["a", "b"];
        for (const number of [0, 1, 2]) {
          await send(queue, names.map((sessionId) => ({ body: number + "x".repeat(size), sessionId })));
        }
        for (const name of names) {
          const session = await client.acceptNextSession(queue);
          const seen = [];
          await new Promise((resolve, reject) => {
            session.subscribe({
              processMessage: async (message) => {
                seen.push(message.body[0]);
                if (seen.length === 3) setTimeout(resolve, 100);
              },
              processError: async (args) => reject(args.error),
            });
          });
          assert.deepEqual([session.sessionId, seen], [name, ["0", "1", "2"]]);
          await session.close();
        }
      });
    }

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
  });

  describe("rules", { concurrency: 6 }, () => {
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
        await manage("PUT", `${path}/r${number}`, { properties: {} });
      }
      const rules = client.createRuleManager(topic, "all");
      assert.equal(Object.keys(await listed(rules)).length, 106);
    });
  });

  describe("message", { concurrency: 6 }, () => {
    for (const [kind, body] of Object.entries({
      text: "grün",
      number: 12.5,
      nothing: null,
      object: { a: [1, { b: true }] },
      array: [1, "two"],
      bytes: Buffer.from([0, 255]),
      "a large text": "x".repeat(LARGE),
      "large bytes": Buffer.alloc(LARGE, "x"),
    })) {
      test(`a body may be ${kind}`, async () => {
        const queue = await createQueue();
        await send(queue, { body });
        const [message] = await removed(queue, 1);
        assert.deepEqual(message.body, body);
      });
    }

    test("bodies are data, values or sequences", async () => {
      const queue = await createQueue();
      for (const [bodyType, body] of [["data", "a"], ["value", { a: 1 }], ["sequence", [1, 2]]]) {
        await send(queue, { bodyType, body });
        const [message] = await removed(queue, 1);
        assert.deepEqual(message.body, body);
        assert.equal(message._rawAmqpMessage.bodyType, bodyType);
      }
    });

    test("properties of the application keep their types", async () => {
      const queue = await createQueue();
      const at = new Date(1_767_323_045_678);
      const applicationProperties = { text: "grün", whole: -7, half: 0.5, yes: true, no: false, nothing: null, at };
      await send(queue, { body: "a", applicationProperties });
      const [message] = await removed(queue, 1);
      assert.deepEqual(message.applicationProperties, { ...applicationProperties, at: at.getTime() });
    });

    test("annotated messages arrive with header, annotations and footer", async () => {
      const queue = await createQueue();
      const sent = {
        bodyType: "data",
        body: Buffer.from("a"),
        header: { priority: 7, durable: true },
        messageAnnotations: { color: "red" },
        footer: { sum: 2 },
        properties: { messageId: "m", correlationId: "c", groupId: "g", subject: "s" },
      };
      await send(queue, sent);
      const [message] = await removed(queue, 1);
      const raw = message._rawAmqpMessage;
      assert.deepEqual([raw.header.priority, raw.header.durable], [7, true]);
      assert.equal(raw.messageAnnotations.color, "red");
      assert.deepEqual([message.messageId, message.correlationId, message.sessionId, message.subject], ["m", "c", "g", "s"]);
    });

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
  });

  describe("client", { concurrency: 6 }, () => {
    test("a closed client has closed what it opened", async () => {
      const queue = await createQueue();
      const other = new ServiceBusClient(CONNECTION_STRING, OPTIONS);
      const sender = other.createSender(queue);
      await sender.sendMessages({ body: "a" });
      await other.close();
      await assert.rejects(sender.sendMessages({ body: "b" }), /closed/);
      assert.throws(() => other.createSender(queue), /closed/);
      assert.deepEqual(bodies(await removed(queue, 1)), ["a"]);
    });

    test("a connection string may name an entity", async () => {
      const queue = await createQueue();
      const other = new ServiceBusClient(`${CONNECTION_STRING};EntityPath=${queue}`.replace(";;", ";"), OPTIONS);
      const sender = other.createSender(queue);
      await sender.sendMessages({ body: "a" });
      await other.close();
      assert.deepEqual(bodies(await removed(queue, 1)), ["a"]);
    });

    test("a client shows a key by its name", async () => {
      const queue = await createQueue();
      if (OVER === "tcp") return; // only a connection string says that there is no TLS
      const credential = new AzureNamedKeyCredential("RootManageSharedAccessKey", TOKEN);
      const other = new ServiceBusClient(new URL(URL_OF).hostname, credential, OPTIONS);
      const sender = other.createSender(queue);
      await sender.sendMessages({ body: "a" });
      await other.close();
      assert.deepEqual(bodies(await removed(queue, 1)), ["a"]);
    });

    test("identifiers of clients are taken", async () => {
      const queue = await createQueue();
      const sender = client.createSender(queue, { identifier: "my sender" });
      assert.equal(sender.identifier, "my sender");
      await sender.sendMessages({ body: "a" });
      await sender.close();
      const receiver = client.createReceiver(queue, { identifier: "my receiver" });
      assert.equal(receiver.identifier, "my receiver");
      await receiver.completeMessage((await receive(receiver, 1))[0]);
      await receiver.close();
    });

    test("a wrong key opens nothing", async () => {
      const wrong = new ServiceBusClient(connectionString("d3Jvbmc="), OPTIONS);
      const sender = wrong.createSender(await createQueue());
      await assert.rejects(sender.sendMessages({ body: "lost" }), { code: "UnauthorizedAccess" });
      await wrong.close();
    });
  });

  describe("deleting", { concurrency: 6 }, () => {
    for (const [kind, size] of SIZES) {
      test(`a queue is purged by receiving and deleting, ${kind}`, async () => {
        const queue = await createQueue();
        for (let number = 0; number < 4; number++) await send(queue, [{ body: "x".repeat(size) }, { body: "y" }]);
        assert.equal((await removed(queue, 8)).length, 8);
        await receiving(queue, {}, async (receiver) => assert.deepEqual(await receiver.peekMessages(9), []));
      });
    }

    test("a receiver is told that its queue was deleted", async () => {
      const queue = await createQueue();
      await receiving(queue, {}, async (receiver) => {
        assert.deepEqual(await receiver.receiveMessages(1, { maxWaitTimeInMs: 100 }), []);
        await manage("DELETE", `/queues/${queue}`);
        await eventually(
          () => receiver.receiveMessages(1, { maxWaitTimeInMs: 500 }).then(() => false, (error) => error.code === "MessagingEntityNotFound"),
          "the receiver is told that its queue is gone",
        );
      });
    });
  });
}
