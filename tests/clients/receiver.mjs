// A webhook that answers as it is told and remembers what it was sent.

import { createServer } from "node:http";
import { text } from "node:stream/consumers";

import { eventually } from "./appliance.mjs";

/**
 * Proves itself by whichever handshake is asked for and answers deliveries by its script, and with 200
 * once the script is used up.
 */
export class Receiver {
  static async start() {
    const receiver = new Receiver();
    await new Promise((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    return receiver;
  }

  deliveries = [];
  /** What a handshake is answered instead of the proof: `{ status }`. */
  handshake;
  #script = [];
  #server = createServer((request, response) => this.#answer(request, response));

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}/events`;
  }

  stop() {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(resolve));
  }

  /** An answer for each delivery to come: a status, `{ status, headers, body }`, or a promise of one. */
  script(...answers) {
    this.#script = answers;
  }

  /** The first `count` deliveries, once there are so many. */
  async waitFor(count) {
    await eventually(() => this.deliveries.length >= count, `${count} deliveries at the receiver`);
    return this.deliveries.slice(0, count);
  }

  async #answer(request, response) {
    const body = await text(request);
    const isHandshake = request.method === "OPTIONS" || request.headers["aeg-event-type"] === "SubscriptionValidation";
    if (isHandshake && this.handshake) {
      response.writeHead(this.handshake.status).end();
    } else if (request.method === "OPTIONS") {
      const origin = request.headers["webhook-request-origin"];
      response.writeHead(200, { "WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*" });
      response.end();
    } else if (request.headers["aeg-event-type"] === "SubscriptionValidation") {
      const validationResponse = JSON.parse(body)[0].data.validationCode;
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(JSON.stringify({ validationResponse }));
    } else {
      this.deliveries.push({ headers: request.headers, text: body, body: JSON.parse(body) });
      const told = (await this.#script.shift()) ?? 200;
      const answer = typeof told === "number" ? { status: told } : told;
      response.writeHead(answer.status, answer.headers).end(answer.body);
    }
  }
}
