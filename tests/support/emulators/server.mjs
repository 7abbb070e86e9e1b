// npm `emulate` as Google, Microsoft, GitHub and Okta on loopback.
// `node server.mjs '{"ports": {"google": 1, ...}, "redirect_uri": "..."}'` prints one JSON line when all of them answer.

import { createServer, request } from "node:http";
import { createEmulator } from "emulate";

const { ports, redirect_uri, token } = JSON.parse(process.argv[2]);
const client = { client_id: "gate-tests", client_secret: "not-a-secret", name: "gate", redirect_uris: [redirect_uri] };
const person = { email: "alice@corp.example", name: "Alice Adams" };

const seeds = {
  google: { users: [person], oauth_clients: [client] },
  microsoft: { users: [person], oauth_clients: [client] },
  github: {
    users: [{ login: "alice", ...person }, { login: "robot", email: "robot@corp.example", name: "Robot" }],
    orgs: [{ login: "corp", name: "Corp", members: [{ login: "alice" }, { login: "robot", role: "admin" }] }],
    oauth_apps: [client],
  },
  okta: {
    users: [{ login: person.email, email: person.email, first_name: "Alice", last_name: "Adams" }],
    authorization_servers: [{ id: "default", name: "default", audiences: ["api://default"] }],
    oauth_clients: [{ ...client, auth_server_id: "default" }],
  },
};

const services = Object.keys(seeds).filter((service) => ports[service]);
for (const service of services) {
  const tokens = { [token]: { login: "robot", scopes: ["repo", "user", "read:org", "admin:org"] } };
  await createEmulator({ service, port: ports[service], seed: { ...(service === "github" && { tokens }), [service]: seeds[service] } });
}

// A GitHub server of one's own has its API below /api/v3, the emulator at the root as api.github.com: this door leads from one to the other.
if (ports.github_server) {
  const door = createServer((incoming, outgoing) => {
    const path = incoming.url.replace(/^\/api\/v3\//, "/");
    const onward = request({ port: ports.github, host: "127.0.0.1", method: incoming.method, path, headers: incoming.headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  await new Promise((listening) => door.listen(ports.github_server, "127.0.0.1", listening));
}
console.log(JSON.stringify({ ready: services }));
