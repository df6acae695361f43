// An administrator changes a setting on the page, sees what is wrong with it, and finds it in the activity.

import assert from "node:assert/strict";

import { stage, testBothWays } from "./stage.mjs";

const begin = stage("--probation-failures", "7");

const setting = (ann, name) => ann.page.locator(`[id="setting-${name}"]`);

testBothWays("retention is changed, kept, and taken back", async (t, options) => {
  const { ann } = await begin(t, options);
  ann.allow(/422/);
  await ann.page.goto("/admin/settings");
  const retention = setting(ann, "retention.hours");
  await retention.locator("summary").click();
  assert.deepEqual(await ann.barriers(), []);
  await retention.getByRole("link", { name: "Change" }).click();
  await ann.isOn("Retention of delivered events");
  assert.deepEqual(await ann.barriers(), []);
  await ann.type("Retention of delivered events (hours)", "soon");
  await ann.press("Save changes");
  await ann.sees("write a whole number from 0 to 876000");
  assert.equal(await ann.page.getByLabel("Retention of delivered events (hours)").getAttribute("aria-invalid"), "true");
  await ann.type("Retention of delivered events (hours)", "336");
  await ann.press("Save changes");
  await ann.isTold("retention.hours is saved and in force.");
  await retention.getByText("14 d").waitFor();
  await retention.getByText("Saved", { exact: true }).waitFor();

  await ann.page.goto("/admin/activity");
  const entry = ann.page.getByRole("listitem").filter({ hasText: "changed value of setting retention.hours" });
  await entry.getByText("Changes", { exact: true }).click();
  assert.equal(await entry.locator("del").innerText(), "168");
  assert.equal(await entry.locator("ins").innerText(), "336");

  await ann.page.goto("/admin/settings");
  await retention.locator("summary").click();
  await retention.getByRole("button", { name: "Reset" }).click();
  await ann.isTold("What was saved of retention.hours is not in force any more.");
  await retention.getByText("7 d").waitFor();

  const fixed = setting(ann, "probation.failures");
  await fixed.locator("summary").click();
  await fixed.getByText("It is set by --probation-failures, and cannot be changed here.").waitFor();
  assert.equal(await fixed.getByRole("link").count(), 0);
  await ann.leave();
});
