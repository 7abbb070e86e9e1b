// Verify X-Gate-Jwt-Assertion: docs/guides/verify-assertion.md
import { createPublicKey, verify } from "node:crypto";

const ISSUER = "authenticate.example.com";
const AUDIENCE = "app.example.com";
let keys = new Map();
let fetchedAt = 0;

async function getKey(kid) {
  if (!keys.has(kid) && Date.now() > fetchedAt + 10_000) {
    fetchedAt = Date.now();
    const response = await fetch(`https://${ISSUER}/.well-known/gate/jwks.json`);
    if (!response.ok) throw new Error(`the key set cannot be fetched: ${response.status}`);
    keys = new Map((await response.json()).keys.map((jwk) => [jwk.kid, jwk]));
  }
  const jwk = keys.get(kid);
  if (jwk?.alg !== "ES256") throw new Error("unknown key");
  return createPublicKey({ key: jwk, format: "jwk" });
}

/** Return the claims. Throws if the assertion is not valid. */
export async function verifyAssertion(assertion) {
  const parts = assertion.split(".");
  if (parts.length !== 3) throw new Error("not a JWT");
  const [header, claims] = parts.slice(0, 2).map((part) => JSON.parse(Buffer.from(part, "base64url")));
  if (header.alg !== "ES256") throw new Error("unexpected algorithm");
  const key = { key: await getKey(header.kid), dsaEncoding: "ieee-p1363" };
  const signed = Buffer.from(`${parts[0]}.${parts[1]}`);
  if (!verify("sha256", signed, key, Buffer.from(parts[2], "base64url"))) throw new Error("invalid signature");
  if (claims.iss !== ISSUER || claims.aud !== AUDIENCE) throw new Error("wrong issuer or audience");
  if (!(claims.exp > Date.now() / 1000) || !claims.sub) throw new Error("expired assertion");
  return claims;
}
