// A person with a browser at the appliance: one page, watched for everything that a page must not do.

import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import { chromium } from "playwright-core";

const AXE = readFileSync(new URL(import.meta.resolve("axe-core/axe.min.js")), "utf8");

// Debian's two: the one without windows starts and loads pages in half the time.
const BROWSERS = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];

// No window may scroll sideways: that of a phone, and those among which lists change their shape.
const WIDTHS = [320, 480, 800, 1000, 1060, 1150, 1600];

// The window of most phones.
const PHONE_WIDTH = 390;

// No part of the browser talks to anybody but the appliance, so no page needs a process of its own.
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-site-isolation-trials",
  "--renderer-process-limit=1",
];

// What axe needs most of its time for: text that is too dim, and links that only their colour sets apart.
const COLOURS = ["color-contrast", "link-in-text-block"];

// What axe is asked for: faults alone, and of the page as it is, without reading its style sheet once more.
const FAULTS_ALONE = { reporter: "no-passes", resultTypes: ["violations"], preload: false };

/** A browser with a profile that is new and thrown away. */
export function openBrowser() {
  const executablePath = process.env.EVERPOST_CHROMIUM || BROWSERS.find(existsSync);
  return chromium.launch({ executablePath, args: ARGUMENTS });
}

/** One page in a context of its own (cookies, size), and what went wrong on it. */
export class Visitor {
  /** `options` are those of a browser context: `viewport`, `colorScheme`, `javaScriptEnabled` … */
  static async arrive(browser, baseURL, options = {}) {
    const context = await browser.newContext({ baseURL, ...options });
    const visitor = new this(await context.newPage());
    visitor.isScripted = options.javaScriptEnabled ?? true;
    await visitor.#watch();
    return visitor;
  }

  #problems = [];
  #seen = new Set();
  #allowed = [];

  constructor(page) {
    this.page = page;
  }

  /** A problem that the test is about, such as the status of a form that is rejected. */
  allow(pattern) {
    this.#allowed.push(pattern);
  }

  /** Everything so far that no page may do and no test allowed. */
  problems() {
    return this.#problems.filter((problem) => !this.#allowed.some((it) => it.test(problem)));
  }

  /**
   * What axe finds against WCAG 2.2 AA and its own best practices: one line for each element. Axe is a script
   * itself and needs a browser that runs scripts; the same pages are judged there.
   */
  async barriers() {
    const [, found] = await this.#axe({ rules: Object.fromEntries(COLOURS.map((rule) => [rule, { enabled: false }])) });
    return [...found, ...(await this.#dim())];
  }

  /** What keeps people from using the page, whatever colours and window they have. */
  async faults() {
    const size = this.page.viewportSize();
    const found = await this.barriers();
    await this.page.emulateMedia({ colorScheme: "dark" });
    found.push(...(await this.#dim()));
    await this.page.emulateMedia({ colorScheme: "light" });
    for (const width of WIDTHS) {
      await this.page.setViewportSize({ ...size, width });
      found.push(...(await this.overhang()));
    }
    await this.page.setViewportSize(size);
    return found;
  }

  /**
   * Faults of colour. Text is left out that looks like some that this visitor has seen on another page: same colours,
   * size and class.
   */
  async #dim() {
    const [looks, found] = await this.#axe({ runOnly: COLOURS }, [...this.#seen]);
    looks.forEach((look) => this.#seen.add(look));
    return found;
  }

  /** Judges text that has none of the looks in `seen`, or the whole page. Returns the new looks, and the faults. */
  async #axe(options, seen) {
    if (!this.isScripted) {
      return [[], []];
    }
    if (!(await this.page.evaluate("Boolean(window.axe)"))) {
      await this.page.evaluate(AXE); // half a megabyte: once for each page
    }
    const judge = async ([options, seen]) => {
      const grounds = new Map(); // by element, with those that it stands on
      const groundOf = (it) => {
        if (it && !grounds.has(it)) {
          const { backgroundColor, backgroundImage, opacity } = getComputedStyle(it);
          const above = groundOf(it.parentElement);
          const own = `${backgroundColor}${backgroundImage}${opacity}`;
          grounds.set(it, above.startsWith(own) ? above : `${own} ${above}`);
        }
        return grounds.get(it) ?? "";
      };
      const lookOf = (text) => {
        const { color, fontSize, fontWeight } = getComputedStyle(text);
        const look = [text.className, color, fontSize, fontWeight, groundOf(text)].join();
        return [...look].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % (2 ** 48 - 59), 7); // short to hand over
      };
      const isText = (it) =>
        it.matches("input, select, textarea") ||
        [...it.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
      const texts = seen ? [...document.body.querySelectorAll("*")].filter(isText) : [];
      const fresh = new Map(texts.map((text) => [lookOf(text), text]));
      seen?.forEach((look) => fresh.delete(look));
      if (seen && fresh.size === 0) {
        return [[], []];
      }
      const context = seen ? { include: [...fresh.values()] } : document;
      const { violations } = await window.axe.run(context, options);
      const lines = violations.flatMap(({ id, help, impact, nodes }) =>
        nodes.map(({ target }) => `${id}: ${help} (${impact}, ${target.join(" ")})`),
      );
      return [[...fresh.keys()], lines];
    };
    return this.page.evaluate(judge, [{ ...FAULTS_ALONE, ...options }, seen]);
  }

  /** What makes the page wider than its window, so that people have to scroll sideways. */
  async overhang() {
    return this.page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      if (scrollWidth <= clientWidth) {
        return [];
      }
      const isWide = (element) => {
        const { left, right } = element.getBoundingClientRect();
        const spills = getComputedStyle(element).overflowX === "visible"; // its text is wider than its box
        return right > clientWidth || (spills && left + element.scrollWidth > clientWidth);
      };
      const isCause = (element) => isWide(element) && ![...element.children].some(isWide);
      const wide = [...document.querySelectorAll("body *")].filter(isCause);
      const name = ({ tagName, className }) => `${tagName.toLowerCase()}.${className}`;
      return wide.map((element) => `at ${clientWidth} px too wide: ${name(element)}`);
    });
  }

  /** Keeps pictures of the whole page in a folder, if there is one: in light and dark colours, and on a phone. */
  async screenshot(name, folder = process.env.SCREENSHOTS) {
    if (!folder) {
      return;
    }
    await mkdir(folder, { recursive: true });
    const keep = (look) => this.page.screenshot({ path: join(folder, `${name}.${look}.png`), fullPage: true });
    const size = this.page.viewportSize();
    await keep("light");
    await this.page.emulateMedia({ colorScheme: "dark" });
    await keep("dark");
    await this.page.emulateMedia({ colorScheme: "light" });
    await this.page.setViewportSize({ ...size, width: PHONE_WIDTH });
    await keep("phone");
    await this.page.setViewportSize(size);
  }

  /** Closes the page; throws if it did anything that a page must not do. */
  async leave() {
    await this.page.context().close();
    if (this.problems().length > 0) {
      throw new Error(`the page had problems:\n${this.problems().join("\n")}`);
    }
  }

  async #watch() {
    const note = (problem) => this.#problems.push(problem);
    this.page.on("pageerror", (error) => note(`exception: ${error.message}`));
    this.page.on("crash", () => note("the page crashed"));
    this.page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // The browser itself gives up what a page still loads when the next one is asked for.
      if (why !== "net::ERR_ABORTED") note(`request failed: ${request.url()} ${why}`);
    });
    this.page.on("console", (line) => {
      if (line.type() === "error") {
        note(`console: ${line.text()} (${line.location().url})`);
      }
    });
    await this.page.exposeFunction("reportViolation", (text) => note(`policy: ${text}`));
    await this.page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => {
        window.reportViolation(`${event.violatedDirective} ${event.blockedURI}`);
      });
    });
  }
}
