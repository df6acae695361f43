// A Service Bus topic as its administrator works with it: from a new topic to a dead letter that is resubmitted.

import assert from "node:assert/strict";

import { stage, testBothWays } from "./stage.mjs";

const begin = stage();

testBothWays("from a new topic to a resubmitted dead letter", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  ann.allow(/422/); // what the form answers with that is rejected
  await create(ann);
  await addRule(ann);
  await send(ann);
  await deadLetter(appliance);
  await resubmit(ann);
  await connect(ann);
  await ann.leave();
});

async function create(ann) {
  await ann.goesTo("Service Bus topics");
  await ann.follow("New topic");
  await ann.type("Name", "two words");
  await ann.press("Create topic");
  await ann.page.getByRole("alert").getByRole("link", { name: "Name" }).waitFor();
  await ann.type("Name", "shop.v1/sales");
  await ann.press("Create topic");
  await ann.isTold("Topic shop.v1/sales has been created.");
  await ann.follow("New subscription");
  await ann.type("Name", "mail_sender");
  await ann.press("Create subscription");
  await ann.isTold("Subscription mail_sender has been created.");
  await ann.isOn("mail_sender");
}

async function addRule(ann) {
  await ann.follow("New rule");
  await ann.type("Name", "paid");
  const kinds = { CorrelationFilter: "Correlation ID", TrueFilter: "none", SqlFilter: "Condition" };
  for (const [kind, asked] of Object.entries(kinds)) {
    await ann.page.getByLabel("Matches").selectOption(kind);
    for (const field of ["Condition", "Correlation ID"]) {
      const isShown = await ann.page.getByLabel(field, { exact: true }).isVisible();
      assert.equal(isShown, field === asked, `${field} of ${kind}`);
    }
  }
  await ann.type("Condition", "sys.Label =");
  await ann.press("Create rule");
  await ann.page.getByRole("alert").getByRole("link", { name: "Condition" }).waitFor();
  await ann.type("Condition", "sys.Label = 'paid'");
  await ann.press("Create rule");
  await ann.isTold("Rule paid has been created.");
  const row = ann.page.getByRole("region", { name: "Rules" }).getByRole("row").filter({ hasText: "$Default" });
  await row.getByRole("link", { name: "Delete…" }).click();
  await ann.press("Delete rule");
  await ann.isTold("Rule $Default has been deleted.");
}

async function send(ann) {
  for (const subject of ["open", "paid"]) {
    await ann.follow(subject === "open" ? "Send message to topic" : "Send message");
    await ann.type("Body", `{"subject": "${subject}"}`);
    await ann.type("Subject", subject);
    await ann.type("Message ID", `invoice-${subject}`);
    await ann.press("Send message");
    await ann.isTold(`Message invoice-${subject} has been accepted.`);
  }
  await ann.follow("mail_sender");
  await ann.sees("invoice-paid");
  assert.equal(await ann.page.getByRole("link", { name: "invoice-open" }).count(), 0);
  await ann.follow("invoice-paid");
  await ann.page.getByRole("region", { name: "Body" }).getByText('"paid"').waitFor();
  await ann.page.goBack();
  await ann.follow("Try a filter");
  await ann.type("Condition", "sys.Label = 'open'");
  await ann.press("Try");
  await ann.sees("The filter matches 1 of the newest 2 messages");
  await ann.page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "mail_sender" }).click();
  await ann.isOn("mail_sender");
}

/** A receiver gives the message up, over HTTP. */
async function deadLetter(appliance) {
  const path = "/shop.v1/sales/Subscriptions/mail_sender";
  await appliance.manage("PUT", "/serviceBusTopics/shop.v1%2Fsales/subscriptions/mail_sender", {
    properties: { maxDeliveryCount: 1 },
  });
  const headers = { Authorization: `Bearer ${await appliance.token()}` };
  const locked = await fetch(`${appliance.url}${path}/messages/head?timeout=5`, { method: "POST", headers });
  assert.equal(locked.status, 201);
  const abandoned = await fetch(locked.headers.get("Location"), { method: "PUT", headers });
  assert.equal(abandoned.status, 200);
}

async function resubmit(ann) {
  await ann.comesToSee("1 dead letter");
  await ann.follow("1 dead letter");
  await ann.isOn("Dead letters");
  await ann.openFirstRow();
  await ann.follow("Edit and resubmit");
  await ann.press("Resubmit");
  await ann.isTold("has been resubmitted");
  await ann.goesTo("Service Bus topics");
  await ann.follow("shop.v1/sales");
  await ann.follow("mail_sender");
  await ann.sees("invoice-paid");
}

async function connect(ann) {
  await ann.page.getByRole("navigation", { name: "Breadcrumb" }).getByRole("link", { name: "shop.v1/sales" }).click();
  const connection = ann.page.getByRole("region", { name: "Connection string" });
  await connection.getByText("SharedAccessKey=KEY;").waitFor();
  await ann.press("Show keys");
  for (const key of ["key1", "key2"]) {
    await connection.getByText(key, { exact: true }).click();
    await connection.getByText(new RegExp(`Name=${key};SharedAccessKey=[\\w+/]{43}=;`)).waitFor();
  }
}
