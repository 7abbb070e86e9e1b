// A certified OpenID provider (npm oidc-provider) on loopback.  `node server.mjs '{"redirect_uris": [...]}'` prints one JSON line
// with its issuer; `features` are as the library names them, the rest is metadata of our client.  The interaction is the smallest there is: whoever posts `sub` is signed in, as strongly as they say (`acr`), and everything asked for is granted.

import { createServer } from "node:http";
import { request as requestOverTLS } from "node:https";
import Provider from "oidc-provider";

const { redirect_uris, features = {}, ...more } = JSON.parse(process.argv[2]);

// Every name of a test is this machine, and its certificate is made for the test.
const onLoopback = (url, { method, headers, body, signal }) =>
  new Promise((answered, failed) => {
    const { port, pathname, hostname, host } = new URL(url);
    const sent = { ...Object.fromEntries(new Headers(headers)), host };
    const options = { host: "127.0.0.1", port, path: pathname, servername: hostname, rejectUnauthorized: false, method, headers: sent, signal };
    const request = requestOverTLS(options, (response) => {
      response.resume();
      answered(new Response(null, { status: response.statusCode }));
    });
    request.on("error", failed);
    request.end(String(body));
  });

const claimsOf = (sub) => ({
  sub,
  name: sub[0].toUpperCase() + sub.slice(1),
  email: `${sub}@corp.example`,
  email_verified: true,
  groups: ["engineering"],
});

const listener = createServer();
await new Promise((listening) => listener.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${listener.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "gate-tests",
      client_secret: "not a secret",
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      redirect_uris,
      ...more,
    },
  ],
  acrValues: ["pwd", "mfa"],
  pkce: { required: () => true },
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => claimsOf(sub) }),
  features: {
    devInteractions: { enabled: false },
    revocation: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    backchannelLogout: { enabled: true },
    ...features,
  },
  fetch: onLoopback,
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ["only for tests"] },
});

async function grantFor(details, accountId) {
  const grant = new provider.Grant({ accountId, clientId: details.params.client_id });
  grant.addOIDCScope(details.params.scope);
  return grant.save();
}

async function interaction(request, response) {
  const details = await provider.interactionDetails(request, response);
  if (details.prompt.name === "consent") {
    const consent = { grantId: await grantFor(details, details.session.accountId) };
    return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
  }
  if (request.method !== "POST") {
    response.setHeader("Content-Type", "text/html");
    const buttons = ["alice", "alice mfa"].map((person) => `<button name="sub" value="${person}">${person}</button>`);
    return response.end(`<form method="post">${buttons.join("")}</form>`);
  }
  let body = "";
  for await (const chunk of request) body += chunk;
  const form = new URLSearchParams(body);
  const [accountId, acr = form.get("acr") ?? undefined] = form.get("sub").split(" ");
  const login = { accountId, acr };
  return provider.interactionFinished(request, response, { login }, { mergeWithLastSubmission: false });
}

const answer = provider.callback();
listener.on("request", (request, response) => {
  if (!request.url.startsWith("/interaction/")) return answer(request, response);
  interaction(request, response).catch((error) => {
    response.statusCode = 500;
    response.end(String(error));
  });
});
console.log(JSON.stringify({ issuer }));
