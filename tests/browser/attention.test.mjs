// An endpoint that fails, and all the pages that say so: in people's words, with what is held and what helps.

import assert from "node:assert/strict";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const BILLING = "/admin/topics/orders/subscriptions/billing";

// As many failures in a row put a subscription on probation; each of these events fails once before.
const EVENTS = 12;

const HELD = /held until .*\d+:\d\d.*\(in [45] min\)/i;

const begin = stage();

const order = (id, eventType) => ({
  id,
  eventType,
  subject: `/orders/${id}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: {},
});

const orders = (count, eventType) => Array.from({ length: count }, (_, index) => order(`${eventType}-${index}`, eventType));

testBothWays("an endpoint fails, and is helped", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  const [billing, crm] = await Promise.all([Receiver.start(), Receiver.start()]);
  t.after(() => billing.stop());
  const topic = await appliance.createTopic("orders");
  const of = (type) => ({ filter: { includedEventTypes: [type] } });
  await appliance.subscribe(topic, "billing", billing.url, of("Paid"));
  await appliance.subscribe(topic, "crm", crm.url, of("Lost"));
  await crm.stop();
  billing.script(...Array(EVENTS + 1).fill(404)); // which holds deliveries for five minutes
  await ann.page.goto("/admin/subscriptions");
  await appliance.publish(topic, [...orders(EVENTS, "Paid"), order("lost", "Lost")]);
  await isCountedAlike(ann);

  await saysUntilWhenItIsHeld(ann);
  await saysWhatWasAnswered(ann);
  await countsWhatIsHeldBack(ann);
  await isRetriedNow(ann, billing);
  await isValidatedAgain(ann, billing);
  await listsAttempts(ann, appliance, topic, billing);
  await tellsWhatIsSet(ann);
  await isPaused(ann, appliance, topic);
  await ann.leave();
});

/** The part of the page that is named by its heading or its label. */
const region = (ann, name) => ann.page.getByRole("region", { name, exact: true });
const row = (ann, name) => ann.page.getByRole("row").filter({ has: ann.page.getByRole("rowheader", { name }) });
const article = (ann, name) => ann.page.getByRole("article", { name, exact: true });
const hasText = (locator, text) => locator.filter({ hasText: text }).filter({ visible: true }).first().waitFor();

/** The navigation counts what the page does, also when the page reads itself again. */
async function isCountedAlike(ann) {
  await ann.comesToSee("On probation");
  const count = (navigation, link) =>
    ann.page.getByRole("navigation", { name: navigation, exact: true }).getByRole("link", { name: link }).locator(".count");
  const digits = async (counted) => (await counted.innerText()).match(/\d+$/)[0];
  assert.equal(await digits(count("Pages", /^Subscriptions/)), await digits(count("State", /^Needs attention/)));
}

async function saysUntilWhenItIsHeld(ann) {
  await ann.page.goto(BILLING);
  await ann.comesToSee("On probation");
  const notice = ann.page.locator("#notice");
  await hasText(notice, /404 Not Found, \d+ times in a row/);
  await hasText(notice, HELD);
  await notice.getByRole("button", { name: "Retry now" }).waitFor();
  await ann.page.goto("/admin/subscriptions");
  await hasText(row(ann, /billing/), HELD);
  await ann.page.goto("/admin");
  const concern = region(ann, "Needs attention").getByRole("row").filter({ hasText: "orders / billing" });
  await hasText(concern, HELD);
  await concern.getByRole("button", { name: /^Retry now/ }).waitFor();
  const concerns = await region(ann, "Needs attention").getByRole("rowheader").count();
  assert.ok(concerns <= 5, `${concerns} concerns`);
  await ann.page.goto("/admin/events/1");
  await hasText(article(ann, "billing"), HELD);
  await hasText(article(ann, "billing"), "On probation");
  assert.doesNotMatch(await ann.page.getByRole("main").innerText(), /next attempt now|due now/i);
}

async function saysWhatWasAnswered(ann) {
  await hasText(article(ann, "billing"), "404 Not Found");
  await hasText(article(ann, "billing"), "Azure’s reason NotFound");
  const why = region(ann, "Filter results");
  await hasText(why.getByRole("row").filter({ hasText: "Matched" }), /eventType is/);
  await hasText(why.getByRole("row").filter({ hasText: "Not matched" }), /Lost/);
  await ann.page.goto(`/admin/events/${EVENTS + 1}`);
  await ann.comesToSee("Connection refused");
  await hasText(article(ann, "crm"), "Azure’s reason SocketError");
}

/** The last hour is not better than it was. */
async function countsWhatIsHeldBack(ann) {
  await ann.page.goto("/admin");
  const tile = (label) => ann.page.locator(".figure").filter({ hasText: label });
  await hasText(tile("Delivered"), new RegExp(`0 of ${EVENTS + 1} deliveries due`));
  const colour = (label) => tile(label).evaluate((it) => getComputedStyle(it).backgroundColor);
  assert.notEqual(await colour("Healthy"), await colour("Delivery time p95"), "what is ill is coloured");
  const chart = ann.page.getByRole("img", { name: "Delivery attempts", exact: true });
  const minutes = await chart.locator(".hit").count();
  assert.ok(minutes <= 16, `a new appliance shows its first quarter of an hour, and not ${minutes} min`);
}

async function isRetriedNow(ann, receiver) {
  const before = receiver.deliveries.length;
  await ann.page.goto(BILLING);
  await ann.press("Retry now");
  await ann.isTold("404 Not Found after");
  await ann.isTold(/; next attempt .*\d+:\d\d \(in \d+ min\)/);
  assert.equal(receiver.deliveries.length, before + 1);
  await ann.sees("On probation");
  const bottom = async (locator) => (({ y, height }) => y + height)(await locator.boundingBox());
  const { y } = await ann.page.getByRole("heading", { level: 1 }).boundingBox();
  assert.ok((await bottom(ann.page.getByRole("status"))) <= y, "the notice covers nothing");
}

async function isValidatedAgain(ann, receiver) {
  receiver.script(); // it works again
  await ann.page.goto(BILLING);
  await ann.page.getByLabel("More actions").click();
  await ann.press("Validate again");
  await ann.isTold("Validation succeeded.");
  await ann.sees("Failing"); // until an attempt has shown that it works
  assert.equal(await ann.page.locator("#notice").filter({ hasText: "probation" }).count(), 0);
  await ann.press("Retry now");
  await ann.isTold("Delivered: 200 OK after");
  await ann.sees("Active");
}

async function listsAttempts(ann, appliance, topic, receiver) {
  const before = receiver.deliveries.length;
  await appliance.publish(topic, orders(60, "Paid"));
  await receiver.waitFor(before + 60);
  await ann.page.goto(BILLING);
  await ann.reloadsUntil("60 succeeded");
  const attempts = region(ann, "Recent attempts");
  const strip = attempts.getByRole("img", { name: "Last 60 attempts: 60 succeeded, 0 failed", exact: true });
  assert.equal(await strip.locator("rect").count(), 60);
  const columns = await attempts.getByRole("columnheader").allInnerTexts();
  assert.deepEqual(columns, ["Time", "Response", "Event", "Attempt", "Duration"]);
  await hasText(attempts.getByRole("row"), "200 OK");
  await attempts.getByRole("link", { name: "Failed", exact: true }).click();
  await ann.page.waitForURL(/failed/);
  assert.equal(await attempts.getByRole("row").filter({ hasText: "200 OK" }).count(), 0);
}

/** Settings that are left empty would only make it harder to find those that are not. */
async function tellsWhatIsSet(ann) {
  const labels = await region(ann, "Settings").getByRole("term").allInnerTexts();
  assert.deepEqual(labels, [
    ...["Deliver to", "Endpoint URL", "Validation", "Event types", "Delivery schema", "Events per batch", "Batch size"],
    ...["Timeout", "Concurrency", "Rate limit", "Max attempts", "Time to live"],
    ...["Retry schedule", "Headers", "Signing", "On final failure", "Expires at", "Created", "Changed"],
  ]);
}

async function isPaused(ann, appliance, topic) {
  await ann.press("Pause");
  await ann.isTold("is paused.");
  await appliance.publish(topic, [order("paused", "Paid")]);
  await ann.page.goto("/admin/events");
  await ann.openFirstRow();
  await hasText(article(ann, "billing"), "Paused: nothing is sent");
}
