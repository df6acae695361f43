// Lists with as much as a page holds: small enough to load anywhere, and to read on a phone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Appliance, eventually } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";
import { Administrator } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

const ROWS = 50;
const PAGE_BYTES_MAX = 60 * 1024;
const PHONE_HEIGHT_MAX = 4_500;

const LAPTOP = { viewport: { width: 1280, height: 800 } };
const LISTS = ["/admin/events", "/admin/dead-letters", "/admin/subscriptions"];

let browser;
let appliance;
let receiver;
let decoded;

before(async () => {
  browser = await openBrowser();
  appliance = await Appliance.start();
  receiver = await Receiver.start();
  const ann = await Administrator.arrive(browser, appliance.url);
  await ann.claim(appliance);
  await ann.leave();
  await fill();
});

after(async () => {
  await browser?.close();
  await appliance?.stop();
  await receiver?.stop();
});

const order = (index) => ({
  id: `0d5bfbd0-c2a8-4d8a-9d6a-00000000${1000 + index}`,
  eventType: "Contoso.Orders.OrderPaid",
  subject: `/customers/north/orders/${index}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { total: index },
});

/** More of everything than one page shows. */
async function fill() {
  const orders = await appliance.createTopic("orders");
  receiver.script(...Array(ROWS + 1).fill({ status: 400, body: "no field total" }));
  await appliance.subscribe(orders, "billing", receiver.url);
  await appliance.publish(orders, Array.from({ length: ROWS + 1 }, (_, index) => order(index)));
  const dead = async () => (await appliance.manage("GET", "/everpost/deadLetters?limit=100")).value.length;
  await eventually(async () => (await dead()) === ROWS + 1, "dead letters");
  for (let index = 0; index < ROWS; index += 1) {
    const filter = { includedEventTypes: ["Contoso.Orders.OrderShipped"] };
    await appliance.subscribe(orders, `subscription-number-${index}`, receiver.url, { filter });
    await appliance.publishRejected(orders, `[{"id": "${index}"}]`);
  }
  const people = await appliance.createTopic("people");
  const { key1, endpoint } = people;
  const escaped = JSON.stringify({ ...order(0), data: { name: "NAME", of: { city: "Porto" } } });
  const body = `[${escaped.replace("NAME", "Zo\\u00eb M\\u00fcller")}]`;
  const headers = { "aeg-sas-key": key1, "Content-Type": "application/json" };
  assert.equal((await fetch(endpoint, { method: "POST", headers, body })).status, 200);
  decoded = `/admin/events/${ROWS + 2}`;
}

async function arrive(options) {
  const ann = await Administrator.arrive(browser, appliance.url, options);
  await ann.page.goto("/admin/login");
  await ann.signIn();
  await ann.isOn("Overview");
  return ann;
}

test("a page of every list is small, and its rows are low", async () => {
  const ann = await arrive(LAPTOP);
  for (const path of [...LISTS, "/admin/rejected-events", "/admin/activity"]) {
    const body = await (await ann.page.goto(path)).body();
    assert.ok(body.length <= PAGE_BYTES_MAX, `${path} has ${body.length} B`);
  }
  for (const path of LISTS) {
    await ann.page.goto(path);
    const rows = ann.page.getByRole("table").last().locator("tbody tr");
    assert.equal(await rows.count(), ROWS, path);
    const heights = await rows.evaluateAll((all) => all.map((it) => it.getBoundingClientRect().height));
    assert.ok(heights.every((height) => height >= 36 && height <= 44), `${path}: ${heights.join()}`);
    await ann.page.getByRole("link", { name: /^(Older|Next)$/ }).click();
    assert.ok((await rows.count()) >= 1, `${path} goes on`);
    await ann.page.getByRole("link", { name: /^(Newer|Previous)$/ }).click();
    assert.equal(await rows.count(), ROWS, `${path} goes back`);
  }
  await ann.leave();
});

test("a phone shows a page of events in a few screens", async () => {
  const ann = await arrive({ viewport: { width: 390, height: 780 } });
  for (const path of LISTS) {
    await ann.page.goto(path);
    const height = await ann.page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height <= PHONE_HEIGHT_MAX, `${path} is ${height} px high`);
    const rows = ann.page.getByRole("table").last().locator("tbody tr");
    const texts = await rows.first().locator("> *:visible").count();
    assert.ok(texts >= 2 && texts <= 4, `${path} shows ${texts} places in a row`);
  }
  await ann.leave();
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`nothing acts on everything by itself, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    const main = ann.page.getByRole("main");
    await ann.page.goto("/admin/subscriptions");
    const search = main.getByRole("search");
    assert.equal(await search.getByRole("link", { name: "New subscription" }).count(), 0);
    await main.getByRole("link", { name: "New subscription" }).waitFor();
    const visible = main.getByRole("button").filter({ visible: true });
    assert.deepEqual(await visible.allInnerTexts(), ["Filter"], "nothing is selected");
    if (javaScriptEnabled) {
      await main.getByLabel("Select all").check();
      await ann.sees(`${ROWS} selected`);
      await main.getByLabel("Select all").uncheck();
    }
    await main.getByLabel("Select orders / billing").check();
    await ann.press("Pause selected");
    await ann.isOn("Pause 1 event subscription?");
    await ann.leave();
  });

  test(`data is shown as people read it, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto(decoded);
    const data = ann.page.getByRole("region", { name: "Data" });
    await data.getByText('"Zoë Müller"').waitFor();
    await data.getByText('"Porto"').waitFor();
    await data.getByText('"of": {').click();
    assert.equal(await data.getByText('"Porto"').isVisible(), false, "it is folded");
    assert.equal(await data.getByRole("button", { name: "Copy data" }).count(), javaScriptEnabled ? 1 : 0);
    await data.getByRole("link", { name: "Text" }).click();
    await data.getByText("Zo\\u00eb M\\u00fcller").waitFor();
    await data.getByRole("link", { name: "JSON" }).click();
    await data.getByText('"Zoë Müller"').waitFor();
    await ann.leave();
  });

  test(`a dead letter shows whose it is and what was sent, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/dead-letters");
    await ann.openFirstRow();
    const request = ann.page.getByRole("region", { name: "Request" });
    await request.getByText("POST http://127.0.0.1").waitFor();
    await request.getByText("aeg-event-type: Notification").waitFor();
    const event = ann.page.getByRole("region", { name: "Event", exact: true });
    await event.getByRole("link", { name: "billing" }).click();
    await ann.isOn("billing");
    await ann.leave();
  });
}

test("times are those of the browser, or of the zone that is chosen", async () => {
  const foot = (ann) => ann.page.getByRole("contentinfo");
  const there = await arrive({ ...LAPTOP, timezoneId: "Asia/Tokyo" });
  await there.page.goto("/admin/events");
  await foot(there).getByText("Times in Asia/Tokyo (UTC+9)").waitFor();
  await there.leave();

  const ann = await arrive({ ...LAPTOP, javaScriptEnabled: false });
  await ann.page.goto("/admin/events");
  await foot(ann).getByText("Times in UTC").waitFor();
  await foot(ann).getByRole("link", { name: "Change" }).click();
  await ann.page.getByLabel("Show times in").selectOption("Asia/Kolkata");
  await ann.press("Change time zone");
  await ann.page.goto("/admin/events/1");
  await foot(ann).getByText("Times in Asia/Kolkata (UTC+5:30)").waitFor();
  const received = ann.page.locator("time").first();
  assert.match(await received.getAttribute("title"), /UTC/, "which is at hand");
  assert.match(await received.getAttribute("datetime"), /Z$/);

  // What is typed is meant in the zone, too: half a day ahead of UTC nothing has been received.
  const at = new Date(await received.getAttribute("datetime"));
  const local = (minutes) => new Date(at.getTime() + (330 + minutes) * 60_000).toISOString().slice(0, 16);
  await ann.page.goto("/admin/events?topic=");
  await ann.page.getByText("More filters").click();
  for (const [minutes, found] of [[-1, true], [60, false]]) {
    await ann.page.getByLabel("Received from").fill(local(minutes));
    await ann.press("Filter");
    assert.equal((await ann.page.getByRole("rowheader").count()) > 0, found, `${minutes} min`);
  }
  await ann.leave();
});
