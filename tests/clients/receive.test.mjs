// Receiving with the libraries that CloudEvents and Standard Webhooks publish for JavaScript.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { CloudEvent, HTTP } from "cloudevents";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

import { Appliance } from "./appliance.mjs";
import { Receiver } from "./receiver.mjs";

let appliance;
let receiver;
let topics = 0;

before(async () => (appliance = await Appliance.start()));
after(() => appliance?.stop());
beforeEach(async () => (receiver = await Receiver.start()));
afterEach(() => receiver.stop());

const createTopic = () =>
  appliance.createTopic(`topic-${++topics}`, { inputSchema: "CloudEventSchemaV1_0" });

const cloudEvent = (changes) =>
  new CloudEvent({
    id: "an-event",
    source: "/orders",
    type: "Order.Paid",
    subject: "50% of 7",
    time: "2026-11-21T06:40:53.138Z",
    dataschema: "https://schemas.test/order",
    datacontenttype: "application/json",
    tenant: "north & south",
    count: 7,
    data: { total: 12.5, lines: [1, null, true], to: "Zoë" },
    ...changes,
  });

async function send(topic, { headers, body }) {
  const all = { ...headers, "aeg-sas-key": topic.key1 };
  const answer = await fetch(topic.endpoint, { method: "POST", headers: all, body });
  assert.equal(answer.status, 200, await answer.text());
}

const read = ({ headers, text }) => HTTP.toEvent({ headers, body: text });

test("a structured event comes out as it went in", async () => {
  const topic = await createTopic();
  await appliance.subscribe(topic, "billing", receiver.url);
  const sent = cloudEvent();

  await send(topic, HTTP.structured(sent));

  const [delivery] = await receiver.waitFor(1);
  assert.deepEqual(read(delivery).toJSON(), sent.toJSON());
});

test("a binary event comes out as it went in, its attributes as text", async () => {
  const topic = await createTopic();
  await appliance.subscribe(topic, "billing", receiver.url);
  const sent = cloudEvent({ subject: "/orders/7" });

  await send(topic, HTTP.binary(sent));

  const [delivery] = await receiver.waitFor(1);
  assert.deepEqual(read(delivery).toJSON(), { ...sent.toJSON(), count: "7" });
});

test("bytes and batches are read", async () => {
  const topic = await createTopic();
  const destination = {
    endpointType: "WebHook",
    properties: { endpointUrl: receiver.url, maxEventsPerBatch: 10 },
  };
  await appliance.subscribe(topic, "billing", receiver.url, { destination });
  const data_base64 = Buffer.from([137, 80, 0, 255]).toString("base64");

  await send(topic, HTTP.structured(cloudEvent({ data: undefined, data_base64, datacontenttype: "image/png" })));

  const [delivery] = await receiver.waitFor(1);
  const [event] = read(delivery);
  assert.deepEqual([...event.data], [137, 80, 0, 255]);
});

test("signatures are verified, and only those of what was sent", async () => {
  const topic = await createTopic();
  await appliance.subscribe(topic, "billing", receiver.url);
  const path = `/topics/${topic.name}/eventSubscriptions/billing/rotateSigningSecret`;
  const { secret } = await appliance.manage("POST", path, {});

  await send(topic, HTTP.structured(cloudEvent()));

  const [{ headers, text }] = await receiver.waitFor(1);
  assert.equal(new Webhook(secret).verify(text, headers).id, "an-event");
  const forged = () => new Webhook(secret).verify(text.replace("Paid", "Lost"), headers);
  assert.throws(forged, WebhookVerificationError);
});
