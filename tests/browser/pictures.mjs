// Makes the pictures of README and docs from the demo: `node tests/browser/pictures.mjs`, after a release build.

import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

import { openBrowser } from "./visitor.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PICTURES = { overview: "/admin", subscriptions: "/admin/subscriptions", event: "/admin/events/1" };

const demo = spawn(`${ROOT}target/release/everpost`, ["demo", "--stay"], { stdio: ["ignore", "pipe", "inherit"] });
try {
  const { admin, password } = await signInData(demo.stdout);
  const browser = await openBrowser();
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  await page.goto(admin);
  await page.locator("input:not([type=hidden]):not([type=password])").first().fill("demo");
  await page.locator("input[type=password]").fill(password);
  await page.locator("main button[type=submit]").first().click();
  await page.locator("nav").first().waitFor();
  for (const [name, path] of Object.entries(PICTURES)) {
    await page.goto(new URL(path, admin).href);
    await page.screenshot({ path: `${ROOT}docs/pictures/${name}.png` });
  }
  await browser.close();
} finally {
  demo.kill("SIGINT");
}

/** What the demo prints for people who look around. */
async function signInData(output) {
  let printed = "";
  for await (const chunk of output) {
    printed += chunk;
    const admin = printed.match(/admin pages {2}(http:\S+)/)?.[1];
    const password = printed.match(/password (\S+)/)?.[1];
    if (admin && password) {
      return { admin, password };
    }
  }
  throw new Error(`the demo ended:\n${printed}`);
}
