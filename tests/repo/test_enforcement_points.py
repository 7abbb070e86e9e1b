"""Each security rule has exactly one enforcement point in the code, marked by a comment."""

from collections import Counter

from gateproject.checkout.enforcement_points import SECTIONS, enforcement_points

# Add and remove rules here too, so that this test finds a marker that an edit removes by accident.
RULES = {
    "Requests": {
        "Client IP and trusted proxies",
        "Connections that must begin with a PROXY protocol header",
        "HTTP/1.1 body framing",
        "HTTP/1.1 request head syntax",
        "Host normalization",
        "Hosts whose connections Envoy tunnels unparsed",
        "MCP bodies",
        "MCP headers",
        "MCP messages",
        "Origin of MCP requests",
        "PROXY protocol header",
        "Path normalization",
        "Paths that upstreams may interpret differently",
        "Requests from Envoy's internal listener",
        "Requests parsed by another ASGI server",
        "Requests that Envoy could not connect upstream",
        "Route selection",
        "WebSocket handshake and Origin",
    },
    "Identity": {
        "API authentication and permissions",
        "Bearer token verification",
        "Client certificate verification",
        "Cookies that belong to gate",
        "Credentials in headers",
        "Credentials in query strings",
        "Email address that rules match",
        "Lifetime of service accounts created through the API",
        "Linked accounts",
        "Service account secret",
        "Service accounts end with the secrets that created them",
        "Session cookie",
        "Session validity",
        "Users named in rules",
        "`__Host-` cookie prefix",
    },
    "Authorization": {
        "Applications in the portal",
        "Approvers of access requests",
        "Decisions for Envoy",
        "Envoy requires a decision for each request",
        "Grants of temporary access",
        "Lists of MCP servers",
        "MCP calls that may be listed",
        "MCP criteria",
        "MCP resources",
        "Policy decision",
        "Policy expressions, unknown values included",
        "Requests that may share an Envoy connection",
        "Revocation of requests that Envoy forwards",
        "Temporary access in policy",
        "Three-valued logic",
        "Verdict for a decision",
    },
    "Upstream requests": {
        "Headers of forwarded requests",
        "Headers that only gate sets",
        "Host header derived from the request",
        "Identity tokens for serverless upstreams",
        "Kubernetes impersonation",
        "Names of identity headers",
        "Provider tokens for upstreams",
        "Published public keys",
        "Routes that may receive provider tokens",
        "Serialization of upstream requests",
        "TCP tunnel destination",
        "WebSocket frames",
    },
    "Sign-in and sign-out": {
        "Back-channel logout token",
        "End of sessions",
        "ID token",
        "Issuer",
        "Network destinations of provider URLs",
        "One-time values",
        "Provider client of a session",
        "Provider of an authorization response",
        "Provider selection",
        "Provider-signed tokens",
        "Redirect targets",
        "Redirects of programmatic login",
        "Saved forms",
        "Sealed values that pass through a browser",
        "Session refresh",
        "Sessions of a user",
        "Signed URLs",
        "Token endpoint response",
    },
    "Pages": {
        "Content Security Policy and other page headers",
        "Redaction of configuration values",
        "Uploaded images",
    },
    "Directory": {
        "Hosts that receive directory credentials",
        "Mass removal check",
        "Record ownership among several directories",
        "SCIM authentication",
    },
    "Services and certificates": {
        "ACME challenge responses",
        "ACME retry limits",
        "Authentication of gRPC calls",
        "Decisions of a remote authorize service",
        "Key derivation",
        "OCSP responses",
        "Responses of other services",
    },
}


def test_each_rule_has_one_enforcement_point() -> None:
    marked = Counter((point.section, point.rule) for point in enforcement_points())
    required = {(section, rule) for section, rules in RULES.items() for rule in rules}
    assert required - marked.keys() == set(), "no marker: put `# enforcement-point: SECTION: RULE` above the function"
    assert marked.keys() - required == set(), "not in RULES"
    assert {rule: number for rule, number in marked.items() if number > 1} == {}, "one rule, one place"
    assert set(RULES) == set(SECTIONS)
