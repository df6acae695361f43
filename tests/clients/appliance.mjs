// The built binary as a test meets it: started on a free port, asked over HTTP, stopped with SIGTERM.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
const BINARY = process.env.EVERPOST_BIN || join(REPOSITORY, "target/debug/everpost");

// Nothing here takes seconds on an idle machine; a busy one may need far longer.
const PATIENCE_MS = 60_000;

const LISTENING = /listening on (https?:\/\/[0-9a-zA-Z.:[\]]+)/;

/** Asks until the answer is truthy, and returns it. */
export async function eventually(question, what) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await question();
    if (answer) {
      return answer;
    }
    if (Date.now() > deadline) {
      throw new Error(`not within ${PATIENCE_MS} ms: ${what}`);
    }
    await sleep(20);
  }
}

/** One data directory and the process that serves it. */
export class Appliance {
  static async start(...options) {
    const folder = await mkdtemp(join(tmpdir(), "everpost-test-"));
    const appliance = new Appliance(folder);
    await appliance.#start(options);
    return appliance;
  }

  #folder;
  #process;
  #printed = "";

  constructor(folder) {
    this.#folder = folder;
  }

  get dataDir() {
    return join(this.#folder, "data");
  }

  async #start(options) {
    const words = ["serve", "--data-dir", this.dataDir, "--listen", "127.0.0.1:0"];
    this.#process = spawn(BINARY, [...words, "--egress-allow", "127.0.0.0/8", ...options], {
      env: environment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process.on("error", (error) => (this.#printed += `${error}\n`));
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (this.#printed += text));
    }
    this.url = await eventually(() => this.#address(), "the appliance prints its address");
    await eventually(() => this.#isReady(), "the appliance is ready");
  }

  async stop() {
    const ended = new Promise((resolve) => this.#process.once("exit", resolve));
    this.#process.kill("SIGTERM");
    const patience = setTimeout(() => this.#process.kill("SIGKILL"), PATIENCE_MS);
    const status = await ended;
    clearTimeout(patience);
    await rm(this.#folder, { recursive: true, force: true });
    if (status !== 0) {
      throw new Error(`the appliance ended with ${status}:\n${this.#printed}`);
    }
  }

  async token() {
    return (await readFile(join(this.dataDir, "management.token"), "utf8")).trim();
  }

  /** The link with which the first user sets a password. */
  async setupUrl() {
    return (await readFile(join(this.dataDir, "setup-url"), "utf8")).trim();
  }

  /** One management request; returns its JSON. */
  async manage(method, path, body) {
    const token = await this.token();
    const answer = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    }
    return text ? JSON.parse(text) : undefined;
  }

  async createTopic(name, properties = {}) {
    const resource = await this.manage("PUT", `/topics/${name}`, { location: "local", properties });
    const keys = await this.manage("POST", `/topics/${name}/listKeys`);
    return { name, id: resource.id, endpoint: resource.properties.endpoint, ...keys };
  }

  /** A namespace, and what its publishers and receivers send to it with its first key. */
  async createNamespace(name, resource = {}) {
    await this.manage("PUT", `/namespaces/${name}`, { location: "local", ...resource });
    const { key1 } = await this.manage("POST", `/namespaces/${name}/listKeys`);
    const post = async (path, body, contentType = "application/json") => {
      const headers = { Authorization: `SharedAccessKey ${key1}`, "Content-Type": contentType };
      const options = { method: "POST", headers, body: body && JSON.stringify(body) };
      const url = new URL(`${this.url}/namespaces/${name}/topics/${path}`);
      url.searchParams.set("api-version", "2024-06-01");
      const answer = await fetch(url, options);
      if (!answer.ok) {
        throw new Error(`POST ${url}: ${answer.status} ${await answer.text()}`);
      }
      return answer.json();
    };
    return { name, key1, post };
  }

  /** Creates an event subscription and waits until its webhook is proven, or as `state` says otherwise. */
  async subscribe(topic, name, endpointUrl, properties = {}, state = "Succeeded") {
    const path = `/topics/${topic.name}/eventSubscriptions/${name}`;
    const destination = { endpointType: "WebHook", properties: { endpointUrl } };
    await this.manage("PUT", path, { properties: { destination, ...properties } });
    const isSo = async () =>
      (await this.manage("GET", path)).properties.provisioningState === state;
    await eventually(isSo, `${name} is ${state}`);
  }

  /** Publishes a body, JSON by default, with the first key of the topic. */
  async publish(topic, body, contentType = "application/json") {
    const headers = { "aeg-sas-key": topic.key1, "Content-Type": contentType };
    const answer = await fetch(topic.endpoint, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) {
      throw new Error(`publish to ${topic.name}: ${answer.status} ${await answer.text()}`);
    }
  }

  /** Publishes a text that must be rejected; returns the reason. */
  async publishRejected(topic, text) {
    const headers = { "aeg-sas-key": topic.key1, "Content-Type": "application/json" };
    const answer = await fetch(topic.endpoint, { method: "POST", headers, body: text });
    if (answer.status !== 400) {
      throw new Error(`publish to ${topic.name}: ${answer.status} ${await answer.text()}`);
    }
    return (await answer.json()).error.message;
  }

  /** What is stored of a topic's events, newest first. */
  async events(topic) {
    return (await this.manage("GET", `/everpost/events?topic=${topic.name}&limit=100`)).value;
  }

  #address() {
    this.#insistOnLife();
    return LISTENING.exec(this.#printed)?.[1];
  }

  async #isReady() {
    this.#insistOnLife();
    // This process does not trust its authority; it listens when it is ready.
    if (this.url.startsWith("https:")) return true;
    return fetch(`${this.url}/readyz`).then((answer) => answer.status === 200, () => false);
  }

  #insistOnLife() {
    const { exitCode, signalCode, pid } = this.#process;
    if (pid === undefined || exitCode !== null || signalCode !== null) {
      throw new Error(`the appliance ended with ${exitCode ?? signalCode}:\n${this.#printed}`);
    }
  }
}

/** Without what is meant for the tests: the appliance rejects to start with a setting it does not know. */
function environment() {
  const variables = Object.entries(process.env);
  return Object.fromEntries(variables.filter(([name]) => !name.startsWith("EVERPOST_")));
}
