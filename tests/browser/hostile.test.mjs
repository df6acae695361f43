// What publishers and webhooks say is shown, and does nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Appliance, eventually } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";
import { Administrator } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

const SCRIPT = "<script>window.taken = 1</script>";
const IMAGE = '"\'><img src=x onerror="window.taken = 2"><svg onload="window.taken = 3">';
const LINK = '<a href="javascript:window.taken = 4">Resubmit</a></textarea></pre></title>';
const RIGHT_TO_LEFT = "\u202Egnp.eciovni\u202C \u2066isolated";
const NUL = "before\u0000after";
const LONG = "long".repeat(5_000);

const EVENT = {
  id: `${SCRIPT}${RIGHT_TO_LEFT}`,
  eventType: `${IMAGE}${RIGHT_TO_LEFT}`,
  subject: `${LINK}${SCRIPT}${RIGHT_TO_LEFT}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: IMAGE,
  data: { [SCRIPT]: IMAGE, link: LINK, order: RIGHT_TO_LEFT, nul: NUL, long: LONG },
};

const ANSWER = {
  status: 400,
  headers: { "X-Reason": SCRIPT, Refresh: "0; url=https://evil.example", "Set-Cookie": "id=evil" },
  body: [SCRIPT, IMAGE, LINK, RIGHT_TO_LEFT, NUL, LONG].join("\n"),
};

const PAGES = [
  "/admin",
  "/admin/topics/orders",
  "/admin/topics/orders/subscriptions/billing",
  "/admin/topics/orders/subscriptions/billing/edit",
  "/admin/subscriptions",
  "/admin/events",
  `/admin/events?${new URLSearchParams({ type: IMAGE, id: SCRIPT, of: LINK, text: SCRIPT, from: IMAGE })}`,
  "/admin/events/1",
  "/admin/events/1?as=text",
  "/admin/namespaces/shop",
  "/admin/namespaces/shop/edit",
  "/admin/topics/shop%2Forders/subscriptions/audit",
  "/admin/topics/shop%2Forders/subscriptions/audit/edit",
  "/admin/rejected-events",
  `/admin/rejected-events?${new URLSearchParams({ reason: IMAGE, topic: LINK })}`,
  "/admin/rejected-events/1",
  "/admin/dead-letters",
  `/admin/dead-letters?${new URLSearchParams({ of: IMAGE })}`,
  "/admin/dead-letters/1",
  "/admin/dead-letters/1/resubmit",
  `/admin/topics/${encodeURIComponent(SCRIPT)}`,
];

let browser;
let appliance;
let receiver;
let ann;

before(async () => {
  browser = await openBrowser();
  appliance = await Appliance.start();
  receiver = await Receiver.start();
  receiver.script(ANSWER);
  const topic = await appliance.createTopic("orders");
  const properties = { labels: [SCRIPT, IMAGE], filter: { subjectBeginsWith: "<" } };
  await appliance.subscribe(topic, "billing", `${receiver.url}?code=${SCRIPT}`, properties);
  await appliance.publish(topic, [EVENT]);
  const isDead = async () =>
    (await appliance.manage("GET", "/everpost/deadLetters")).value.length === 1;
  await eventually(isDead, "a dead letter");
  await appliance.publishRejected(topic, JSON.stringify([{ ...EVENT, eventTime: `${SCRIPT}${IMAGE}` }]));
  const isKept = async () =>
    (await appliance.manage("GET", "/everpost/rejectedEvents")).value.length === 1;
  await eventually(isKept, "a rejected event");
  await hostileQueue();
  ann = await Administrator.arrive(browser, appliance.url);
  await ann.claim(appliance);
});

after(async () => {
  await browser?.close();
  await appliance?.stop();
  await receiver?.stop();
});

for (const page of PAGES) {
  test(`nothing hostile comes alive on ${decodeURIComponent(page)}`, async () => {
    ann.allow(/404/);
    await ann.page.goto(page, { waitUntil: "networkidle" });

    assert.deepEqual(await whatCameAlive(ann.page), []);
    assert.equal(new URL(ann.page.url()).origin, appliance.url);
    assert.deepEqual(await ann.overhang(), []);
    assert.deepEqual(ann.problems(), []);
  });
}

test("everything hostile can be read", async () => {
  await ann.page.goto("/admin/dead-letters/1");
  await ann.sees(SCRIPT, IMAGE, LINK, "refresh: 0; url=https://evil.example", "before\\u{0}after");
  await ann.screenshot("hostile-dead-letter");
  await ann.page.goto("/admin/events/1");
  await ann.sees(SCRIPT, LINK, "\\u{202e}gnp.eciovni\\u{202c}", "before\\u0000after");
  await ann.screenshot("hostile-event");
  await ann.page.goto("/admin/rejected-events/1");
  await ann.sees(SCRIPT, "before\\u0000after", "\\u{202e}gnp.eciovni\\u{202c}");
  await ann.screenshot("hostile-rejected-event");
});

/** A namespace and a queue whose words are hostile. */
async function hostileQueue() {
  const shop = await appliance.createNamespace("shop", { tags: { [SCRIPT]: IMAGE } });
  const orders = "/namespaces/shop/topics/orders";
  await appliance.manage("PUT", orders, { properties: {} });
  const filters = [{ operatorType: "StringContains", key: "type", values: ["<"] }];
  await appliance.manage("PUT", `${orders}/eventSubscriptions/audit`, {
    properties: {
      deliveryConfiguration: { deliveryMode: "Queue", queue: {} },
      filtersConfiguration: { filters },
      labels: [SCRIPT, IMAGE],
    },
  });
  const event = { specversion: "1.0", id: EVENT.id, type: EVENT.eventType, source: `/${encodeURIComponent(LINK)}` };
  await shop.post("orders:publish", event, "application/cloudevents+json");
}

/** What a page has that no page of ours has, what a script of others left behind, what does not show. */
function whatCameAlive(page) {
  return page.evaluate(() => {
    const taken = "taken" in window ? [`taken ${window.taken}`] : [];
    const strangers = [
      "main :is(script, img:not(.brand > img), iframe, object, embed, svg:not(.icon, .plot, .plot svg, .spark, .strip))",
      "main :is(style, link, base, meta)",
      "[onerror], [onload], [href^='javascript:' i], [src='x']",
    ];
    const elements = [...document.querySelectorAll(strangers.join())];
    const steering = /[\0-\x08\v\f\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
    const hidden = `${document.title} ${document.body.innerText}`.match(steering) ?? [];
    return [...taken, ...elements.map((it) => it.outerHTML), ...hidden.map((it) => escape(it))];
  });
}
