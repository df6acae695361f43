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
    await ann.press("Resubmit");
    assert.match(ann.page.url(), /#delivery-/);
    const said = ann.page.getByRole("status").filter({ hasText: "has been resubmitted" });
    await said.waitFor();
    const box = await said.boundingBox();
    assert.ok(box.y >= 0 && box.y + box.height <= 640, `it lies at ${box.y} px`);
    if (javaScriptEnabled) {
      // After a while it makes room.
      await ann.page.evaluate(() => document.getAnimations().forEach((each) => each.finish()));
      const position = await ann.page.evaluate(() => getComputedStyle(document.getElementById("said")).position);
      assert.equal(position, "static");
    }
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
  await ann.sees("By subscription and reason", "3 more groups");
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
