// What stands in an appliance that has been in use for a while: something in every state there is.

import { eventually } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";

const LONG_TOPIC = `topic-with-a-name-as-long-as-names-may-be-${"x".repeat(8)}`;
export const LONG_SUBSCRIPTION = `subscription-${"y".repeat(51)}`;
export const LONG_WORD = "Wordwithoutanyplacetobreakit".repeat(8);

// Nobody listens there: it is reserved, and not given out by the system.
const NOBODY = "http://127.0.0.1:1/events";

const orderPaid = (changes) => ({
  id: "order-1",
  eventType: "Order.Paid",
  subject: "/orders/1",
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { customer: { name: "Zoë", since: 2019 }, lines: [{ sku: "A-1", count: 2 }], total: 12.5 },
  ...changes,
});

/** Everything that a busy appliance shows. Returns what ends its receivers. */
export async function furnish(appliance) {
  const receivers = await Promise.all(Array.from({ length: 4 }, () => Receiver.start()));
  const [warehouse, billing, reports, archive] = receivers;
  const orders = await appliance.createTopic("orders");
  await deliveries(appliance, orders, warehouse);
  await retries(appliance, orders, billing);
  await deadLetters(appliance, orders, reports);
  const failed = unproven(appliance, orders);
  await appliance.publish(orders, [orderPaid({ id: "lost-1", eventType: "Order.Lost" })]);
  await everyOption(appliance, await appliance.createTopic(LONG_TOPIC), archive);
  await cloudEvents(appliance);
  await appliance.manage("POST", "/everpost/users", { name: "bob", role: "viewer" });
  await appliance.manage("POST", "/everpost/tokens", { name: "ci", role: "operator", days: 30 });
  await namespace(appliance);
  await queues(appliance);
  await serviceBusTopic(appliance);
  await inspected(appliance);
  await alerts(appliance);
  await rejectedEvents(appliance, orders);
  await replayJob(appliance);
  await failed;
  return () => Promise.all(receivers.map((receiver) => receiver.stop()));
}

async function deliveries(appliance, orders, receiver) {
  await appliance.subscribe(orders, "warehouse", `${receiver.url}?code=hush`, {
    filter: { includedEventTypes: ["Order.Shipped"] },
  });
  const shipped = (index) => orderPaid({ id: `shipped-${index}`, eventType: "Order.Shipped" });
  await appliance.publish(orders, Array.from({ length: 60 }, (_, index) => shipped(index)));
  await receiver.waitFor(60);
}

async function alerts(appliance) {
  const path = "/everpost/alerts";
  await appliance.manage("PUT", `${path}/channels/on-call`, { type: "WebHook", format: "Slack", endpointUrl: NOBODY });
  await appliance.manage("PUT", `${path}/channels/${"channel-".repeat(6)}x`, {
    ...{ type: "Email", host: "127.0.0.1", port: 1, from: "everpost@example.com" },
    to: [`${"a-long-address-".repeat(3)}@example.com`, "ops@example.com"],
  });
  await appliance.manage("PUT", `${path}/rules/disk-space`, { type: "DiskSpace", megabytes: 2 ** 30 });
}

async function retries(appliance, orders, receiver) {
  const closed = { status: 503, body: "Closed for stocktaking until the evening." };
  receiver.script(...Array(12).fill(closed)); // however long one looks
  await appliance.subscribe(orders, "billing", receiver.url, {
    filter: { includedEventTypes: ["Order.Paid"] },
  });
  await appliance.publish(orders, [orderPaid()]);
  await receiver.waitFor(1);
}

async function deadLetters(appliance, orders, receiver) {
  const body = JSON.stringify({ error: "no field total", hint: LONG_WORD });
  receiver.script({ status: 400, headers: { "X-Reason": LONG_WORD }, body }, 401);
  await appliance.subscribe(orders, "reports", receiver.url, {
    filter: { includedEventTypes: ["Order.Rejected"] },
  });
  const rejected = { eventType: "Order.Rejected", subject: `/orders/${LONG_WORD}` };
  await appliance.publish(orders, [orderPaid({ ...rejected, id: "rejected-1" })]);
  await appliance.publish(orders, [orderPaid({ ...rejected, id: LONG_WORD, data: LONG_WORD })]);
  const areDead = async () =>
    (await appliance.manage("GET", "/everpost/deadLetters")).value.length === 2;
  await eventually(areDead, "two dead letters");
}

/** Its handshake takes three tries, five seconds apart. */
function unproven(appliance, orders) {
  const filter = { includedEventTypes: ["Order.Lost"] };
  return appliance.subscribe(orders, "audit", NOBODY, { filter }, "Failed");
}

async function everyOption(appliance, topic, receiver) {
  const destination = {
    endpointType: "WebHook",
    properties: {
      endpointUrl: receiver.url,
      maxEventsPerBatch: 10,
      preferredBatchSizeInKilobytes: 64,
      deliveryAttributeMappings: [
        { name: "X-Tenant", type: "Static", properties: { value: LONG_WORD, isSecret: false } },
        { name: "X-Key", type: "Static", properties: { value: "hush", isSecret: true } },
        { name: "X-Order", type: "Dynamic", properties: { sourceField: "data.id" } },
      ],
    },
  };
  await appliance.subscribe(topic, LONG_SUBSCRIPTION, "", {
    destination,
    filter: {
      includedEventTypes: ["Order.Paid", "Order.Rejected", `Order.${LONG_WORD}`],
      subjectBeginsWith: "/orders/",
      subjectEndsWith: ".json",
      isSubjectCaseSensitive: true,
      advancedFilters: [
        { operatorType: "NumberGreaterThan", key: "data.total", value: 100 },
        { operatorType: "StringIn", key: "data.country", values: ["NL", "PT", LONG_WORD] },
      ],
    },
    retryPolicy: { maxDeliveryAttempts: 5, eventTimeToLiveInMinutes: 90 },
    labels: ["finance", "north", LONG_WORD],
    expirationTimeUtc: "2099-01-01T00:00:00Z",
  });
  await appliance.publish(topic, [orderPaid({ id: "unwanted-1" })]);
  await appliance.subscribe(topic, "late", receiver.url);
}

/** With a queue in which events wait, one of them held by a receiver. */
async function namespace(appliance) {
  const shop = await appliance.createNamespace("shop", {
    tags: { team: "billing", note: LONG_WORD },
    properties: { inboundIpRules: [{ ipMask: "127.0.0.0/8", action: "Allow" }] },
  });
  await appliance.manage("PUT", "/namespaces/shop/topics/orders", { properties: {} });
  for (const name of ["audit", "idle"]) {
    const includedEventTypes = [`Order.${name}`];
    const properties = {
      deliveryConfiguration: { deliveryMode: "Queue", queue: { receiveLockDurationInSeconds: 300 } },
      filtersConfiguration: { includedEventTypes, filters: [{ operatorType: "IsNotNull", key: "id" }] },
    };
    const path = `/namespaces/shop/topics/orders/eventSubscriptions/${name}`;
    await appliance.manage("PUT", path, { properties });
  }
  const paid = { specversion: "1.0", type: "Order.audit", source: "/shop", data: { total: 12.5 } };
  const events = ["pulled-1", "pulled-2", `pulled-${LONG_WORD}`].map((id) => ({ ...paid, id }));
  await shop.post("orders:publish", events, "application/cloudevents-batch+json");
  await shop.post("orders/eventsubscriptions/audit:receive?maxEvents=1&maxWaitTime=10");
}

/** With messages that were published as events: names as long as they may be, and one that has no session id. */
async function queues(appliance) {
  await appliance.manage("PUT", "/queues/idle-queue", { properties: { forwardDeadLetteredMessagesTo: null } });
  await appliance.manage("PUT", "/queues/jobs", { properties: { defaultMessageTimeToLive: "P1D" } });
  for (const [name, ...rights] of [["jobs/worker", "Listen"], ["jobs/web-shop", "Send"], ["deploy", "Manage"]]) {
    await appliance.manage("PUT", `/everpost/accessRules/${encodeURIComponent(name)}`, { rights });
  }
  const steps = { requiresSession: true, requiresDuplicateDetection: true, forwardDeadLetteredMessagesTo: "jobs" };
  await appliance.manage("PUT", "/queues/steps", { properties: steps });
  const { key1 } = await appliance.manage("POST", "/topics/jobs/listKeys");
  const event = { specversion: "1.0", type: "Job.Created", source: "/shop", subject: `/jobs/${LONG_WORD}` };
  const events = ["job-1", LONG_WORD].map((id) => ({ ...event, id, data: { total: 12.5, word: LONG_WORD } }));
  await appliance.publish({ endpoint: `${appliance.url}/topics/jobs/api/events`, key1 }, events,
    "application/cloudevents-batch+json");
}

/** With a message that a rule has chosen, and a subscription that gets nothing. */
async function serviceBusTopic(appliance) {
  const topic = "/serviceBusTopics/shop.v1%2Fsales";
  await appliance.manage("PUT", topic, {});
  for (const name of ["large", "idle"]) {
    await appliance.manage("PUT", `${topic}/subscriptions/${name}`, {});
    await appliance.manage("DELETE", `${topic}/subscriptions/${name}/rules/$Default`);
  }
  const sqlExpression = `sys.Label = 'paid' OR word = '${LONG_WORD.slice(0, 500)}'`;
  await appliance.manage("PUT", `${topic}/subscriptions/large/rules/paid`, {
    properties: { sqlFilter: { sqlExpression }, action: { sqlExpression: "SET size = 'large'" } },
  });
  const headers = {
    Authorization: `Bearer ${await appliance.token()}`,
    "Content-Type": "application/json",
    BrokerProperties: JSON.stringify({ Label: "paid", MessageId: LONG_WORD.slice(0, 128) }),
  };
  const body = JSON.stringify({ total: 12.5, word: LONG_WORD });
  const sent = await fetch(`${appliance.url}/shop.v1/sales/messages`, { method: "POST", headers, body });
  if (sent.status !== 201) {
    throw new Error(await sent.text());
  }
}

/** One request that is no JSON, and one of events with a fault. */
async function rejectedEvents(appliance, orders) {
  await appliance.publishRejected(orders, "[{");
  const { subject, ...without } = orderPaid({ data: LONG_WORD.repeat(20) });
  await appliance.publishRejected(orders, JSON.stringify([orderPaid(), without]));
  const areKept = async () =>
    (await appliance.manage("GET", "/everpost/rejectedEvents")).value.length === 2;
  await eventually(areKept, "two rejected events");
}

/** One so slow that it goes on for as long as anybody looks. */
async function replayJob(appliance) {
  const filter = { topic: "orders", subscription: "warehouse" };
  await appliance.manage("POST", "/everpost/replays", {
    source: { kind: "Delivered", filter },
    eventsPerSecond: 0.001,
  });
}

/** Of which nobody wants any. */
async function cloudEvents(appliance) {
  const topic = await appliance.createTopic("cloud", { inputSchema: "CloudEventSchemaV1_0" });
  const event = {
    specversion: "1.0",
    id: "c-1",
    type: "com.example.parcel.delivered",
    source: "https://shop.example/parcels",
    subject: "parcel/7",
    time: "2026-11-21T06:40:53.138Z",
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    data_base64: "AAEC",
  };
  await appliance.publish(topic, event, "application/cloudevents+json");
}

async function inspected(appliance) {
  await appliance.manage("PUT", "/everpost/inspectors/idle", { answers: "429x5 timeout close 200" });
  const script = { answers: "503 200", responseHeaders: { "X-Long": LONG_WORD }, retryAfterInSeconds: 30 };
  await appliance.manage("PUT", "/everpost/inspectors/bin", script);
  const topic = await appliance.createTopic("inspected");
  await appliance.subscribe(topic, "bin", "https://inspector.everpost.internal/bin");
  await appliance.publish(topic, [
    orderPaid({ id: "inspected-1" }),
    orderPaid({ id: LONG_WORD, data: LONG_WORD.repeat(30) }),
  ]);
  const haveCome = async () =>
    (await appliance.manage("GET", "/everpost/inspectors/bin")).requestsReceived >= 3;
  await eventually(haveCome, "three requests");
}
