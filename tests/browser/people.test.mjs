// Several people at one appliance: what each of them may see and do, with scripts and without.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";

import { Administrator } from "./administrator.mjs";
import { sharedStage } from "./stage.mjs";

const PASSWORD = "chosen by nobody else";
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

const shared = sharedStage();

const arrive = (options) => Administrator.arrive(shared.browser, shared.appliance.url, options);

/** Somebody with a role of their own, signed in. */
async function signedIn(name, role, options) {
  await shared.appliance.manage("POST", "/everpost/users", { name, role, password: PASSWORD });
  const person = await arrive(options);
  await person.page.goto("/admin/login");
  await person.signIn(name, PASSWORD);
  await person.isOn("Overview");
  return person;
}

/** What an authenticator app shows for a key (RFC 6238), now or some steps later. */
function code(key, later = 0) {
  const bits = [...key.replace(/\s/g, "")].map((c) => ALPHABET.indexOf(c).toString(2).padStart(5, "0"));
  const bytes = bits.join("").match(/.{8}/g).map((byte) => parseInt(byte, 2));
  const step = Buffer.alloc(8);
  step.writeBigInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const tag = createHmac("sha1", Buffer.from(bytes)).update(step).digest();
  const number = (tag.readUInt32BE(tag[19] & 15) & 0x7fffffff) % 1_000_000;
  return String(number).padStart(6, "0");
}

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with scripts" : "without scripts";

  test(`a second factor is set up and asked for ${how}`, async () => {
    const name = `sue${javaScriptEnabled}`;
    const sue = await signedIn(name, "operator", { javaScriptEnabled });
    await sue.page.goto("/admin/account/second-factor");
    const key = await sue.page.locator("input[name=seed]").inputValue();
    await sue.type("Code", code(key));
    await sue.type("Your password", PASSWORD);
    await sue.press("Turn on");
    await sue.isOn("Recovery codes");
    assert.deepEqual(await sue.barriers(), []);
    await sue.press("Sign out");
    await sue.signIn(name, PASSWORD);
    await sue.isOn("Second factor");
    assert.deepEqual(await sue.barriers(), []);
    await sue.type("Code", code(key, 1)); // the present one is used up
    await sue.press("Sign in");
    await sue.isOn("Overview");
    await sue.leave();
  });

  test(`an invited user chooses a password and does what the role allows ${how}`, async () => {
    const name = `guest${javaScriptEnabled}`;
    const { passwordUrl } = await shared.appliance.manage("POST", "/everpost/users", { name, role: "viewer" });
    const guest = await arrive({ javaScriptEnabled });
    guest.allow(/403/);
    await guest.page.goto(passwordUrl);
    await guest.isOn("Choose a password");
    assert.deepEqual(await guest.barriers(), []);
    await guest.type("New password", PASSWORD);
    await guest.press("Set password");
    await guest.signIn(name, PASSWORD);
    await guest.isOn("Overview");
    const links = await guest.page.getByRole("navigation", { name: "Pages" }).getByRole("link").allInnerTexts();
    assert.ok(!links.includes("Users"), links.join());
    for (const path of ["/admin/users", "/admin/tokens", "/admin/activity", "/admin/new-topic"]) {
      await guest.page.goto(path);
      await guest.isOn("Not allowed");
    }
    await guest.leave();
  });

  test(`a session that was ended opens nothing any more ${how}`, async () => {
    const name = `twice${javaScriptEnabled}`;
    const here = await signedIn(name, "viewer", { javaScriptEnabled });
    const there = await arrive({ javaScriptEnabled });
    await there.page.goto("/admin/login");
    await there.signIn(name, PASSWORD);
    await there.isOn("Overview");
    await here.page.goto("/admin/account");
    await here.press("End session");
    await here.isTold("The session has been ended.");
    await there.page.goto("/admin/events");
    await there.isOn("Sign in");
    await here.page.goto("/admin/events");
    await here.isOn("Events");
    await here.leave();
    await there.leave();
  });
}
