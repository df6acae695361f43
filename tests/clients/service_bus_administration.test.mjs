// Queues, topics, subscriptions and rules as the stock administration client for JavaScript manages them, over TLS.
// It trusts the certificate authority that --tls-dev makes by NODE_EXTRA_CA_CERTS, which is read when a process starts.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { ServiceBusAdministrationClient } from "@azure/service-bus";

import { Appliance } from "./appliance.mjs";

const CONNECTION_STRING = process.env.ADMINISTRATION_CONNECTION_STRING;

if (CONNECTION_STRING === undefined) {
  let appliance;

  before(async () => {
    appliance = await Appliance.start("--tls-dev");
  });

  after(async () => {
    await appliance?.stop();
  });

  test("with a process that trusts the appliance", async () => {
    const token = (await readFile(join(appliance.dataDir, "management.token"), "utf8")).trim();
    const { host } = new URL(appliance.url);
    const ran = spawnSync(process.execPath, ["--test", fileURLToPath(import.meta.url)], {
      env: {
        PATH: process.env.PATH,
        NODE_EXTRA_CA_CERTS: join(appliance.dataDir, "tls-dev-ca.pem"),
        ADMINISTRATION_CONNECTION_STRING:
          `Endpoint=sb://${host};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=${token}`,
      },
      encoding: "utf8",
      // Its output is ours.
      stdio: ["ignore", "pipe", "pipe"],
    });
    assert.equal(ran.status, 0, ran.stdout + ran.stderr);
    assert.match(ran.stdout, /pass [1-9]/);
  });
} else {
  const admin = new ServiceBusAdministrationClient(CONNECTION_STRING);
  const all = async (found) => {
    const names = [];
    for await (const each of found) names.push(each.name ?? each.subscriptionName);
    return names;
  };

  test("a queue is created, read, changed, listed and deleted", async () => {
    const name = `q-${randomUUID()}`;
    const made = await admin.createQueue(name, {
      lockDuration: "PT30S",
      maxDeliveryCount: 3,
      requiresSession: true,
      userMetadata: "a < b",
    });
    assert.equal(made.name, name);
    const found = await admin.getQueue(name);
    assert.equal(found.lockDuration, "PT30S");
    assert.equal(found.maxDeliveryCount, 3);
    assert.equal(found.requiresSession, true);
    assert.equal(found.userMetadata, "a < b");
    assert.equal(found.status, "Active");
    found.maxDeliveryCount = 5;
    await admin.updateQueue(found);
    assert.equal((await admin.getQueue(name)).maxDeliveryCount, 5);
    assert.ok((await all(admin.listQueues())).includes(name));
    const counts = await admin.getQueueRuntimeProperties(name);
    assert.equal(counts.totalMessageCount, 0);
    assert.equal(counts.activeMessageCount, 0);
    assert.ok(counts.createdAt <= new Date());
    assert.equal(await admin.queueExists(name), true);
    await assert.rejects(admin.createQueue(name), { code: "MessageEntityAlreadyExistsError" });
    await admin.deleteQueue(name);
    assert.equal(await admin.queueExists(name), false);
    await assert.rejects(admin.getQueue(name), { code: "MessageEntityNotFoundError" });
    await assert.rejects(admin.createQueue(name, { lockDuration: "PT1S" }), {
      statusCode: 400,
      message: /LockDuration: .*PT5S/,
    });
  });

  test("lists come in pages", async () => {
    const prefix = `p-${randomUUID().slice(0, 8)}`;
    for (const number of [1, 2, 3]) await admin.createTopic(`${prefix}-${number}`);
    const names = await all(admin.listTopics());
    const pages = [];
    for await (const page of admin.listTopics().byPage({ maxPageSize: 2 })) {
      assert.ok(page.length <= 2);
      pages.push(...page.map((each) => each.name));
    }
    assert.deepEqual(pages, names);
    assert.equal(names.filter((name) => name.startsWith(prefix)).length, 3);
  });

  test("a topic with a subscription, its first rule and others", async () => {
    const topic = `t-${randomUUID()}`;
    await admin.createTopic(topic, { defaultMessageTimeToLive: "PT1H" });
    assert.equal((await admin.getTopic(topic)).defaultMessageTimeToLive, "PT1H");
    const made = await admin.createSubscription(topic, "some", {
      maxDeliveryCount: 2,
      defaultRuleOptions: {
        name: "paid",
        filter: { subject: "paid", applicationProperties: { n: 7, text: "x", yes: true } },
        action: { sqlExpression: "SET a = 1" },
      },
    });
    assert.deepEqual([made.topicName, made.subscriptionName], [topic, "some"]);
    assert.deepEqual(await all(admin.listRules(topic, "some")), ["paid"]);
    const paid = await admin.getRule(topic, "some", "paid");
    assert.equal(paid.filter.subject, "paid");
    assert.deepEqual(paid.filter.applicationProperties, { n: 7, text: "x", yes: true });
    assert.equal(paid.action.sqlExpression, "SET a = 1");

    await admin.createRule(topic, "some", "large", {
      sqlExpression: "total > @least",
      sqlParameters: { "@least": 100 },
    });
    const large = await admin.getRule(topic, "some", "large");
    assert.equal(large.filter.sqlExpression, "total > @least");
    assert.deepEqual(large.filter.sqlParameters, { "@least": 100 });
    large.filter = { sqlExpression: "1=1" };
    await admin.updateRule(topic, "some", large);
    assert.equal((await admin.getRule(topic, "some", "large")).filter.sqlExpression, "1=1");
    await admin.deleteRule(topic, "some", "paid");
    assert.equal(await admin.ruleExists(topic, "some", "paid"), false);

    assert.deepEqual(await all(admin.listSubscriptions(topic)), ["some"]);
    const counts = await admin.getSubscriptionRuntimeProperties(topic, "some");
    assert.equal(counts.totalMessageCount, 0);
    assert.equal((await admin.getTopicRuntimeProperties(topic)).subscriptionCount, 1);
    const subscription = await admin.getSubscription(topic, "some");
    subscription.maxDeliveryCount = 9;
    await admin.updateSubscription(subscription);
    assert.equal((await admin.getSubscription(topic, "some")).maxDeliveryCount, 9);
    await admin.deleteSubscription(topic, "some");
    assert.equal(await admin.subscriptionExists(topic, "some"), false);
    await admin.deleteTopic(topic);
    assert.equal(await admin.topicExists(topic), false);
  });

  test("access rules make the round", async () => {
    for (const kind of ["Queue", "Topic"]) {
      const name = `a-${randomUUID()}`;
      const claim = { claimType: "SharedAccessKey", claimValue: "None" };
      const rules = [{ ...claim, keyName: "app", accessRights: ["Send", "Listen"], primaryKey: "p".repeat(44) }];
      await admin[`create${kind}`](name, { authorizationRules: rules });
      const found = await admin[`get${kind}`](name);
      assert.deepEqual(found.authorizationRules.map((each) => [each.keyName, each.accessRights]), [
        ["app", ["Send", "Listen"]],
      ]);
      await admin[`update${kind}`](found);
      found.authorizationRules[0].accessRights = ["Listen"];
      await admin[`update${kind}`](found);
      const [rule] = (await admin[`get${kind}`](name)).authorizationRules;
      assert.equal(rule.keyName, "app");
      assert.deepEqual([rule.accessRights].flat(), ["Listen"]);
    }
  });

  test("forwarding and the namespace", async () => {
    const [from, to] = [`f-${randomUUID()}`, `f-${randomUUID()}`];
    await admin.createQueue(to);
    const made = await admin.createQueue(from, { forwardTo: to });
    assert.ok(made.forwardTo.endsWith(`/${to}`), made.forwardTo);
    await admin.updateQueue(await admin.getQueue(from));
    const namespace = await admin.getNamespaceProperties();
    assert.equal(namespace.messagingSku, "Premium");
    assert.equal(namespace.messagingUnits, 1);
    assert.ok(namespace.name.length > 0);
  });
}
