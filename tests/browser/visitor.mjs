// A person with a browser at the appliance: one page, watched for everything that a page must not do.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import axe from "axe-core";
import { chromium } from "playwright-core";

// Whether pages are searched for every barrier in dark colours and on a small screen too. It takes three times as
// long, and finds what a change of the style sheet alone can break.
const IN_EVERY_LOOK = process.env.LOOKS === "all";

// No window may scroll sideways: that of a phone, and those among which lists change their shape.
const WIDTHS = [320, 480, 800, 1000, 1060, 1150, 1600];

// No part of the browser talks to anybody but the appliance.
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Debian's chromium with a profile that is new and thrown away. */
export function openBrowser() {
  const executablePath = process.env.EVERPOST_CHROMIUM || "/usr/bin/chromium";
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
  #allowed = [];

  constructor(page) {
    this.page = page;
  }

  /** A problem that the test is about, such as the status of a form that is refused. */
  allow(pattern) {
    this.#allowed.push(pattern);
  }

  /** Everything so far that no page may do and no test allowed. */
  problems() {
    return this.#problems.filter((problem) => !this.#allowed.some((it) => it.test(problem)));
  }

  /**
   * What axe finds against WCAG 2.2 AA and its own best practices, or against these rules alone: one line for
   * each element. Axe is a script itself and needs a browser that runs scripts; the same pages are judged there.
   */
  async barriers(...rules) {
    if (!this.isScripted) {
      return [];
    }
    const options = { resultTypes: ["violations"], ...(rules.length > 0 && { runOnly: rules }) };
    await this.page.evaluate(axe.source);
    const { violations } = await this.page.evaluate((it) => window.axe.run(it), options);
    return violations.flatMap(({ id, help, impact, nodes }) =>
      nodes.map(({ target }) => `${id}: ${help} (${impact}, ${target.join(" ")})`),
    );
  }

  /** What keeps people from using the page, whatever colours and window they have. */
  async faults() {
    const size = this.page.viewportSize();
    const found = await this.barriers();
    await this.page.emulateMedia({ colorScheme: "dark" });
    found.push(...(await this.barriers(...(IN_EVERY_LOOK ? [] : ["color-contrast"]))));
    await this.page.emulateMedia({ colorScheme: "light" });
    for (const width of WIDTHS) {
      await this.page.setViewportSize({ ...size, width });
      found.push(...(await this.overhang()));
      if (IN_EVERY_LOOK && width === WIDTHS[0]) {
        found.push(...(await this.barriers()));
      }
    }
    await this.page.setViewportSize(size);
    return found;
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

  /** Keeps a picture of the whole page in a folder, if there is one. */
  async screenshot(name, folder = process.env.SCREENSHOTS) {
    if (folder) {
      await mkdir(folder, { recursive: true });
      await this.page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
    }
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
