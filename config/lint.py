"""Lint rules: valid settings that weaken security. `gate check` reports them as warnings; they never prevent a start."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from config.fields.header_fields import fold_name
from config.fields.header_template import ASSERTION, Variable
from config.options import Options
from config.routes.route import Route
from config.routes.route_identity_headers import header_templates, sends_assertion, sends_identity, upstream_addresses, uses_provider_token
from config.routes.route_provider_tokens import allows_plaintext_tokens
from config.routes.upstreams.upstream_credentials import cluster_token_key
from config.settings.autocert_settings import ineligible_reason, is_covered
from config.settings.identity_providers import provider_entries, provider_key_path
from config.validation import Finding, Rule
from foundation.values import SecretText, is_loopback, parse_ip

# Setting -> (risky value, consequence).
RISKY_SETTINGS: dict[str, tuple[Any, str]] = {
    "cookie_secure": (
        False,
        (
            "lets browsers send the session cookie over plain http, where an attacker can "
            "read it, and lets sibling hosts set it. Leave it true"
        ),
    ),
    "cookie_http_only": (False, "lets malicious scripts read the session cookie and steal sessions. Leave it true"),
    "databroker_storage_tls_skip_verify": (
        True,
        "lets an attacker impersonate the store of all sessions. Set databroker_storage_ca_file instead",
    ),
    "gate_debug": (True, "may write sensitive data to the logs. Set it in development only"),
    "admin_password_login": (True, "allows password sign-in to the admin without the identity provider. Use admin_allowed_users instead"),
    "autocert_use_staging": (True, "browsers don't trust the certificates of the staging environment"),
}
RISKY_ROUTE_KEYS: dict[str, tuple[Any, str]] = {
    "tls_skip_verify": (True, "lets an attacker in the network impersonate the upstream. Set tls_custom_ca or tls_server_name instead"),
}
_MIN_DISTINCT_BYTES = 12  # 32 random bytes have fewer with a probability below 10^-15
_MAX_SESSION_SECONDS = 30 * 24 * 3600


def _weak_values(settings: Options) -> Iterator[Finding]:
    for key, (weak, consequence) in RISKY_SETTINGS.items():
        if settings.__dict__.get(key) is weak:
            yield (key,), f"is {str(weak).lower()}: {consequence}"


def _weak_route_values(settings: Options) -> Iterator[Finding]:
    for index, route in enumerate(settings.policy):
        for key, (weak, consequence) in RISKY_ROUTE_KEYS.items():
            if route.__dict__.get(key) is weak:
                yield ("policy", index, key), f"is {str(weak).lower()}: {consequence}"


def _guessable_secrets(settings: Options) -> Iterator[Finding]:
    for key in ("cookie_secret", "shared_secret"):
        value = settings.__dict__.get(key)
        for position, secret in enumerate(value if isinstance(value, tuple | list) else [value] if value else []):
            if len(set(bytes(secret))) < _MIN_DISTINCT_BYTES or _is_sequence(bytes(secret)):
                path = (key, position) if isinstance(value, tuple | list) and len(value) > 1 else (key,)
                yield path, "does not look random, so it can be guessed. Generate it with `head -c32 /dev/urandom | base64`"


def _is_sequence(secret: bytes) -> bool:
    """Return whether all steps between bytes are equal, as in a hand-written key."""
    steps = {(after - before) % 256 for before, after in itertools.pairwise(secret)}
    return len(steps) == 1


def _shared_secret_reuse(settings: Options) -> Iterator[Finding]:
    cookie, shared = _secrets(settings.cookie_secret), _secrets(settings.shared_secret)
    if cookie & shared:
        yield ("shared_secret",), "is the same as cookie_secret. Generate another one, so that a leak affects only one of them"


def _secrets(value: Any) -> set[bytes]:
    return {bytes(secret) for secret in (value if isinstance(value, tuple | list) else [value])}


def _plaintext_upstreams(settings: Options) -> Iterator[Finding]:
    """Plain HTTP exposes identity and credentials to the network."""
    for index, route in enumerate(settings.policy):
        if allows_plaintext_tokens(route):
            key = "pass_provider_tokens_unencrypted"
            yield ("policy", index, key), "lets an attacker in the network act as the users at the provider. Use https"
        for target in (upstream.url for upstream in route.to):
            if target.scheme == "http" and sends_identity(route) and not _is_private(target.host):
                yield ("policy", index, "to"), "sends the user's identity over plain http to a public host. Use https"
            elif target.scheme == "http" and route.basic_auth is not None and not _is_private(target.host):
                yield ("policy", index, "to"), "sends the password of basic_auth over plain http to a public host. Use https"


def _is_private(host: str) -> bool:
    """Return whether the host is a loopback or private address, or a name that only a private resolver knows."""
    if (address := parse_ip(host.strip("[]"))) is not None:
        return address.is_private
    return is_loopback(host) or "." not in host or host.endswith((".internal", ".local", ".svc", ".cluster.local", ".lan", ".home.arpa"))


def _untrusted_forwarded_headers(settings: Options) -> Iterator[Finding]:
    if settings.insecure_server and not is_loopback(settings.address.host) and not settings.trusted_proxies:
        yield (
            ("insecure_server",),
            (
                "listens without TLS on an address that other machines can reach, and trusted_proxies is empty. "
                "List the proxy that terminates TLS there, or listen on 127.0.0.1"
            ),
        )


def _open_proxy_protocol(settings: Options) -> Iterator[Finding]:
    if settings.use_proxy_protocol and not is_loopback(settings.address.host):
        yield (
            ("use_proxy_protocol",),
            "trusts the client address sent by any peer. Restrict access to `address` to the load balancer",
        )


def _all_peers_trusted(settings: Options) -> Iterator[Finding]:
    for index, network in enumerate(settings.trusted_proxies):
        if network.prefixlen == 0:
            yield (
                ("trusted_proxies", index),
                "trusts every peer, so clients can forge their address in X-Forwarded-For. List the networks of your proxies",
            )


# Text that templates and examples contain in place of a value.
_PLACEHOLDER = re.compile(r"\$\{.*\}|\$[A-Za-z_]+|\{\{.*\}\}|<.*>|change[-_ ]?me|replace[-_ ]?me", re.IGNORECASE)
_DISCOVERY = "/.well-known/openid-configuration"


def _unfilled_provider(settings: Options) -> Iterator[Finding]:
    for index, entry in enumerate(provider_entries(settings)):
        place = partial(provider_key_path, settings, index)
        for key, written in (("client_id", entry.client_id), ("client_secret", entry.client_secret)):
            if _PLACEHOLDER.fullmatch((written.reveal() if isinstance(written, SecretText) else written or "").strip()):
                yield place(key), "is a placeholder. Write the value that the provider issued"
        if entry.url.rstrip("/").endswith(_DISCOVERY):
            yield place("url"), f"is the discovery document. Write the issuer, without {_DISCOVERY}"
        elif entry.provider == "azure" and entry.url and not entry.url.rstrip("/").endswith("/v2.0"):
            yield place("url"), "lacks /v2.0, and tokens of version 2.0 name an issuer with it. Append it"


def _clusters_without_upgrades(settings: Options) -> Iterator[Finding]:
    for index, route in enumerate(settings.policy):
        if route.cluster_service_account_token is not None and not (route.allow_websockets or route.allow_spdy):
            yield (
                ("policy", index, cluster_token_key(route)),
                "allows no upgrades, so kubectl exec, attach, cp and port-forward fail. Set allow_websockets and allow_spdy on the route",
            )


def _identity_in_client_cookie(settings: Options) -> Iterator[Finding]:
    """Cookies of the client reach the upstream on every route that neither replaces nor removes the header."""
    open_upstreams = {upstream for route in settings.policy if not _replaces_cookies(route) for upstream in upstream_addresses(route)}
    for index, route in enumerate(settings.policy):
        for name, parts in header_templates(route).items():
            is_proof = uses_provider_token(parts) or any(isinstance(part, Variable) and part.name == ASSERTION for part in parts)
            if fold_name(name) == "cookie" and not is_proof and not open_upstreams.isdisjoint(upstream_addresses(route)):
                yield (
                    ("policy", index, "set_request_headers"),
                    (
                        f"sets {name}, which clients can set on another route to the same upstream. Choose "
                        f"another header, or list {name} in remove_request_headers there"
                    ),
                )


def _replaces_cookies(route: Route) -> bool:
    return "cookie" in map(fold_name, (*route.set_request_headers, *route.remove_request_headers))


_PLAIN = "is http, which is for development on one machine. Use https"


def _plaintext_provider(settings: Options) -> Iterator[Finding]:
    for index, entry in enumerate(provider_entries(settings)):
        if entry.url.lower().startswith("http:"):
            yield provider_key_path(settings, index, "url"), _PLAIN


def _unverifiable_assertions(settings: Options) -> Iterator[Finding]:
    # An unreadable key file is reported as an error. The authorize service signs, and checks its own configuration.
    if settings.signing_key is not None or settings.signing_key_file is not None or settings.services == "proxy":
        return
    for index, route in enumerate(settings.policy):
        if sends_assertion(route):
            yield (
                ("policy", index, "pass_identity_headers" if route.pass_identity_headers else "to"),
                "sends assertions that upstreams can't verify, because signing_key is not set. Set it to publish its public key",
            )
            return


def _long_sessions(settings: Options) -> Iterator[Finding]:
    if settings.cookie_expire.total_seconds() > _MAX_SESSION_SECONDS:
        yield ("cookie_expire",), "keeps users signed in for more than 30 days; a stolen cookie is valid as long. Use a shorter time"


def _hosts_without_acme_certificate(settings: Options) -> Iterator[Finding]:
    for index, route in enumerate(settings.policy if settings.autocert else ()):
        host = route.from_.host
        if (reason := ineligible_reason(host, settings)) is not None and not is_covered(host, settings):
            yield ("policy", index, "from"), f"gets no certificate from autocert: {host} {reason}. Add one to certificates"


def _hosts_without_matching_certificate(settings: Options) -> Iterator[Finding]:
    """Checks DNS names only; clients match IP addresses against another field of the certificate."""
    ends_tls = not settings.insecure_server and not settings.autocert and settings.services in ("all", "proxy", "authenticate")
    if not ends_tls or not settings.certificate_pairs:
        return
    reported = set[str]()
    for path, host in _served_hosts(settings):
        if host not in reported and parse_ip(host.strip("[]")) is None and not is_covered(host, settings):
            reported.add(host)
            yield path, f"no certificate matches {host}, so browsers reject it. Add one with its name, or with a wildcard for one label"


def _served_hosts(settings: Options) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the hosts for which this process presents certificates.

    With forward auth or ext_authz, the other proxy presents the certificates of the routes' hosts.
    """
    if settings.services in ("all", "authenticate") and settings.authenticate_service_url is not None:
        yield ("authenticate_service_url",), settings.authenticate_service_url.host
    if settings.services == "authenticate":
        return
    if settings.forward_auth_url is not None:
        yield ("forward_auth_url",), settings.forward_auth_url.host
        return
    for index, route in enumerate(settings.policy if not settings.ext_authz_tokens else ()):
        yield ("policy", index, "from"), route.from_.host


def _inconsistent_port(settings: Options) -> Iterator[Finding]:
    """Browsers send the port of `from`, so it is usually the same on all routes, or different on each host."""
    urls: list[tuple[tuple[str | int, ...], Any]] = [
        (("policy", index, "from"), route.from_) for index, route in enumerate(settings.policy) if not route.is_tcp
    ]
    if settings.services == "all" and settings.authenticate_service_url is not None:  # split services have their own ports
        urls.append((("authenticate_service_url",), settings.authenticate_service_url))
    counts = Counter(url.port for _, url in urls)
    alone = [(path, url) for path, url in urls if counts[url.port] == 1]
    # Of two, report the one without a port: an explicit port is intentional.
    if len(urls) == 2 and len(alone) == 2:
        alone = [(path, url) for path, url in alone if url.port is None and path != ("authenticate_service_url",)]
    if len(counts) != 2 or len(alone) != 1:
        return
    path, url = alone[0]
    usual = next(port for port in counts if port != url.port)
    found_text = "has no port" if url.port is None else f"has port {url.port}"
    others = "the others have none" if usual is None else f"the others have {usual}"
    yield path, f"{found_text}, {others}. Requests to another port match no route"


def _acme_unreachable(settings: Options) -> Iterator[Finding]:
    """ACME CAs connect to ports 443 and 80 only (RFC 8555 8.3, RFC 8737 3)."""
    redirects = settings.http_redirect_addr
    if settings.autocert and settings.address.port != 443 and (redirects is None or redirects.port != 80):
        yield (
            ("autocert",),
            (
                "the ACME CA connects to port 443 or 80, but gate listens on neither (address, "
                "http_redirect_addr). Forward one of these ports to gate"
            ),
        )


def _must_staple_unsupported(settings: Options) -> Iterator[Finding]:
    if settings.autocert and settings.autocert_must_staple and settings.autocert_ca is None:
        yield (
            ("autocert_must_staple",),
            "makes orders fail: Let's Encrypt no longer supports OCSP. Use it only with a CA that does (autocert_ca)",
        )


LINT_RULES: tuple[Rule, ...] = (
    _weak_values,
    _weak_route_values,
    _guessable_secrets,
    _shared_secret_reuse,
    _plaintext_upstreams,
    _untrusted_forwarded_headers,
    _open_proxy_protocol,
    _plaintext_provider,
    _all_peers_trusted,
    _unfilled_provider,
    _clusters_without_upgrades,
    _identity_in_client_cookie,
    _unverifiable_assertions,
    _long_sessions,
    _hosts_without_acme_certificate,
    _hosts_without_matching_certificate,
    _inconsistent_port,
    _acme_unreachable,
    _must_staple_unsupported,
)
