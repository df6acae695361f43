// Somebody who works with the pages: clicks what can be seen, and types where a label asks for it.

import { eventually } from "../clients/appliance.mjs";
import { Visitor } from "./visitor.mjs";

export const NAME = "ann";
export const PASSWORD = "a horse that staples batteries";

// A busy machine may need long for what takes an idle one no time.
const PATIENCE_MS = 60_000;

export class Administrator extends Visitor {
  constructor(page) {
    super(page);
    page.setDefaultTimeout(PATIENCE_MS);
  }

  /** Makes the first account by the link that the appliance printed. */
  async claim(appliance) {
    await this.page.goto(await appliance.setupUrl());
    await this.type("Name", NAME);
    await this.type("Password", PASSWORD);
    await this.press("Create account");
    await this.isOn("Overview");
  }

  async signIn(name = NAME, password = PASSWORD) {
    await this.type("Name", name);
    await this.type("Password", password);
    await this.press("Sign in");
  }

  async type(label, text) {
    await this.page.getByLabel(label, { exact: true }).fill(text);
  }

  /** Presses a button that leads to another page, as all do but those that copy. */
  async press(button) {
    const locate = (name) => this.page.getByRole("button", { name, exact: true });
    await this.#arriveBy(locate(button));
    // On a busy machine a test may outlive what a password that was typed once is enough for.
    if (await this.page.getByRole("heading", { name: "Confirm your password" }).isVisible()) {
      await this.type("Your password", PASSWORD);
      await this.#arriveBy(locate("Continue"));
    }
  }

  /** Opens a part of a form that is folded away. */
  async unfold(title) {
    const folds = this.page.locator("details.fold:not([open]) > summary");
    await folds.filter({ hasText: title }).click();
  }

  /** Follows a link of the page itself. */
  async follow(link) {
    await this.#arriveBy(this.#main().getByRole("link", { name: link, exact: true }).first());
  }

  /** Opens what the first row of the page's only list with links leads to. */
  async openFirstRow() {
    await this.#arriveBy(this.#main().getByRole("rowheader").getByRole("link").first());
  }

  /** Opens the navigation where there is no room for it. */
  async openMenu() {
    const button = this.page.getByRole("button", { name: "Menu", exact: true });
    if (await button.isVisible()) {
      await button.click();
    }
  }

  async signOut() {
    await this.openMenu();
    await this.press("Sign out");
  }

  /** Follows a link of the navigation. */
  async goesTo(title) {
    await this.openMenu();
    const navigation = this.page.getByRole("navigation", { name: "Pages", exact: true });
    // Behind the title may stand a count: "Dead letters, in their queues: 2".
    await this.#arriveBy(navigation.getByRole("link", { name: new RegExp(`^${title}( ?,|$)`) }));
  }

  /** Waits for the page with this heading. */
  async isOn(heading) {
    await this.page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
  }

  /** Waits for what the page has to say about the last action. */
  async isTold(text) {
    await this.page.getByRole("status").filter({ hasText: text }).waitFor();
  }

  /** Waits until the page shows all of these texts. */
  async sees(...texts) {
    for (const text of texts) {
      await this.#shown(text).first().waitFor();
    }
  }

  /** Waits until the page shows it: by itself where it has its script, by reading it again without. */
  async comesToSee(text) {
    if (this.isScripted) {
      await this.#shown(text).first().waitFor();
    } else {
      await this.reloadsUntil(text);
    }
  }

  /** Reads the page again and again until it shows it. */
  async reloadsUntil(text) {
    const isShown = async () => {
      await this.page.reload();
      return this.#shown(text).first().isVisible();
    };
    await eventually(isShown, `${this.page.url()} shows ${text}`);
  }

  async #arriveBy(locator) {
    const arrived = this.page.waitForEvent("load");
    await locator.click();
    await arrived;
  }

  #shown(text) {
    const inThisCase = new RegExp(text.replace(/[^\w\s]/g, "\\$&"));
    return this.#main().getByText(inThisCase).filter({ visible: true });
  }

  #main() {
    return this.page.getByRole("main");
  }
}
