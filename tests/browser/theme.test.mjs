// Light and dark: by the system, or as somebody chooses, and never the wrong one first.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Administrator } from "./administrator.mjs";
import { sharedStage } from "./stage.mjs";

const LIGHT = "rgb(246, 247, 249)";
const DARK = "rgb(15, 20, 24)";

const shared = sharedStage();

for (const javaScriptEnabled of [true, false]) {
  test(`colours can be chosen ${javaScriptEnabled ? "with" : "without"} a script`, async () => {
    const ann = await arrive({ colorScheme: "dark", javaScriptEnabled });
    await ann.page.goto("/admin/events?topic=orders");
    assert.equal(await background(ann), DARK);

    await choose(ann, "Light", javaScriptEnabled);
    assert.match(ann.page.url(), /\/admin\/events\?topic=orders$/);
    assert.equal(await background(ann), LIGHT);
    assert.deepEqual(await ann.barriers(), []);
    await ann.goesTo("Topics");
    assert.equal(await background(ann), LIGHT);
    await ann.page.emulateMedia({ colorScheme: "light" });
    await choose(ann, "Dark", javaScriptEnabled);
    assert.equal(await background(ann), DARK);
    assert.deepEqual(await ann.barriers(), []);

    await choose(ann, "System", javaScriptEnabled);
    assert.equal(await background(ann), LIGHT);
    await ann.page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await background(ann), DARK);
    await ann.leave();
  });
}

test("the first thing that is drawn is drawn in the chosen colours", async () => {
  const ann = await arrive({ colorScheme: "dark", javaScriptEnabled: false });
  await choose(ann, "Light", false);
  // Before the stylesheet is there, the browser goes by the page itself.
  await ann.page.route("**/*.css?*", (route) => route.fulfill({ contentType: "text/css", body: "" }));
  await ann.page.goto("/admin/topics");
  const scheme = await ann.page.evaluate(() => {
    const probe = document.createElement("p");
    document.body.append(probe);
    return getComputedStyle(probe).color; // black on light, white on dark
  });
  assert.equal(scheme, "rgb(0, 0, 0)");
  await ann.leave();
});

async function arrive(options) {
  const ann = await Administrator.arrive(shared.browser, shared.appliance.url, options);
  await ann.page.goto("/admin/login");
  await ann.signIn();
  await ann.isOn("Overview");
  return ann;
}

/** By a script the page stays; without one the same page comes again. */
async function choose(ann, label, isScripted) {
  const button = ann.page.getByRole("button", { name: label, exact: true });
  if (isScripted) {
    await button.click();
  } else {
    await ann.press(label);
  }
  await ann.page.getByRole("button", { name: label, exact: true, pressed: true }).waitFor();
}

function background(ann) {
  return ann.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
}
