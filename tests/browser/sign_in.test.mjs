// Who gets in: whoever holds the set-up link once, and then whoever knows the password.

import assert from "node:assert/strict";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";

import { Appliance, eventually } from "../clients/appliance.mjs";
import { Administrator, NAME, PASSWORD } from "./administrator.mjs";
import { openBrowser } from "./visitor.mjs";

// Tries that cost nothing but the try.
const FREE_TRIES = 5;

let browser;
let appliance;

before(async () => {
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  await appliance?.stop();
});

beforeEach(async () => {
  await appliance?.stop();
  appliance = await Appliance.start(); // guesses are counted by network, and all of ours is one
});

const arrive = (options) => Administrator.arrive(browser, appliance.url, options);

test("before it is set up, the appliance shows the way and nothing else", async () => {
  const eve = await arrive();
  eve.allow(/403/);
  for (const path of ["/", "/admin", "/admin/", "/admin/login", "/admin/events"]) {
    await eve.page.goto(path);
    await eve.isOn("Not set up yet");
    await eve.sees("setup-url");
  }
  await eve.page.goto("/admin/setup?token=guessed");
  await eve.isOn("This link does not work");
  await eve.leave();
});

test("a weak password is rejected where it was typed", async () => {
  const ann = await arrive();
  ann.allow(/422/);
  await ann.page.goto(await appliance.setupUrl());
  await ann.type("Name", NAME);
  await ann.type("Password", "password");
  await ann.press("Create account");

  await ann.page.getByRole("alert").waitFor();
  const password = ann.page.getByLabel("Password", { exact: true });
  assert.equal(await password.getAttribute("aria-invalid"), "true");
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), NAME);
  await ann.page.reload(); // the link works until there is an account
  assert.equal(await ann.page.getByRole("alert").count(), 0);
  await ann.type("Name", NAME);
  await ann.type("Password", PASSWORD);
  await ann.press("Create account");
  await ann.isOn("Overview");
  await ann.leave();
});

test("a set-up link opens nothing once it was used", async () => {
  const link = await appliance.setupUrl();
  const ann = await arrive();
  await ann.claim(appliance);
  await ann.leave();

  const eve = await arrive();
  eve.allow(/410/);
  await eve.page.goto(link);
  await eve.isOn("This link has been used");
  await eve.follow("Sign in");
  await eve.isOn("Sign in");
  await eve.leave();
  const written = join(appliance.dataDir, "setup-url");
  await eventually(() => access(written).then(() => false, () => true), "the link is gone");
});

test("pages lead to the login, and the login back to them", async () => {
  const ann = await claimed();
  await ann.press("Sign out");
  for (const path of ["/admin/events", "/admin/topics/orders/delete", "/admin/nowhere"]) {
    await ann.page.goto(path);
    await ann.isOn("Sign in");
  }
  await ann.page.goto("/admin/events?id=order-1");
  await ann.signIn();
  await ann.isOn("Events");
  assert.equal(await ann.page.getByLabel("Event ID", { exact: true }).inputValue(), "order-1");
  await ann.leave();
});

test("whoever signs out leaves nothing to go back to", async () => {
  const ann = await claimed();
  await ann.goesTo("Events");
  await ann.press("Sign out");
  await ann.isOn("Sign in");
  await ann.page.goBack();
  await ann.isOn("Sign in");
  await ann.page.goto("/admin/events");
  await ann.isOn("Sign in");
  await ann.leave();
});

test("guessing is answered without a hint, and then not at all for a while", async () => {
  const ann = await claimed();
  await ann.press("Sign out");
  ann.allow(/401|429/);
  let tries = 0;
  while ((await guess(ann, [NAME, "nobody"][tries % 2])) === "Name or password is wrong.") {
    tries += 1; // waits grow, so even a slow machine comes to one that has not passed yet
  }

  assert.ok(tries >= FREE_TRIES, `${tries} tries`);
  const rejection = await ann.page.getByRole("alert").innerText();
  const wait = Number(/^Too many tries. Try again in (\d+) s.$/.exec(rejection)?.[1]);
  assert.ok(wait >= 1 && wait <= 300, rejection);
  await ann.leave();
});

/** Returns what the page says to a wrong password; the name stays where it was typed. */
async function guess(ann, name) {
  await ann.signIn(name, "a wrong password");
  assert.equal(await ann.page.getByLabel("Name", { exact: true }).inputValue(), name);
  assert.equal(await ann.page.getByLabel("Password", { exact: true }).inputValue(), "");
  return ann.page.getByRole("alert").innerText();
}

async function claimed() {
  const ann = await arrive();
  await ann.claim(appliance);
  return ann;
}
