// A real OpenID Connect provider, whose people sign in by their names and are in the groups that the test says.

import { createServer } from "node:http";

import Provider from "oidc-provider";

const SECRET = "a secret that the client and the provider know";

export class IdentityProvider {
  /** People by their names, each with their groups. */
  people = new Map();

  #server;
  #port;

  static async start() {
    const provider = new IdentityProvider();
    await provider.resume();
    return provider;
  }

  get issuer() {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** The flags of an appliance whose people sign in here. */
  flags(url) {
    const flags = ["--public-url", url, "--oidc-issuer", this.issuer, "--oidc-client-id", "everpost"];
    const roles = ["--sign-in-admin-groups", "root", "--sign-in-operator-groups", "ops"];
    return [...flags, "--oidc-client-secret", SECRET, "--oidc-name", "Example ID", ...roles];
  }

  /** Answers again, at the address of before, and sends people back to `url`. */
  async resume(url) {
    this.#server = createServer((request, answer) => this.#answer(request, answer));
    await new Promise((resolve) => this.#server.listen(this.#port ?? 0, "127.0.0.1", resolve));
    this.#port = this.#server.address().port;
    if (url) {
      this.#provider = this.#make(url);
    }
  }

  async stop() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #provider;

  serve(url) {
    this.#provider = this.#make(url);
  }

  #answer(request, answer) {
    this.#provider.callback()(request, answer);
  }

  #make(url) {
    const client = { client_id: "everpost", client_secret: SECRET, redirect_uris: [`${url}/admin/login/callback`] };
    const provider = new Provider(this.issuer, {
      clients: [client],
      claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
      pkce: { required: () => true },
      findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: id, preferred_username: id, groups: this.people.get(id) ?? [] }),
      }),
      // The pages of its developers: a name and any password.
      features: { devInteractions: { enabled: true } },
    });
    provider.on("server_error", (_, error) => console.error(error));
    return provider;
  }
}
