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

/** The same test for browsers that run scripts and for those that do not. */
export function testBothWays(name, act) {
  for (const javaScriptEnabled of [true, false]) {
    const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";
    test(`${name}, ${how}`, (t) => act(t, { javaScriptEnabled }));
  }
}
