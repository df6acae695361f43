// What to do with many dead letters: a replay job from beginning to end, and one of them mended by hand.

import assert from "node:assert/strict";

import { Receiver } from "../clients/receiver.mjs";
import { stage, testBothWays } from "./stage.mjs";

const DEAD_LETTERS = 12;

const begin = stage("--time-scale", "60");

testBothWays("dead letters are replayed and one is mended", async (t, options) => {
  const { appliance, ann } = await begin(t, options);
  const receiver = await Receiver.start();
  t.after(() => receiver.stop());
  const topic = await deadLetters(appliance, receiver);
  await replayAll(ann, receiver);
  await pauseAndCancel(ann, appliance, topic, receiver);
  await mend(ann, appliance, topic, receiver);
  await ann.leave();
});

const order = (id) => ({
  id,
  eventType: "Order.Paid",
  subject: `/orders/${id}`,
  eventTime: "2026-11-21T06:40:53.138Z",
  dataVersion: "1",
  data: { total: null },
});

async function reject(appliance, topic, receiver, ids) {
  receiver.script(...ids.map(() => 400));
  const before = receiver.deliveries.length;
  await appliance.publish(topic, ids.map(order));
  await receiver.waitFor(before + ids.length);
}

async function deadLetters(appliance, receiver) {
  const topic = await appliance.createTopic("orders");
  await appliance.subscribe(topic, "billing", receiver.url);
  const ids = Array.from({ length: DEAD_LETTERS }, (_, index) => `order-${index}`);
  await reject(appliance, topic, receiver, ids);
  return topic;
}

async function replayAll(ann, receiver) {
  await ann.goesTo("Dead letters");
  await ann.reloadsUntil(`${DEAD_LETTERS}`);
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Resubmit all that match…");
  await ann.isOn(`Resubmit ${DEAD_LETTERS} dead letters?`);
  await ann.press(`Resubmit ${DEAD_LETTERS} dead letters`);
  await ann.isTold(`Replay job 1 has been started over ${DEAD_LETTERS} dead letters.`);
  await ann.comesToSee(`100 %: ${DEAD_LETTERS} of ${DEAD_LETTERS}`);
  await ann.sees("Completed");
  await receiver.waitFor(2 * DEAD_LETTERS);
  await ann.goesTo("Replay jobs");
  await ann.sees("Completed", `${DEAD_LETTERS} of ${DEAD_LETTERS}`);
}

async function pauseAndCancel(ann, appliance, topic, receiver) {
  await reject(appliance, topic, receiver, ["late-1", "late-2", "late-3"]);
  await ann.goesTo("Dead letters");
  await ann.reloadsUntil("late-3");
  await ann.page.getByLabel("More actions").click();
  await ann.follow("Resubmit all that match…");
  await ann.type("Events per second", "0.001");
  await ann.press("Resubmit 3 dead letters");
  await ann.isOn("Replay job 2");
  await ann.press("Pause");
  await ann.isTold("Replay job 2 is paused.");
  await ann.press("Resume");
  await ann.isTold("Replay job 2 is resumed.");
  await ann.follow("Cancel job…");
  await ann.isOn("Cancel replay job 2?");
  await ann.press("Cancel replay job");
  await ann.isTold("Replay job 2 is cancelled.");
  await ann.sees("Cancelled");
}

async function mend(ann, appliance, topic, receiver) {
  await reject(appliance, topic, receiver, ["broken"]);
  await ann.goesTo("Dead letters");
  await ann.reloadsUntil("broken");
  await ann.openFirstRow();
  await ann.follow("Edit and resubmit");
  const shown = JSON.parse(await ann.page.getByLabel("Event", { exact: true }).inputValue());
  assert.equal(shown.id, "broken");
  const before = receiver.deliveries.length;
  await ann.type("Event", JSON.stringify({ ...shown, data: { total: 12.5 } }));
  await ann.press("Resubmit");
  await ann.isTold("has been resubmitted as edited");
  await ann.comesToSee("Delivered");
  await receiver.waitFor(before + 1);
  assert.deepEqual(receiver.deliveries.at(-1).body[0].data, { total: 12.5 });
}
