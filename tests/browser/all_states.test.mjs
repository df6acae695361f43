// Pages where something is missing, long or wrong, and before anything is there.

import { test } from "node:test";

import { Appliance } from "../clients/appliance.mjs";
import { Administrator, NAME } from "./administrator.mjs";
import { judge, LAPTOP, testLooks } from "./looks.mjs";
import { EMPTY, STATES, weakPassword } from "./places.mjs";
import { openBrowser } from "./visitor.mjs";

testLooks("pages in their other states", STATES);

test("pages before anything is there", async (t) => {
  const browser = await openBrowser();
  t.after(() => browser.close());
  const fresh = await Appliance.start();
  t.after(() => fresh.stop());
  const ann = await Administrator.arrive(browser, fresh.url, LAPTOP);
  ann.allow(/40[13]|422/); // what pages that reject something answer with
  const lookAt = async (name, url, act) => {
    await ann.page.goto(url);
    await act?.(ann);
    await judge(ann, name);
  };
  await lookAt("not set up", "/admin");
  await lookAt("broken link", "/admin/setup?token=wrong");
  await lookAt("setup", await fresh.setupUrl());
  await lookAt("setup rejected", await fresh.setupUrl(), weakPassword);
  await ann.claim(fresh);
  for (const path of EMPTY) {
    await lookAt(`${path} empty`, `/admin${path}`);
  }
  await ann.signOut();
  await lookAt("login", "/admin/login");
  await lookAt("login rejected", "/admin/login", (ann) => ann.signIn(NAME, "wrong"));
  await ann.leave();
});
