// Comforts that the pages work without: buttons that copy or show a password, the reader's time zone, charts
// by the keyboard, the language of examples, a way back to what was typed without forms sent twice, and pages that read themselves again
// when something has changed.

function icon(name) {
  const use = `<svg class="icon" aria-hidden="true"><use href="#i-${name}"/></svg>`;
  return document.createRange().createContextualFragment(use);
}

function addCopyButtons(part) {
  for (const source of part.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    const say = (word) => {
      button.title = word;
      button.setAttribute("aria-label", `${word} ${source.dataset.copy}`);
      button.replaceChildren(icon(word === "Copy" ? "copy" : "ok"));
    };
    button.type = "button";
    button.className = "square copy";
    say("Copy");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.dataset.text ?? source.textContent);
        say("Copied");
      } catch {
        // Browsers offer the clipboard over https alone; then the text is at least selected.
        getSelection().selectAllChildren(source);
        say("Selected");
      }
      setTimeout(() => say("Copy"), 2_000);
    });
    // Over a text that scrolls it would lie on what scrolls below it.
    const head = source.closest("pre")?.parentElement.querySelector(":scope > .bar");
    const tools = head?.querySelector(".tools");
    button.classList.toggle("push", Boolean(head && !tools));
    if (head) (tools ?? head).append(button);
    else if (source.parentElement.matches("pre")) source.before(button);
    else source.after(button);
  }
}

// Times are drawn in the zone of the account, or in that of the browser, which only a script knows.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`everpost_zone=${zone}`)) {
  document.cookie = `everpost_zone=${zone}; path=/admin; max-age=34560000; samesite=lax`;
}

// What was typed may be looked at, but not be remembered by the browser as anything but a password.
function addPasswordButtons(part) {
  for (const field of part.querySelectorAll('input[type="password"]:not([autocomplete="off"])')) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet tiny reveal";
    const name = field.labels[0]?.textContent.toLowerCase() ?? "it";
    const show = (isShown) => {
      field.type = isShown ? "text" : "password";
      button.textContent = isShown ? "Hide" : "Show";
      button.setAttribute("aria-label", `${button.textContent} ${name}`);
    };
    show(false);
    button.addEventListener("click", () => show(field.type === "password"));
    field.form?.addEventListener("submit", () => show(false));
    field.after(button);
  }
}

// A box that ticks all others of its form, and the number of those that are ticked.
function addSelection(part) {
  for (const all of part.querySelectorAll("[data-all]")) {
    const boxes = [...all.form.querySelectorAll("tbody input[type=checkbox]")];
    const count = all.form.querySelector("[data-selected]");
    const tell = () => {
      const ticked = boxes.filter((box) => box.checked).length;
      all.checked = ticked > 0 && ticked === boxes.length;
      all.indeterminate = ticked > 0 && !all.checked;
      if (count) count.textContent = ticked || "";
    };
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of boxes) box.checked = all.checked;
      tell();
    });
    all.form.addEventListener("change", tell);
    tell();
  }
}

// Arrows lead from one value of a chart to the next.
function addChartKeys(part) {
  for (const chart of part.querySelectorAll(".plot[tabindex]")) {
    const hits = [...chart.querySelectorAll(".hit")];
    let at = hits.length - 1;
    const show = (index) => {
      at = Math.min(Math.max(index, 0), hits.length - 1);
      hits.forEach((hit, index) => hit.classList.toggle("on", index === at));
    };
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    chart.addEventListener("focus", () => show(at));
    chart.addEventListener("blur", () => hits.forEach((hit) => hit.classList.remove("on")));
    chart.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      show(at + steps[event.key]);
    });
  }
}

// The language of examples stays the one that was chosen, on all pages.
function addExamples(part) {
  for (const tab of part.querySelectorAll(".codes input")) {
    if (localStorage.getItem(tab.name) === tab.value) tab.checked = true;
    tab.addEventListener("change", () => localStorage.setItem(tab.name, tab.value));
  }
}

function addComforts(part) {
  addExamples(part);
  addCopyButtons(part);
  addPasswordButtons(part);
  addSelection(part);
  addChartKeys(part);
}

// A menu that is open closes as others do.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.pop[open]")) {
    if (!menu.contains(except)) menu.open = false;
  }
}

addEventListener("click", (event) => closeMenus(event.target));
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.activeElement.closest("details.pop[open]");
  closeMenus(null);
  menu?.querySelector("summary").focus();
});

addComforts(document);

// Drafts

// A page that answers a form is that of its address from here on: whoever goes back to it, or reads it again,
// opens the address and sends nothing a second time. What was typed stays with that entry of the history.
const drafts = [...document.querySelectorAll("main form[method=post]")];

function isPrivate(field) {
  if (["hidden", "password"].includes(field.type) || field.matches(".masked, [autocomplete=one-time-code]")) return true;
  if (field.closest("fieldset")?.querySelector("[name$='.isSecret']:checked")) return true;
  return /^https?:.*\?/.test(field.value); // the query of a URL may be a key
}

function typedInto(form) {
  const typed = [...form.elements].filter((field) => field.name && field.matches("input, select, textarea"));
  return typed.filter((field) => !isPrivate(field));
}

function keepDrafts() {
  const draft = drafts.map((form) => typedInto(form).map(({ name, value, checked }) => ({ name, value, checked })));
  try {
    history.replaceState({ draft }, "", location.href);
  } catch {
    history.replaceState(null, "", location.href); // browsers bound what an entry holds
  }
}

function takeUpDrafts(kept) {
  drafts.forEach((form, index) => {
    const left = [...(kept[index] ?? [])];
    for (const field of typedInto(form)) {
      const isTicked = field.type === "checkbox" || field.type === "radio";
      const fits = ({ name, value }) => name === field.name && (!isTicked || value === field.value);
      const found = left.findIndex(fits);
      if (found < 0) continue;
      const [{ value, checked }] = left.splice(found, 1);
      if (isTicked) field.checked = checked;
      else field.value = value;
    }
  });
}

if (document.querySelector("[data-answers-form]")) keepDrafts();
else if (history.state?.draft) takeUpDrafts(history.state.draft);
for (const form of drafts) form.addEventListener("submit", keepDrafts);

// The choice of colours needs no other page.
async function choose(form, chosen) {
  const body = new URLSearchParams(new FormData(form, chosen));
  const answer = await fetch(form.action, { method: "POST", body, redirect: "manual" });
  if (answer.type !== "opaqueredirect") return;
  document.documentElement.dataset.theme = chosen.value;
  for (const button of form.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", button === chosen);
  }
}

for (const form of document.querySelectorAll("form.theme")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    choose(form, event.submitter).catch(() => {}); // the colours stay as they are
  });
}

// Live pages

// How often a page is read again although nothing has changed, so that its relative times are true. A
// search may cost more, and is read again only when something has changed.
const REREAD_MS = 10_000;

const content = document.getElementById("content");
let stream;
let clock;
let leaving = false;

// How long what an action had to say stays beside what it is about.
const SAID_MS = 8_000;

// A reader who writes, has marked something, or reads what an action had to say is not disturbed.
function isBusy() {
  const focus = document.activeElement;
  const writes = content.contains(focus) && focus.matches("input:not([type=radio]), select, textarea");
  const marks = content.querySelector("tbody input:checked") !== null;
  const reads = performance.now() < SAID_MS && content.querySelector(".flash") !== null;
  return leaving || writes || marks || reads || !getSelection().isCollapsed;
}

async function readAgain() {
  if (isBusy()) return;
  const answer = await fetch(location.href, { headers: { "everpost-refresh": "true" } });
  if (!answer.ok || answer.redirected) {
    stopListening();
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (isBusy()) return;
  for (const id of ["content", "nav", "clock"]) replace(id, page);
}

// What was open stays open, and what had the focus keeps it. Parts with an id are known again wherever
// they are by then; of the others the newest are the last.
function replace(id, page) {
  const present = document.getElementById(id);
  const next = page.getElementById(id);
  if (!next) return;
  const opened = new Map();
  present.querySelectorAll("details").forEach((each, index) => opened.set(each.id || index, each.open));
  const focusable = "a[href], button, summary, [type=radio]";
  const focus = [...present.querySelectorAll(focusable)].indexOf(document.activeElement);
  present.replaceChildren(...next.childNodes);
  present.querySelectorAll("details").forEach((each, index) => {
    const before = opened.get(each.id || index);
    each.open = each.id ? (before ?? each.open) : each.open || before === true;
  });
  addComforts(present);
  if (focus >= 0) present.querySelectorAll(focusable)[focus]?.focus({ preventScroll: true });
}

function reread() {
  readAgain().catch(stopListening);
}

function keepTime() {
  clearInterval(clock);
  clock = setInterval(reread, REREAD_MS);
}

function stopListening() {
  stream?.close();
  clearInterval(clock);
}

function listen() {
  stopListening();
  if (document.hidden) return;
  stream = new EventSource("/admin/live");
  stream.addEventListener("changed", reread);
  if (!location.search) stream.addEventListener("open", keepTime);
}

if (content && "live" in content.dataset) {
  listen();
  document.addEventListener("visibilitychange", () => {
    listen();
    if (!document.hidden) reread();
  });
  addEventListener("submit", (event) => (leaving ||= !event.defaultPrevented));
  addEventListener("pagehide", () => {
    leaving = true;
    stopListening();
  });
  addEventListener("pageshow", (shown) => {
    leaving = false;
    if (shown.persisted) listen();
  });
}
