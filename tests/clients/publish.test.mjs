// Publishing with Microsoft's own client for JavaScript.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import {
  AzureKeyCredential,
  AzureSASCredential,
  EventGridPublisherClient,
  generateSharedAccessSignature,
} from "@azure/eventgrid";

import { Appliance } from "./appliance.mjs";
import { Receiver } from "./receiver.mjs";

let appliance;
let receiver;
let topics = 0;

before(async () => (appliance = await Appliance.start()));
after(() => appliance?.stop());
beforeEach(async () => (receiver = await Receiver.start()));
afterEach(() => receiver.stop());

const createTopic = (properties) => appliance.createTopic(`topic-${++topics}`, properties);

/** A client of `topic`; plain HTTP is something that each one has to allow. */
function publisher(topic, schema, credential = new AzureKeyCredential(topic.key1)) {
  const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
  return new EventGridPublisherClient(topic.endpoint, schema, credential, options);
}

const gridEvent = (changes) => ({
  eventType: "Order.Paid",
  subject: "/orders/7",
  dataVersion: "1",
  data: { total: 12.5 },
  ...changes,
});

const inAnHour = () => new Date(Date.now() + 3_600_000);

test("one event arrives whole", async () => {
  const topic = await createTopic();
  await appliance.subscribe(topic, "billing", receiver.url);
  const eventTime = new Date("2026-11-21T06:40:53.138Z");

  await publisher(topic, "EventGrid").send([gridEvent({ id: "one", eventTime })]);

  const [{ headers, body }] = await receiver.waitFor(1);
  assert.deepEqual(body, [
    {
      id: "one",
      topic: topic.id,
      subject: "/orders/7",
      eventType: "Order.Paid",
      eventTime: "2026-11-21T06:40:53.138Z",
      data: { total: 12.5 },
      dataVersion: "1",
      metadataVersion: "1",
    },
  ]);
  assert.equal(headers["content-type"], "application/json; charset=utf-8");
  assert.equal(headers["aeg-event-type"], "Notification");
  assert.equal(headers["aeg-subscription-name"], "BILLING");
  assert.equal(headers["aeg-delivery-count"], "0");
});

test("a list arrives event by event", async () => {
  const topic = await createTopic();
  await appliance.subscribe(topic, "billing", receiver.url);
  const ids = ["a", "b", "c"];

  await publisher(topic, "EventGrid").send(ids.map((id) => gridEvent({ id })));

  const deliveries = await receiver.waitFor(3);
  assert.deepEqual(deliveries.map(({ body }) => body[0].id).sort(), ids);
  assert.ok(deliveries.every(({ body }) => body.length === 1));
});

test("cloud events arrive alone, extensions and bytes included", async () => {
  const topic = await createTopic({ inputSchema: "CloudEventSchemaV1_0" });
  await appliance.subscribe(topic, "shipping", receiver.url);
  const event = { source: "/shop", type: "order.paid", time: new Date("2026-11-21T06:40:53.138Z") };

  await publisher(topic, "CloudEvent").send([
    { ...event, id: "json", data: { total: 1 }, extensionAttributes: { tenant: "north" } },
    { ...event, id: "bytes", data: Uint8Array.of(0, 255), datacontenttype: "image/png" },
  ]);

  const deliveries = await receiver.waitFor(2);
  const byId = Object.fromEntries(deliveries.map((delivery) => [delivery.body.id, delivery]));
  assert.deepEqual(byId.json.body, {
    specversion: "1.0",
    id: "json",
    source: "/shop",
    type: "order.paid",
    time: "2026-11-21T06:40:53.138Z",
    datacontenttype: "application/json",
    tenant: "north",
    data: { total: 1 },
  });
  assert.equal(byId.bytes.body.data_base64, "AP8=");
  const contentType = byId.json.headers["content-type"];
  assert.equal(contentType, "application/cloudevents+json; charset=utf-8");
});

test("custom events arrive as they were sent", async () => {
  const properties = {
    eventType: { sourceField: "kind", defaultValue: "Order" },
    subject: { defaultValue: "/orders" },
    dataVersion: { defaultValue: "1" },
  };
  const inputSchemaMapping = { inputSchemaMappingType: "Json", properties };
  const topic = await createTopic({ inputSchema: "CustomEventSchema", inputSchemaMapping });
  await appliance.subscribe(topic, "as-sent", receiver.url);
  const order = { kind: "Paid", lines: [{ item: "tea" }] };

  await publisher(topic, "Custom").send([order]);

  const [{ body }] = await receiver.waitFor(1);
  assert.deepEqual(body, [order]);
});

test("a signature publishes", async () => {
  const topic = await createTopic();
  const key = new AzureKeyCredential(topic.key2);
  const token = await generateSharedAccessSignature(topic.endpoint, key, inAnHour());

  await publisher(topic, "EventGrid", new AzureSASCredential(token)).send([gridEvent()]);

  assert.equal((await appliance.events(topic)).length, 1);
});

test("a wrong key is unauthorized", async () => {
  const topic = await createTopic();
  const client = publisher(topic, "EventGrid", new AzureKeyCredential("d3Jvbmc="));

  await assert.rejects(client.send([gridEvent()]), { statusCode: 401, code: "Unauthorized" });

  assert.deepEqual(await appliance.events(topic), []);
});

test("one bad event rejects the whole list", async () => {
  const topic = await createTopic();
  const list = [gridEvent(), gridEvent({ id: "" })];

  await assert.rejects(publisher(topic, "EventGrid").send(list), (error) => {
    assert.equal(error.statusCode, 400);
    assert.equal(error.code, "BadRequest");
    assert.match(error.message, /id/);
    assert.equal(error.details.body.error.details[0].code, "InputJsonInvalid");
    return true;
  });

  assert.deepEqual(await appliance.events(topic), []);
});
