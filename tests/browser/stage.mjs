// What most tests begin with: a browser for the file, and for each test an appliance with its administrator.

import { after, before, test } from "node:test";

import { Appliance } from "../clients/appliance.mjs";
import { Administrator } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

/**
 * Opens a browser before the first test of the file, and closes it behind the last one. Returns what prepares a
 * test: an appliance that is started with `flags`, and the one who has claimed it, whose browser has `options`.
 */
export function stage(...flags) {
  let browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser?.close());
  return async (t, options) => {
    const appliance = await Appliance.start(...flags);
    t.after(() => appliance.stop());
    const ann = await Administrator.arrive(browser, appliance.url, options);
    await ann.claim(appliance);
    return { appliance, ann };
  };
}

/**
 * One browser and one appliance for the whole file, which its administrator has claimed. They are there when the tests
 * begin; `prepare` is done before them.
 */
export function sharedStage(prepare) {
  const shared = {};
  before(async () => {
    shared.browser = await openBrowser();
    shared.appliance = await Appliance.start();
    const ann = await Administrator.arrive(shared.browser, shared.appliance.url);
    await ann.claim(shared.appliance);
    await ann.leave();
    await prepare?.(shared.appliance);
  });
  after(async () => {
    await shared.browser?.close();
    await shared.appliance?.stop();
  });
  return shared;
}

/** The same test for browsers that run scripts and for those that do not. */
export function testBothWays(name, act) {
  for (const javaScriptEnabled of [true, false]) {
    const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";
    test(`${name}, ${how}`, (t) => act(t, { javaScriptEnabled }));
  }
}
