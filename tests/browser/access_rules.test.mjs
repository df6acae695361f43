// An access rule as an administrator works with it: made, shown to an application, changed and deleted.

import assert from "node:assert/strict";

import { stage, testBothWays } from "./stage.mjs";

const begin = stage();

testBothWays("a key for one application", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  ann.allow(/422/); // what the form answers with that is rejected
  await appliance.manage("PUT", "/queues/jobs", {});
  await create(ann);
  await connect(ann, appliance);
  await change(ann, appliance);
  await remove(ann);
  await ann.leave();
});

async function create(ann) {
  await ann.goesTo("Access rules");
  await ann.page.getByRole("link", { name: "New access rule" }).first().click();
  await ann.type("Name", "key1");
  await ann.press("Create access rule");
  for (const field of ["For", "Send"]) {
    await ann.page.getByRole("alert").getByRole("link", { name: field }).waitFor();
  }
  await ann.page.getByLabel("For").selectOption("jobs");
  await ann.page.getByLabel("Listen", { exact: true }).check();
  await ann.press("Create access rule");
  await ann.page.getByRole("alert").getByRole("link", { name: "Name" }).waitFor();
  await ann.type("Name", "worker");
  await ann.press("Create access rule");
  await ann.isTold("Access rule jobs/worker has been created.");
  await ann.sees("Valid for jobs alone.");
}

async function connect(ann, appliance) {
  const connection = ann.page.getByRole("region", { name: "Connection string" });
  await connection.getByText("SharedAccessKeyName=worker;SharedAccessKey=KEY;").waitFor();
  await ann.press("Show keys");
  const { key1 } = await appliance.manage("POST", "/everpost/accessRules/jobs%2Fworker/listKeys");
  await connection.getByText(`SharedAccessKeyName=worker;SharedAccessKey=${key1};`).waitFor();
}

async function change(ann, appliance) {
  await ann.follow("Edit");
  await ann.page.getByLabel("Manage", { exact: true }).check();
  await ann.press("Save changes");
  await ann.isTold("Access rule jobs/worker has been changed.");
  const { rights } = await appliance.manage("GET", "/everpost/accessRules/JOBS%2Fworker");
  assert.deepEqual(rights, ["Manage", "Send", "Listen"]);
}

async function remove(ann) {
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Delete access rule…");
  await ann.sees("Its keys stop working for good");
  await ann.press("Delete access rule");
  await ann.isOn("Access rules");
  await ann.sees("No access rules yet.");
}
