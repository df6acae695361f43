// What looks at pages: whether everybody can use them, whatever colours and window they have.

import assert from "node:assert/strict";
import { after, test } from "node:test";

import { Administrator } from "./administrator.mjs";
import { furnish } from "./furniture.mjs";
import { sharedStage } from "./stage.mjs";

export const LAPTOP = { viewport: { width: 1280, height: 800 }, colorScheme: "light" };

/** Looks at each of `places` (name, path, what to do there) in an appliance with something of everything. */
export function testLooks(name, places) {
  let unfurnish;
  const shared = sharedStage(async (appliance) => {
    unfurnish = await furnish(appliance);
  });
  after(() => unfurnish?.());

  test(name, async (t) => {
    const ann = await Administrator.arrive(shared.browser, shared.appliance.url, LAPTOP);
    ann.allow(/40[349]|422/); // what pages that reject something answer with
    await ann.page.goto("/admin/login");
    await ann.signIn();
    await ann.isOn("Overview");
    for (const [place, path, act] of places) {
      await t.test(place, async () => {
        await ann.page.setViewportSize(LAPTOP.viewport);
        await ann.page.goto(path);
        await act?.(ann);
        await judge(ann, place);
      });
    }
    await ann.leave();
  });
}

/** Fails if anybody could not use the page that is open. */
export async function judge(ann, name) {
  await ann.screenshot(name.replace(/\W+/g, "-").replace(/^-|-$/g, "") || "overview");
  assert.deepEqual(await ann.faults(), []);
}
