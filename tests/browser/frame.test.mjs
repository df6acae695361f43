// The frame around pages: the menu of a small screen, lists that begin on the first one, and messages that are
// seen wherever a page is jumped to.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Appliance, eventually } from "../clients/appliance.mjs";
import { Receiver } from "../clients/receiver.mjs";
import { Administrator } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

const PHONE = { viewport: { width: 320, height: 640 } };
const LAPTOP = { viewport: { width: 1280, height: 800 } };

let browser;
let appliance;
let receiver;

before(async () => {
  browser = await openBrowser();
  appliance = await Appliance.start();
  receiver = await Receiver.start();
  const ann = await Administrator.arrive(browser, appliance.url);
  await ann.claim(appliance);
  await ann.leave();
  await deadLetters();
});

after(async () => {
  await browser?.close();
  await appliance?.stop();
  await receiver?.stop();
});

/** Two of each of six event subscriptions, so that there are as many groups. */
async function deadLetters() {
  const orders = await appliance.createTopic("orders");
  receiver.script({ status: 400, body: "no field total" }, ...Array(11).fill(400));
  for (const index of Array(6).keys()) {
    await appliance.subscribe(orders, `billing-${index}`, receiver.url);
  }
  await appliance.publish(orders, ["a", "b"].map(paid));
  const areDead = async () =>
    (await appliance.manage("GET", "/everpost/deadLetters")).value.length === 12;
  await eventually(areDead, "twelve dead letters");
}

const paid = (id) => ({
  id,
  eventType: "Order.Paid",
  subject: "/orders/7",
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { total: null },
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`the menu of a phone leads to another page, ${how}`, async () => {
    const ann = await arrive({ ...PHONE, javaScriptEnabled });
    await ann.page.goto("/admin/events");
    const menu = ann.page.getByRole("button", { name: "Menu", exact: true });
    const links = ann.page.getByRole("navigation", { name: "Pages" }).getByRole("link");
    assert.equal(await links.count(), 0, "it is folded");
    assert.equal(await ann.page.locator(".here").innerText(), "Events", "where one is stands beside it");
    const { y } = await ann.page.getByRole("heading", { level: 1 }).boundingBox();
    assert.ok(y < 100, `the page begins ${y} px below the top`);

    await ann.page.goto("/admin/rejected-events");
    const isCut = (it) => it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight;
    assert.equal(await ann.page.locator(".here").evaluate(isCut), false, "the longest title fits");
    await menu.focus();
    await ann.page.keyboard.press("Enter");
    await links.first().waitFor();
    assert.deepEqual(await ann.barriers(), []);
    assert.deepEqual(await ann.overhang(), []);
    await ann.page.keyboard.press("Escape");
    assert.equal(await links.count(), 0, "Escape closes it");
    assert.ok(await isFocused(menu), "and gives the focus back");

    await ann.page.keyboard.press("Enter");
    await ann.page.keyboard.press("Tab");
    assert.ok(await isFocused(ann.page.getByRole("searchbox", { name: /^Find an event/ })), "the search comes next");
    await ann.page.keyboard.press("Tab");
    assert.ok(await isFocused(links.first()), "and then the links");
    await ann.page.keyboard.press("Escape");
    await ann.goesTo("Dead letters");
    await ann.isOn("Dead letters");
    await ann.signOut();
    await ann.page.getByRole("button", { name: "Sign in" }).waitFor();
    await ann.leave();
  });

  test(`what an action has to say is on the screen, ${how}`, async () => {
    const ann = await arrive({ ...PHONE, javaScriptEnabled });
    await ann.page.goto("/admin/dead-letters");
    await ann.openFirstRow();
    await ann.follow("Resubmit");
    await ann.press("Resubmit dead letter");
    assert.match(ann.page.url(), /#delivery-/);
    const card = ann.page.getByRole("article").filter({ hasText: "has been resubmitted" });
    const said = card.getByRole("status");
    await said.waitFor();
    const box = await said.boundingBox();
    assert.ok(box.y >= 0 && box.y + box.height <= 640, `it lies at ${box.y} px`);
    await ann.leave();
  });

  test(`the tab that is chosen is on the screen of a phone, ${how}`, async () => {
    const ann = await arrive({ ...PHONE, javaScriptEnabled });
    for (const path of ["events?state=Unmatched", "subscriptions?state=inactive"]) {
      await ann.page.goto(`/admin/${path}`);
      const { x, width } = await ann.page.locator(".tabs [aria-current]").boundingBox();
      assert.ok(x >= 0 && x + width <= PHONE.viewport.width, `it lies at ${x} px on ${path}`);
    }
    await ann.leave();
  });

  test(`the head of a filtered list is about what matches, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/dead-letters?text=nobody");
    await ann.sees("dead letters match this filter.", "No dead letters match this filter.");
    const main = await ann.page.getByRole("main").innerText();
    assert.doesNotMatch(main, /could not be delivered|New dead letters/);
    await ann.page.goto("/admin/dead-letters?of=orders/billing-3");
    await ann.sees("2 of ");
    await ann.page.goto("/admin/subscriptions?text=billing-3");
    await ann.sees("1 of 6 event subscriptions matches this filter.");
    await ann.page.goto("/admin/events?type=Order.Lost");
    await ann.sees("0 events match this filter.");
    await ann.follow("Clear filters");
    await ann.sees("in 24 h, newest first.");
    await ann.leave();
  });

  test(`an action that would change nothing is not asked for, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/subscriptions");
    await ann.page.getByRole("checkbox", { name: "Select orders / billing-4" }).check();
    await ann.press("Resume selected");
    await ann.isOn("Subscriptions");
    await ann.isTold("Nothing to resume. None of the selected subscriptions is paused or disabled.");
    await ann.page.goto("/admin/subscriptions/resume");
    await ann.isTold("Nothing is selected.");
    await ann.leave();
  });

  test(`what is asked of a list is told where it is folded away, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/dead-letters");
    const type = ann.page.getByLabel("Event type", { exact: true });
    assert.equal(await type.isVisible(), false);
    await ann.page.getByText("More filters").click();
    await type.fill("Order.*");
    await ann.press("Filter");
    assert.match(ann.page.url(), /type=Order\.\*/);
    assert.equal(await type.inputValue(), "Order.*");
    assert.equal(await type.isVisible(), true);
    await ann.follow("Clear filters");
    assert.equal(await type.isVisible(), false);
    await ann.leave();
  });
}

test("the navigation of a laptop stands beside the page", async () => {
  const ann = await arrive(LAPTOP);
  await ann.page.goto("/admin/events");
  assert.equal(await ann.page.getByRole("button", { name: "Menu", exact: true }).isVisible(), false);
  const links = ann.page.getByRole("navigation", { name: "Pages" }).getByRole("link");
  assert.ok((await links.count()) > 10);
  await ann.page.getByRole("link", { name: "Events", exact: true, current: "page" }).waitFor();
  await ann.leave();
});

test("groups and list of dead letters begin on the first screen of a laptop", async () => {
  const ann = await arrive(LAPTOP);
  await ann.page.goto("/admin/dead-letters");
  await ann.sees("By reason", "3 more groups");
  const row = ann.page.getByRole("rowheader").filter({ has: ann.page.getByRole("link") }).first();
  const { y, height } = await row.boundingBox();
  assert.ok(y + height <= 800, `the first dead letter ends at ${y + height} px`);
  await ann.screenshot("dead-letters-grouped");
  await ann.leave();
});

test("rows are named by what they are about and lead there", async () => {
  const ann = await arrive(LAPTOP);
  await ann.page.goto("/admin/events");
  const first = ann.page.getByRole("rowheader").first();
  await first.getByRole("link", { name: "Order.Paid", exact: true }).click();
  await ann.page.waitForURL(/\/admin\/events\/\d+$/);
  await ann.leave();
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`dead letters are selected and resubmitted together, ${how}`, async () => {
    const name = javaScriptEnabled ? "billing-0" : "billing-1"; // other tests resubmit the newest
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto(`/admin/dead-letters?of=orders/${name}`);
    const boxes = ann.page.getByRole("checkbox", { name: /^Select dead letter/ });
    const all = await boxes.count();
    const bar = ann.page.getByRole("group", { name: "Selected" });
    assert.equal(await bar.isVisible(), false, "nothing is selected");
    await boxes.first().check();
    await bar.getByRole("link", { name: `Resubmit all ${all} that match…` }).waitFor();
    await bar.getByRole("button").click();
    await ann.isOn("Resubmit 1 dead letter?");
    await ann.press("Resubmit 1 dead letter");
    await ann.isTold("Resubmit: 1 dead letter.");
    await ann.page.goto(`/admin/dead-letters?of=orders/${name}`);
    assert.equal(await boxes.count(), all - 1);
    await ann.leave();
  });

  test(`an event is found from every page, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    for (const path of ["/admin/settings", "/admin/dead-letters", "/admin/account"]) {
      await ann.page.goto(path);
      const search = ann.page.getByRole("searchbox", { name: /^Find an event/ });
      await search.fill("/orders/7");
      await search.press("Enter");
      await ann.page.waitForURL(/\/admin\/events\?text=/);
      await ann.page.getByRole("rowheader").first().waitFor();
    }
    await ann.leave();
  });

  test(`what somebody did is told with what it changed, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/activity?targetKind=EventSubscription&target=orders/billing-1");
    const entry = ann.page.getByRole("listitem").filter({ hasText: "created event subscription billing-1" });
    await entry.getByText("Details", { exact: true }).click();
    await entry.locator(".changes").waitFor();
    await entry.getByRole("link", { name: /billing-1/ }).click();
    await ann.isOn("billing-1");
    await ann.leave();
  });

  test(`settings that were changed are shown alone, ${how}`, async () => {
    const ann = await arrive({ ...LAPTOP, javaScriptEnabled });
    await ann.page.goto("/admin/settings");
    const all = await ann.page.locator("[id^=setting-] > summary").count();
    const shown = ann.page.getByRole("navigation", { name: "Settings shown" });
    await shown.getByRole("link").last().click();
    await ann.page.waitForURL(/show=changed/);
    const changed = ann.page.locator("[id^=setting-] > summary");
    assert.ok((await changed.count()) < all);
    await ann.page.locator("#setting-listen > summary").click();
    await ann.page.locator("#setting-listen").getByText("EVERPOST_LISTEN").waitFor();
    await ann.leave();
  });
}

test("a topic tells the types of its events and when its keys were used", async () => {
  const ann = await arrive(LAPTOP);
  await ann.page.goto("/admin/topics/orders");
  const types = ann.page.getByRole("region", { name: "Event types" });
  await types.getByRole("link", { name: "Order.Paid" }).click();
  await ann.page.waitForURL(/type=Order\.Paid/);
  await ann.page.goto("/admin/topics/orders");
  const key1 = ann.page.getByRole("row").filter({ hasText: "key1" });
  assert.equal(await key1.locator("time").count(), 1, "it was published with");
  const key2 = ann.page.getByRole("row").filter({ hasText: "key2" });
  assert.equal(await key2.locator("time").count(), 0);
  await ann.leave();
});

async function arrive(options) {
  const ann = await Administrator.arrive(browser, appliance.url, options);
  await ann.page.goto("/admin/login");
  await ann.signIn();
  await ann.isOn("Overview");
  return ann;
}

function isFocused(locator) {
  return locator.evaluate((element) => element === document.activeElement);
}
