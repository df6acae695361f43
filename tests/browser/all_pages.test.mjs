// Every page: whether everybody can use it, whatever colours and window they have.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { testLooks } from "./looks.mjs";
import { ENDINGS, NO_PAGES, PAGES } from "./places.mjs";

test("every page is looked at", async () => {
  const registry = await readFile(new URL("../../src/admin/registry.rs", import.meta.url), "utf8");
  const table = registry.slice(registry.indexOf("fn pages()"), registry.indexOf("impl RegisteredPage"));
  const paths = [...table.matchAll(/\("(\/[^"]*)"/g)].map(([, path]) => path);

  assert.deepEqual([...PAGES.map(([path]) => path), ...NO_PAGES, ...ENDINGS].sort(), paths.sort());
});

testLooks("pages in use", PAGES);
