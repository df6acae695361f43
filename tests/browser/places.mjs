// Where every page is to be found, how it looks in its other states, and what to do there.

import assert from "node:assert/strict";

import { NAME, PASSWORD } from "./administrator.mjs";
import { LONG_SUBSCRIPTION, LONG_WORD } from "./furniture.mjs";

const ORDERS = "/admin/topics/orders";
const BILLING = `${ORDERS}/subscriptions/billing`;
const REJECTED = "/admin/dead-letters/62";
const SHOP = "/admin/namespaces/shop";
const IN_SHOP = "/admin/topics/shop%2Forders";
const JOB = "/admin/replays/1";
const BIN = "/admin/inspectors/bin";
const JOBS = "/admin/queues/jobs";
const RULE = "/admin/access-rules/jobs%2Fworker";
const SALES = "/admin/service-bus-topics/shop.v1%2Fsales";
const LARGE = `${SALES}/subscriptions/large`;
const GUIDE = "/admin/first-event?topic=guided";

const createAll = "Create topic, inspector and subscription";

// A path of the registry, where it is to be found, and what to do there.
export const PAGES = [
  ["/", "/admin"],
  ["/topics", "/admin/topics"],
  ["/new-topic", "/admin/new-topic"],
  ["/topics/{topic}", ORDERS],
  ["/topics/{topic}/keys", ORDERS, (ann) => ann.press("Show keys")],
  ["/topics/{topic}/keys/{key}/regenerate", `${ORDERS}/keys/key1/regenerate`],
  ["/topics/{topic}/keys/token", `${ORDERS}/keys/token`, (ann) => ann.press("Create SAS token")],
  ["/topics/{topic}/delete", `${ORDERS}/delete`],
  ["/topics/{topic}/retention", `${IN_SHOP}/retention`],
  ["/topics/{topic}/publish", `${ORDERS}/publish`],
  ["/namespaces", "/admin/namespaces"],
  ["/new-namespace", "/admin/new-namespace"],
  ["/namespaces/{namespace}", SHOP],
  ["/namespaces/{namespace}/edit", `${SHOP}/edit`],
  ["/namespaces/{namespace}/keys", SHOP, (ann) => ann.press("Show keys")],
  ["/namespaces/{namespace}/keys/{key}/regenerate", `${SHOP}/keys/key1/regenerate`],
  ["/namespaces/{namespace}/new-topic", `${SHOP}/new-topic`],
  ["/namespaces/{namespace}/delete", `${SHOP}/delete`],
  ["/subscriptions", "/admin/subscriptions", (ann) => ann.comesToSee("Failing")],
  ["/subscriptions/pause", "/admin/subscriptions/pause?of=orders/billing&of=orders/reports"],
  ["/subscriptions/resume", "/admin/subscriptions/resume?of=orders/billing&of=orders/reports"],
  ["/new-subscription", "/admin/new-subscription"],
  ["/topics/{topic}/new-subscription", `${ORDERS}/new-subscription`],
  ["/topics/{topic}/new-subscription/draft", `${ORDERS}/new-subscription`, tryFilter],
  ["/topics/{topic}/subscriptions/{name}", BILLING],
  ["/topics/{topic}/subscriptions/{name}/edit", `${BILLING}/edit`],
  ["/topics/{topic}/subscriptions/{name}/edit/draft", `${BILLING}/edit`, tryFilter],
  ["/topics/{topic}/subscriptions/{name}/try-filter", `${BILLING}/try-filter`],
  ["/topics/{topic}/subscriptions/{name}/signing", `${BILLING}/signing`],
  ["/topics/{topic}/subscriptions/{name}/signing/stop", `${BILLING}/signing/stop`],
  ["/topics/{topic}/subscriptions/{name}/url", `${ORDERS}/subscriptions/warehouse`,
    (ann) => ann.press("Show with query")],
  ["/topics/{topic}/subscriptions/{name}/validate", BILLING, async (ann) => {
    await ann.page.getByLabel("More actions").click();
    await ann.press("Validate again");
  }],
  ["/topics/{topic}/subscriptions/{name}/pause", BILLING, (ann) => ann.press("Pause")],
  ["/topics/{topic}/subscriptions/{name}/resume", BILLING, (ann) => ann.press("Resume")],
  ["/topics/{topic}/subscriptions/{name}/delete", `${BILLING}/delete`],
  ["/queues", "/admin/queues"],
  ["/new-queue", "/admin/new-queue"],
  ["/queues/{queue}", JOBS],
  ["/queues/{queue}/edit", `${JOBS}/edit`],
  ["/queues/{queue}/keys", JOBS, (ann) => ann.press("Show keys")],
  ["/queues/{queue}/keys/{key}/regenerate", `${JOBS}/keys/key1/regenerate`],
  ["/queues/{queue}/send", `${JOBS}/send`],
  ["/queues/{queue}/messages/{number}", JOBS, (ann) => ann.openFirstRow()],
  ["/queues/{queue}/delete", `${JOBS}/delete`],
  ["/access-rules", "/admin/access-rules"],
  ["/new-access-rule", "/admin/new-access-rule"],
  ["/access-rules/{rule}", RULE],
  ["/access-rules/{rule}/edit", `${RULE}/edit`],
  ["/access-rules/{rule}/keys", RULE, (ann) => ann.press("Show keys")],
  ["/access-rules/{rule}/keys/{key}/regenerate", `${RULE}/keys/key1/regenerate`],
  ["/access-rules/{rule}/delete", `${RULE}/delete`],
  ["/service-bus-topics", "/admin/service-bus-topics"],
  ["/new-service-bus-topic", "/admin/new-service-bus-topic"],
  ["/service-bus-topics/{topic}", SALES],
  ["/service-bus-topics/{topic}/edit", `${SALES}/edit`],
  ["/service-bus-topics/{topic}/keys", SALES, (ann) => ann.press("Show keys")],
  ["/service-bus-topics/{topic}/keys/{key}/regenerate", `${SALES}/keys/key1/regenerate`],
  ["/service-bus-topics/{topic}/send", `${SALES}/send`],
  ["/service-bus-topics/{topic}/delete", `${SALES}/delete`],
  ["/service-bus-topics/{topic}/new-subscription", `${SALES}/new-subscription`],
  ["/service-bus-topics/{topic}/subscriptions/{name}", LARGE],
  ["/service-bus-topics/{topic}/subscriptions/{name}/edit", `${LARGE}/edit`],
  ["/service-bus-topics/{topic}/subscriptions/{name}/messages/{number}", LARGE, (ann) => ann.openFirstRow()],
  ["/service-bus-topics/{topic}/subscriptions/{name}/delete", `${LARGE}/delete`],
  ["/service-bus-topics/{topic}/subscriptions/{name}/try-rule", `${LARGE}/try-rule?rule=paid`],
  ["/service-bus-topics/{topic}/subscriptions/{name}/new-rule", `${LARGE}/new-rule`],
  ["/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/edit", `${LARGE}/rules/paid/edit`],
  ["/service-bus-topics/{topic}/subscriptions/{name}/rules/{rule}/delete", `${LARGE}/rules/paid/delete`],
  ["/events", "/admin/events"],
  ["/events/{key}", "/admin/events/61"],
  ["/events/{key}/send/{subscription}", "/admin/events/65/send/late"],
  ["/rejected-events", "/admin/rejected-events"],
  ["/rejected-events/{id}", "/admin/rejected-events/2"],
  ["/dead-letters", "/admin/dead-letters"],
  ["/dead-letters/resubmit", `/admin/dead-letters/resubmit?of=${REJECTED.split("/").pop()}`],
  ["/dead-letters/resubmit-all", "/admin/dead-letters/resubmit-all"],
  ["/dead-letters/purge", "/admin/dead-letters/purge"],
  ["/dead-letters/{id}", REJECTED],
  ["/dead-letters/{id}/edit", `${REJECTED}/edit`],
  ["/dead-letters/{id}/resubmit", `${REJECTED}/resubmit`],
  ["/dead-letters/{id}/delete", `${REJECTED}/delete`],
  ["/replays", "/admin/replays"],
  ["/replays/{id}", JOB],
  ["/replays/{id}/pause", JOB, (ann) => ann.press("Pause")],
  ["/replays/{id}/resume", JOB, (ann) => ann.press("Resume")],
  ["/replays/{id}/cancel", `${JOB}/cancel`],
  ["/users", "/admin/users"],
  ["/new-user", "/admin/new-user"],
  ["/users/{user}", "/admin/users/1"],
  ["/users/{user}/role", "/admin/users/2", (ann) => ann.press("Change role")],
  ["/users/{user}/disable", "/admin/users/2", (ann) => ann.press("Disable")],
  ["/users/{user}/enable", "/admin/users/2", (ann) => ann.press("Enable")],
  ["/users/{user}/password-link", "/admin/users/2", (ann) => ann.press("Create password link")],
  ["/users/{user}/end-sessions", "/admin/users/1", (ann) => ann.press("End all sessions")],
  ["/users/{user}/delete", "/admin/users/2/delete"],
  ["/sessions", "/admin/sessions"],
  ["/activity", "/admin/activity"],
  ["/tokens", "/admin/tokens"],
  ["/new-token", "/admin/new-token"],
  ["/tokens/{token}/delete", "/admin/tokens/1/delete"],
  ["/settings", "/admin/settings"],
  ["/settings/{setting}/edit", "/admin/settings/retention.hours/edit"],
  ["/settings/try-url", "/admin/settings", tryUrl("http://127.0.0.1:9000/in")],
  ["/system", "/admin/system"],
  ["/system/count", "/admin/system", (ann) => ann.press("Recount")],
  ["/system/check", "/admin/system", (ann) => ann.press("Check integrity")],
  ["/system/back-up", "/admin/system/back-up"],
  ["/system/test-connection", "/admin/system", testConnection()],
  ["/account", "/admin/account"],
  ["/account/second-factor", "/admin/account/second-factor"],
  ["/account/time-zone", "/admin/account", (ann) => ann.press("Change time zone")],
  ["/account/password", "/admin/account", rejectPassword],
  ["/alerts", "/admin/alerts", (ann) => ann.comesToSee("1 alert is firing.")],
  ["/new-alert-rule", "/admin/new-alert-rule"],
  ["/alert-rules/{rule}/edit", "/admin/alert-rules/disk-space/edit"],
  ["/alert-rules/{rule}/delete", "/admin/alert-rules/disk-space/delete"],
  ["/new-alert-channel", "/admin/new-alert-channel"],
  ["/alert-channels/{channel}/edit", "/admin/alert-channels/on-call/edit"],
  ["/alert-channels/{channel}/test", "/admin/alerts", (ann) => ann.press("Test: on-call")],
  ["/alert-channels/{channel}/delete", "/admin/alert-channels/on-call/delete"],
  ["/inspectors", "/admin/inspectors"],
  ["/new-inspector", "/admin/new-inspector"],
  ["/inspectors/{name}", BIN],
  ["/inspectors/{name}/edit", `${BIN}/edit`],
  ["/inspectors/{name}/subscribe", BIN, subscribeAgain],
  ["/inspectors/{name}/clear", `${BIN}/clear`],
  ["/inspectors/{name}/delete", `${BIN}/delete`],
  ["/inspectors/{name}/requests/{number}", `${BIN}/requests/2`],
  ["/deliveries/{id}/retry-now", "/admin/events/61", (ann) => ann.press("Retry now")],
  ["/playground", "/admin/playground"],
  ["/playground/filter", "/admin/playground/filter", tryPasted],
  ["/playground/convert", "/admin/playground/convert", (ann) => ann.press("Convert")],
  ["/playground/signature", "/admin/playground/signature", checkSignature],
  ["/playground/token", "/admin/playground", (ann) => ann.press("Continue")],
  ["/api", "/admin/api"],
  ["/api/{operation}", "/admin/api/putEventSubscription"],
  ["/first-event", "/admin/first-event", reject("Name of the topic", "o", createAll)],
  ["/first-event/{step}", "/admin/first-event", beginGuide],
  ["/first-event/repair", GUIDE, repair],
];

// No pages to look at: downloads, and the test of a connection.
export const NO_PAGES = [
  "/events/export",
  "/events/{key}/data",
  "/export-queues",
  "/queues/{queue}/messages/{number}/body",
  "/service-bus-topics/{topic}/subscriptions/{name}/messages/{number}/body",
  "/dead-letters/export",
  "/activity/export",
  "/system/support-bundle",
  "/api/openapi.json",
  "/live",
  "/logout",
];

// They only lead back to a page that is looked at, or end sessions.
export const ENDINGS = [
  "/topics/{topic}/subscriptions/{name}/retry-now",
  "/settings/{setting}/reset",
  "/alert-rules/{rule}/enable",
  "/alert-rules/{rule}/disable",
  "/users/{user}/remove-second-factor",
  "/account/second-factor/remove",
  "/sessions/end",
  "/sessions/{session}/end",
  "/account/sessions/end",
  "/account/sessions/{session}/end",
];

// Pages as they look when something is missing, long or wrong.
export const STATES = [
  ["an event that fails twice", "/admin/first-event", async (ann) => {
    await beginGuide(ann);
    await ann.page.goto(GUIDE);
    await failTwice(ann);
  }],
  ["an event that is rejected", GUIDE, async (ann) => {
    await publishOne(ann);
    await ann.press("Publish an event that is rejected");
    await ann.comesToSee("the event has become a dead letter");
  }],
  ["topic nobody subscribed to", "/admin/topics/cloud"],
  ["topic form rejected", "/admin/new-topic", reject("Name", "two words", "Create topic")],
  ["topic form for custom events", "/admin/new-topic",
    (ann) => ann.page.getByLabel("Input schema").selectOption("CustomEventSchema")],
  ["subscription form rejected for much", `${ORDERS}/new-subscription`, rejectMuch],
  ["namespace form rejected", "/admin/new-namespace", reject("Name", "two words", "Create namespace")],
  ["namespace topic", IN_SHOP, async (ann) => {
    await ann.page.getByText("Publish from your own code").click();
    await ann.page.getByText("JavaScript", { exact: true }).click();
    await ann.sees("EventGridSenderClient");
    assert.equal(await ann.page.getByText("EventGridPublisherClient").first().isVisible(), false);
    await ann.page.getByText("curl", { exact: true }).first().click(); // it is remembered
  }],
  ["charts as a table", ORDERS, (ann) => ann.page.getByText("Charts as a table").click()],
  ["charts of a month", `${ORDERS}?range=30d`],
  ["subscriptions none found", "/admin/subscriptions?text=nobody&state=inactive"],
  ["pull queue", `${IN_SHOP}/subscriptions/audit`,
    (ann) => ann.page.getByText("Receive with your own code").click()],
  ["pull queue with nothing in it", `${IN_SHOP}/subscriptions/idle`],
  ["pull subscription form", `${IN_SHOP}/subscriptions/audit/edit`],
  ["pull subscription form rejected", `${IN_SHOP}/new-subscription?deliveryMode=Queue`,
    reject("Name", "two words", "Create event subscription")],
  ["push subscription form of a namespace", `${IN_SHOP}/new-subscription`],
  ["queue form rejected", "/admin/new-queue", reject("Name", "two words", "Create queue")],
  ["queue with sessions", "/admin/queues/steps/send", async (ann) => {
    await ann.type("Body", LONG_WORD);
    await ann.type("Session ID", LONG_WORD.slice(0, 128));
    await ann.press("Send message");
    await ann.page.getByText("Send and receive with your own code").click();
  }],
  ["queue with nothing in it", "/admin/queues/idle-queue"],
  ["Service Bus topic with its code", SALES, (ann) => ann.page.getByText("Send and receive with your own code").click()],
  ["subscription with no rules", `${SALES}/subscriptions/idle`],
  ["rule form rejected", `${LARGE}/new-rule`, async (ann) => {
    await ann.page.getByLabel("Name").fill("broken");
    await reject("Condition", "a =", "Create rule")(ann);
  }],
  ["rule form with properties", `${LARGE}/new-rule`,
    (ann) => ann.page.getByLabel("Matches").selectOption("CorrelationFilter")],
  ["condition rejected", `${LARGE}/try-rule?sql=a%3D`],
  ["queues none found", "/admin/queues?text=nobody"],
  ["message form rejected", "/admin/queues/steps/send", reject("Time to live", "soon", "Send message")],
  ["message in hex", JOBS, async (ann) => {
    await ann.openFirstRow();
    await ann.follow("Hex");
  }],
  ["subscription that failed", `${ORDERS}/subscriptions/audit`],
  ["subscription with everything", "/admin/subscriptions", (ann) => ann.follow(LONG_SUBSCRIPTION)],
  ["subscription form rejected", `${ORDERS}/new-subscription`, rejectSubscription],
  ["form with clauses", "/admin/subscriptions", editClauses],
  ["form with filters as JSON", "/admin/subscriptions", editJson],
  ["form with headers", `${ORDERS}/new-subscription`, addHeaders],
  ["form with every credential", `${BILLING}/edit`, chooseCredentials],
  ["signing secret made", `${ORDERS}/subscriptions/audit/signing`, (ann) => ann.press("Start signing")],
  ["subscription that signs", `${ORDERS}/subscriptions/audit`],
  ["publish rejected", `${ORDERS}/publish`, reject("Events", "[{}]", "Publish")],
  ["event delivered", "/admin/events/1"],
  ["event long", "/admin/events/63?as=text"],
  ["event nobody wanted", "/admin/events/66"],
  ["events none found", "/admin/events?id=nobody"],
  ["events that nobody wanted", "/admin/events?state=Unmatched"],
  ["rejected event of little", "/admin/rejected-events/1"],
  ["rejected events none found", "/admin/rejected-events?reason=nonsense"],
  ["events rejected", "/admin/events?of=nobody&from=yesterday"],
  ["events older", "/admin/events?before=40&of=orders"],
  ["dead letters by event type", "/admin/dead-letters?group=type"],
  ["dead letters of nothing", "/admin/dead-letters?of=orders/billing"],
  ["changes", "/admin/activity", (ann) => ann.page.getByText("Changes", { exact: true }).first().click()],
  ["settings that were changed", "/admin/settings?show=changed",
    (ann) => ann.page.locator("#setting-listen > summary").click()],
  ["log of warnings", "/admin/system?log=warnings"],
  ["commands", REJECTED, (ann) => ann.page.getByText("Same on the command line").click()],
  ["inspector that nothing has come to", "/admin/inspectors/idle"],
  ["alert channel form of a webhook rejected", "/admin/new-alert-channel", async (ann) => {
    await ann.page.getByLabel("Kind", { exact: true }).selectOption("Webhook");
    await ann.type("Name", "two words");
    await ann.press("Create channel");
  }],
  ["inspector form rejected", "/admin/new-inspector", reject("Name", "two words", "Create inspector")],
  ["URL blocked", "/admin/settings", tryUrl("http://169.254.169.254/latest")],
  ["connection blocked", "/admin/system", testConnection("http://169.254.169.254/latest")],
  ["filter tried on all of a topic", "/admin/playground/filter", askEverybody],
  ["filter rejected", "/admin/playground/filter", reject("Filter", "[]", "Try it")],
  ["conversion rejected", "/admin/playground/convert", reject("Event", "{}", "Convert")],
  ["token form rejected", `${ORDERS}/keys/token`, async (ann) => {
    await ann.page.getByLabel("Valid for").selectOption("other");
    await reject("Expires", "2020-01-01T00:00", "Create SAS token")(ann);
  }],
  ["API nothing found", "/admin/api?q=nonsense"],
  ["API of Service Bus", "/admin/api/peekLockDeadLetterInNamespace"],
  ["no such page", "/admin/nowhere"],
  ["no such event", "/admin/events/999"],
  ["menu open", "/admin/events", async (ann) => {
    await ann.page.setViewportSize({ width: 390, height: 844 });
    await ann.openMenu();
  }],
  ["actions open", BILLING, (ann) => ann.page.getByLabel("More actions").click()],
  ["more filters", "/admin/events?type=Order.*&from=2026-11-21T06:40"],
];

export const EMPTY = ["/", "/playground", "/topics", "/namespaces", "/subscriptions", "/queues", "/events", "/rejected-events", "/dead-letters", "/replays", "/inspectors"];

function reject(label, text, button) {
  return async (ann) => {
    await ann.type(label, text);
    await ann.press(button);
    await ann.page.getByRole("alert").waitFor();
  };
}

function tryUrl(url) {
  return async (ann) => {
    await ann.type("URL to test", url);
    await ann.press("Check URL");
    await ann.sees(url.split("/").slice(0, 3).join("/"));
  };
}

/** To the appliance itself unless a URL says otherwise. */
function testConnection(url) {
  return async (ann) => {
    const tried = url ?? new URL("/healthz", ann.page.url()).href;
    await ann.type("URL to test", tried);
    await ann.press("Test connection");
    await ann.sees(new URL(tried).origin);
    await ann.sees(url ? "Blocked" : "Answered 200");
  };
}

async function beginGuide(ann) {
  await ann.type("Name of the topic", "guided");
  await ann.press(createAll);
  await publishOne(ann);
}

async function publishOne(ann) {
  await ann.press("Publish it");
  await ann.comesToSee("It has arrived");
}

async function failTwice(ann) {
  await publishOne(ann);
  await ann.press("Publish an event that fails twice");
  await ann.comesToSee("1 attempt of at most 30");
}

async function repair(ann) {
  await failTwice(ann);
  await ann.press("Retry now");
  await ann.comesToSee("2 attempts of at most 30");
  await ann.press("Retry now");
  await ann.comesToSee("After two failures it has been delivered.");
  await ann.press("Publish an event that is rejected");
  const resubmit = "Answer 200 and resubmit";
  await ann.page.getByRole("button", { name: resubmit }).waitFor();
  await ann.press(resubmit);
  await ann.comesToSee("has been resubmitted, and has arrived");
}

async function subscribeAgain(ann) {
  await ann.page.getByLabel("Deliver events of").selectOption("cloud");
  await ann.press("Subscribe");
}

async function tryPasted(ann) {
  const key = `data.${LONG_WORD}`;
  const filter = { advancedFilters: [{ operatorType: "StringIn", key, values: [LONG_WORD] }] };
  await ann.type("Filter", JSON.stringify(filter));
  await ann.press("Try it");
}

async function askEverybody(ann) {
  await ann.page.getByLabel("Topic or subscription").selectOption("orders");
  await ann.press("Try it");
}

async function checkSignature(ann) {
  await ann.type("Secret", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
  await ann.type("webhook-id", LONG_WORD);
  await ann.type("webhook-timestamp", "1795243253");
  await ann.type("webhook-signature", "v1,AAAA");
  await ann.press("Check");
}

async function tryFilter(ann) {
  await ann.type("Subject begins with", "/orders/Word");
  await ann.press("Try on stored events");
}

async function editClauses(ann) {
  await ann.follow(LONG_SUBSCRIPTION);
  await ann.follow("Edit");
  await ann.press("Add clause");
  await ann.press("Try on stored events");
  await ann.page.getByRole("alert").waitFor();
}

async function editJson(ann) {
  await ann.follow(LONG_SUBSCRIPTION);
  await ann.follow("Edit");
  await ann.press("Edit as JSON");
}

async function chooseCredentials(ann) {
  await ann.unfold("Credentials");
  await ann.unfold("Dead letters");
  await ann.page.getByLabel("Authentication").selectOption("ClientCredentials");
  await ann.page.getByLabel("On final failure").selectOption("AzureBlob");
}

async function addHeaders(ann) {
  await ann.unfold("Custom headers");
  await ann.press("Add header");
  await ann.press("Add header");
  await ann.page.getByLabel("Value is").last().selectOption("Dynamic");
  await ann.type("Endpoint URL", "https://shop.example/events");
  await ann.page.getByLabel("Name", { exact: true }).first().fill("headers");
  await ann.press("Create event subscription");
  await ann.page.getByRole("alert").waitFor();
}

async function rejectSubscription(ann) {
  await ann.type("Name", "billing2");
  await reject("Endpoint URL", "ftp://shop.example/events", "Create event subscription")(ann);
}

async function rejectMuch(ann) {
  await ann.type("Name", "two words");
  await ann.unfold("Retries");
  await ann.type("Max attempts", "31");
  await reject("Endpoint URL", "ftp://shop.example/events", "Create event subscription")(ann);
}

async function rejectPassword(ann) {
  await ann.type("Current password", PASSWORD);
  await reject("New password", "short", "Change password")(ann);
}

export async function weakPassword(ann) {
  await ann.type("Name", NAME);
  await reject("Password", "password", "Create account")(ann);
}
