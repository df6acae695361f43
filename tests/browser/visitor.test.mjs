// The watch over pages has to notice what it watches for, or the tests of the pages prove nothing.

import assert from "node:assert/strict";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser, Visitor } from "./visitor.mjs";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'";

const frame = (main) =>
  `<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,"></head>
  <body><main><h1>A page</h1>${main}</main></body></html>`;

const PAGES = {
  "/sound": ["text/html", frame("<p>All is well.</p>")],
  "/exception": ["text/html", frame('<script src="/throw.js"></script>')],
  "/throw.js": ["text/javascript", 'throw new Error("on purpose")'],
  "/log": ["text/html", frame('<script src="/error.js"></script>')],
  "/error.js": ["text/javascript", 'console.error("on purpose")'],
  "/inline-script": ["text/html", frame("<script>1</script>")],
  "/inline-style": ["text/html", frame('<p style="color: red">Red</p>')],
  "/missing-script": ["text/html", frame('<script src="/nowhere.js"></script>')],
  "/dim-in-the-dark": ["text/html", frame('<link rel="stylesheet" href="/dark.css"><p>All is well.</p>')],
  "/dark.css": ["text/css", "@media (prefers-color-scheme: dark) { body { background: #222; color: #333 } }"],
  "/wide": ["text/html", frame('<link rel="stylesheet" href="/wide.css"><p class="board">Wide.</p>')],
  "/wide.css": ["text/css", ".board { width: 400px }"],
  "/unlabelled": ["text/html", frame('<form><input name="x"></form>')],
};

let server;
let browser;
let url;

before(async () => {
  server = createServer((request, response) => {
    const [type, body] = PAGES[request.url] ?? ["text/plain", null];
    const headers = { "Content-Type": type, "Content-Security-Policy": POLICY };
    response.writeHead(body === null ? 404 : 200, headers).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${server.address().port}`;
  browser = await openBrowser();
});

after(async () => {
  await browser?.close();
  server.close();
});

async function visit(path) {
  const visitor = await Visitor.arrive(browser, url);
  await visitor.page.goto(path, { waitUntil: "networkidle" });
  return visitor;
}

test("a sound page has no problems and no barriers", async () => {
  const visitor = await visit("/sound");

  assert.deepEqual(await visitor.barriers(), []);
  await visitor.leave();
});

for (const [path, problem] of [
  ["/exception", /exception: on purpose/],
  ["/log", /console: on purpose/],
  ["/inline-script", /policy: script-src-elem inline/],
  ["/inline-style", /policy: style-src-attr inline/],
  ["/missing-script", /404/],
]) {
  test(`${path} is noticed, unless the test allows it`, async () => {
    const careless = await visit(path);
    await assert.rejects(careless.leave(), problem);

    const prepared = await visit(path);
    prepared.allow(/./);
    await prepared.leave();
  });
}

test("a field without a label is a barrier", async () => {
  const visitor = await visit("/unlabelled");

  assert.match((await visitor.barriers()).join("\n"), /label/);
  await visitor.leave();
});

test("dim text on a dark page is a fault", async () => {
  const visitor = await visit("/dim-in-the-dark");

  assert.deepEqual(await visitor.barriers(), []);
  assert.match((await visitor.faults()).join("\n"), /color-contrast/);
  await visitor.leave();
});

test("what does not fit on a phone is a fault", async () => {
  const visitor = await visit("/wide");

  assert.deepEqual(await visitor.overhang(), []);
  assert.deepEqual(await visitor.faults(), ["at 320 px too wide: p.board"]);
  await visitor.leave();
});

test("screenshots are kept where there is a folder", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "everpost-screenshots-"));
  t.after(() => rm(folder, { recursive: true }));
  const visitor = await visit("/sound");

  await visitor.screenshot("sound", folder);
  for (const look of ["light", "dark", "phone"]) {
    assert.ok((await stat(join(folder, `sound.${look}.png`))).size > 1_000, look);
  }
  await visitor.leave();
});
