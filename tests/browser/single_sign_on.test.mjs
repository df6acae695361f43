// Signing in with a real OpenID Connect provider: who gets in, in which role, and who does not.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Appliance } from "../clients/appliance.mjs";
import { Administrator } from "./administrator.mjs";
import { IdentityProvider } from "./provider.mjs";
import { openBrowser } from "./visitor.mjs";

let browser;
let provider;
let appliance;

before(async () => {
  browser = await openBrowser();
  provider = await IdentityProvider.start();
  appliance = await Appliance.start(...provider.flags());
  provider.serve(appliance.url);
  const ann = await arrive();
  await ann.claim(appliance);
  await ann.leave();
});

after(async () => {
  await browser?.close();
  await appliance?.stop();
  await provider?.remove();
});

const arrive = (options) => Administrator.arrive(browser, appliance.url, options);

/** Goes to the provider, and says there who it is; what else it asks for is agreed to. */
async function signIn(person, name) {
  await person.page.getByRole("link", { name: "Sign in with Example ID" }).click();
  await person.page.getByPlaceholder("Enter any login").fill(name);
  await person.page.getByPlaceholder("and password").fill("any");
  await person.page.getByRole("button", { name: "Sign-in" }).click();
  await person.page.getByRole("button", { name: "Continue" }).click();
  await person.page.waitForURL(`${appliance.url}/**`);
}

/** Somebody with a browser that the provider has not seen. */
async function arriveAt(path, options) {
  const person = await arrive(options);
  person.allow(/127\.0\.0\.1/); // what the pages of the provider do is not ours
  person.allow(/40[01]/);
  await person.page.goto(path);
  return person;
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with JavaScript" : "without JavaScript";

  test(`the groups at the provider decide over the role ${how}`, async () => {
    const name = `eve-${javaScriptEnabled}`;
    provider.people.set(name, ["staff", "root"]);
    const eve = await arriveAt("/admin/users", { javaScriptEnabled });
    await signIn(eve, name);
    await eve.isOn("Users"); // where it was meant to go
    await eve.sees(name, "Example ID", "Local");
    await eve.page.goto("/admin/account");
    await eve.sees("You sign in with Example ID");
    assert.equal(await eve.page.getByText("Current password").count(), 0);
    await eve.signOut();
    await eve.sees("You are signed out here");

    provider.people.set(name, ["ops"]);
    const again = await arriveAt("/admin/login", { javaScriptEnabled });
    await signIn(again, name);
    await again.page.goto("/admin/account");
    await again.sees(`${name}, Operator`);
    await again.leave();

    provider.people.set(name, ["staff"]);
    const rejected = await arriveAt("/admin/login", { javaScriptEnabled });
    await signIn(rejected, name);
    await rejected.isOn("Sign in");
    await rejected.sees("none of your groups has the role viewer, operator or admin; the groups are staff");
    await rejected.leave();
    await eve.leave();
  });
}

test("without the provider, local users get in by their passwords", async (t) => {
  await provider.stop();
  t.after(() => provider.resume());
  const other = await Appliance.start(...provider.flags()); // it has never reached the provider
  t.after(() => other.stop());
  const ann = await Administrator.arrive(browser, other.url);
  ann.allow(/401/);
  await ann.claim(other);
  await ann.signOut();
  await ann.follow("Sign in with Example ID");
  await ann.sees("Example ID cannot be reached");
  await ann.signIn();
  await ann.isOn("Overview");
  await ann.leave();
});
