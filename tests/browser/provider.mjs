// A real OpenID Connect provider, whose people sign in by their names and are in the groups that the test says.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import Provider from "oidc-provider";

const SECRET = "a secret that the client and the provider know";

export class IdentityProvider {
  static async start() {
    const provider = new IdentityProvider();
    provider.#folder = await mkdtemp(join(tmpdir(), "provider-"));
    await writeFile(join(provider.#folder, "secret"), SECRET);
    await provider.resume();
    return provider;
  }

  /** The groups of people by their names. */
  people = new Map();

  #folder;
  #server;
  #port = 0;
  #provider;

  get issuer() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The flags of an appliance whose people sign in here. */
  flags() {
    const secret = ["--oidc-client-secret-file", join(this.#folder, "secret")];
    const client = ["--oidc-issuer", this.issuer, "--oidc-client-id", "everpost", ...secret];
    const roles = ["--sign-in-admin-groups", "root", "--sign-in-operator-groups", "ops"];
    return [...client, "--oidc-name", "Example ID", ...roles];
  }

  /** Ends for good. */
  async remove() {
    await this.stop();
    await rm(this.#folder, { recursive: true });
  }

  /** Listens, after a stop at the same address. */
  async resume() {
    this.#server = createServer((request, answer) => this.#provider.callback()(request, answer));
    await new Promise((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = this.#server.address().port;
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Sends people back to the appliance at `url`. */
  serve(url) {
    const client = { client_id: "everpost", client_secret: SECRET, redirect_uris: [`${url}/admin/login/callback`] };
    this.#provider = new Provider(this.issuer, {
      clients: [client],
      claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
      pkce: { required: () => true },
      findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: id, preferred_username: id, groups: this.people.get(id) ?? [] }),
      }),
      // The pages of its developers: any name with any password.
      features: { devInteractions: { enabled: true } },
    });
    this.#provider.on("server_error", (_, error) => console.error(error));
  }
}
