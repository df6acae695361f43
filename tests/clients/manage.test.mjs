// Management with Microsoft's own client for JavaScript.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { EventGridManagementClient } from "@azure/arm-eventgrid";

import { Appliance } from "./appliance.mjs";
import { Receiver } from "./receiver.mjs";

const SUBSCRIPTION = "00000000-0000-0000-0000-000000000000";
const GROUP = "everpost";

let appliance;
let receiver;
let client;

before(async () => {
  appliance = await Appliance.start();
  receiver = await Receiver.start();
  const token = (await readFile(join(appliance.dataDir, "management.token"), "utf8")).trim();
  client = new EventGridManagementClient({}, SUBSCRIPTION, {
    endpoint: appliance.url,
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
  // Its own policy sends no token over plain HTTP.
  client.pipeline.removePolicy({ name: "bearerTokenAuthenticationPolicy" });
  const sendRequest = (request, next) => {
    request.headers.set("Authorization", `Bearer ${token}`);
    return next(request);
  };
  client.pipeline.addPolicy({ name: "token", sendRequest });
});
after(() => Promise.all([appliance?.stop(), receiver?.stop()]));

const webhook = () => ({ destination: { endpointType: "WebHook", endpointUrl: receiver.url } });

test("a topic and an event subscription are created, listed and deleted", async () => {
  const { topics, topicEventSubscriptions } = client;
  for (const name of ["shop-a", "shop-b", "kept"]) {
    const topic = await topics.beginCreateOrUpdateAndWait(GROUP, name, { location: "local" });
    assert.equal(topic.provisioningState, "Succeeded");
  }
  const made = await topicEventSubscriptions.beginCreateOrUpdateAndWait(GROUP, "kept", "billing", webhook());
  assert.equal(made.provisioningState, "Succeeded");

  const listed = topics.listByResourceGroup(GROUP, { filter: "contains(name, 'shop-')", top: 1 });
  for await (const { name } of listed) {
    await topics.beginDeleteAndWait(GROUP, name);
  }

  const left = [];
  for await (const { name } of topics.listBySubscription()) {
    left.push(name);
  }
  assert.deepEqual(left, ["kept"]);
});

test("a handshake that fails is an error with its reason", async () => {
  await client.topics.beginCreateOrUpdateAndWait(GROUP, "orders", { location: "local" });
  receiver.handshake = { status: 403 };

  const created = client.topicEventSubscriptions.beginCreateOrUpdateAndWait(GROUP, "orders", "billing", webhook());

  await assert.rejects(created, (error) => /403/.test(`${error.message} ${JSON.stringify(error)}`));
});
