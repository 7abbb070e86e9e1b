"""Importer for oauth2-proxy 7.x, including its alpha configuration.

oauth2-proxy protects one host and has no sign-in host, so both are derived from redirect_url. Its rules are combined with AND, those of
gate with OR: with several restrictions, the route gets a `policy` that requires all.
"""

import base64
import binascii
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from config.importing.conversion import NO_COUNTERPART, Conversion, ConvertedSection, ForeignKey
from config.importing.foreign_file import OAUTH2_PROXY, ForeignConfig
from config.importing.foreign_templates import describe_lost_template, find_template, set_headers
from config.importing.oauth2_proxy_alpha import INJECTED, flat
from config.importing.oauth2_proxy_keys import CHECKED, CLOSING, HANDLED, LOST, PROVIDERS, SAME, TOKEN_HEADERS

_GROUP = re.compile(r"\$\{?(\d+)\}?")


@dataclass(slots=True)
class _Oauth2ProxyImport:
    """State that the handlers share. `new_secret` returns 32 random bytes."""

    foreign: ForeignConfig
    values: dict[str, Any]
    sources: dict[str, ForeignKey]
    new_secret: Callable[[], bytes]
    converted: Conversion = field(default_factory=lambda: Conversion(OAUTH2_PROXY))

    @property
    def top(self) -> ConvertedSection:
        return self.converted.top

    def list(self, key: str) -> list[Any]:
        value = self.values.get(key)
        return value if isinstance(value, list) else [] if value in (None, "") else [part.strip() for part in str(value).split(",")]


def convert(foreign: ForeignConfig, new_secret: Callable[[], bytes]) -> Conversion:
    values, sources = flat(foreign)
    work = _Oauth2ProxyImport(foreign, values, sources, new_secret)
    host = _hosts(work)
    _convert_provider(work)
    _convert_secrets(work)
    for key, value in values.items():
        _convert_plain(work, key, value)
    _convert_routes(work, host)
    return work.converted


def _convert_plain(work: _Oauth2ProxyImport, key: str, value: Any) -> None:
    source = work.sources[key]
    renamed, check = CHECKED.get(key, (SAME.get(key, ""), ""))
    if renamed:
        work.top.set(source, renamed, value, check=check)
    elif key not in HANDLED:
        work.top.mark_lost(source, LOST.get(key, NO_COUNTERPART))


def _hosts(work: _Oauth2ProxyImport) -> str:
    """Return the protected host and the sign-in host, which is a sibling name: gate serves many hosts with one sign-in."""
    url = urlsplit(str(work.values.get("redirect_url", "")))
    source = work.sources.get("redirect_url")
    if not url.hostname:
        work.top.set(
            source,
            "authenticate_service_url",
            "https://authenticate.example.com",
            new="the oauth2-proxy file does not name the host. Write yours",
        )
        return "app.example.com"
    _, _, parent = url.hostname.partition(".")
    sign_in = f"authenticate.{parent}" if "." in parent else f"authenticate.{url.hostname}"
    note_text = f"gate signs users in on a dedicated host. At the provider register https://{sign_in}/oauth2/callback"
    work.top.set(source, "authenticate_service_url", f"https://{sign_in}", check=note_text)
    return url.netloc


def _convert_provider(work: _Oauth2ProxyImport) -> None:
    source, name = work.sources.get("provider"), str(work.values.get("provider", "google"))
    renamed = PROVIDERS.get(name)
    if renamed is None:
        work.top.set(
            source, "idp_provider", "oidc", check=f"gate does not support {name} by name. As a generic provider it needs idp_provider_url"
        )
    else:
        work.top.set(source, "idp_provider", renamed, new="" if source else "google is the default of oauth2-proxy")
    if "scope" in work.values:
        work.top.set(work.sources["scope"], "idp_scopes", str(work.values["scope"]).split())
    extra = {key: str(work.values[key]) for key in ("prompt", "acr_values") if work.values.get(key)}
    if extra:
        work.top.set(work.sources[next(iter(extra))], "idp_request_params", extra)


def _convert_secrets(work: _Oauth2ProxyImport) -> None:
    source, raw = work.sources.get("cookie_secret"), _decoded(str(work.values.get("cookie_secret", "")))
    if raw is not None and source is not None:
        work.top.set(source, "cookie_secret", base64.b64encode(raw).decode())
    else:
        why = "generated: gate needs 32 bytes" if source else "generated"
        work.top.set(source, "cookie_secret", base64.b64encode(work.new_secret()).decode(), new=why)
    work.top.set(None, "shared_secret", base64.b64encode(work.new_secret()).decode(), new="generated: it encrypts stored records")
    domains = work.list("cookie_domains")
    if domains:
        note_text = "" if len(domains) == 1 else f"gate supports one domain; omitted: {', '.join(map(str, domains[1:]))}"
        work.top.set(work.sources["cookie_domains"], "cookie_domain", str(domains[0]).removeprefix("."), check=note_text)
    if work.values.get("session_store_type") == "redis":
        work.top.set(work.sources["session_store_type"], "databroker_storage_type", "kvstore")
    elif "session_store_type" in work.values:
        work.top.mark_lost(
            work.sources["session_store_type"], "gate's cookie contains only the session id; without a store, sessions are in memory"
        )
    if "http_address" in work.values:
        address = str(work.values["http_address"]).removeprefix("http://")
        if work.values.get("tls_cert_file"):
            work.top.mark_lost(work.sources["http_address"], "http_redirect_addr answers plain HTTP with a redirect")
        else:
            work.top.set(work.sources["http_address"], "address", address)
            work.top.set(None, "insecure_server", True, new="a proxy in front of oauth2-proxy terminated TLS")


def _decoded(secret: str) -> bytes | None:
    """Decode a secret as oauth2-proxy does: the text itself if it has 32 bytes, else URL-safe base64."""
    if len(secret) == 32:
        return secret.encode()
    try:
        raw = base64.urlsafe_b64decode(secret.replace("+", "-").replace("/", "_") + "=" * (-len(secret) % 4))
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == 32 else None


def _convert_routes(work: _Oauth2ProxyImport, host: str) -> None:
    for key in ("skip_auth_routes", "skip_auth_regex"):
        for index, written in enumerate(work.list(key)):
            _open_route(work, host, work.foreign.source(key, index) if key in work.foreign.values else work.sources[key], str(written))
    found = [_upstream(work, index, written) for index, written in enumerate(work.list("upstreams"))]
    # Like oauth2-proxy: first those with a rewrite, then by length of the path.
    for upstream in sorted(filter(None, found), key=lambda upstream: (not upstream.rewrite, -len(upstream.path))):
        route = _route(work, host, upstream)
        _convert_rules(work, route)
        work.converted.routes.append(route)


@dataclass(frozen=True, slots=True)
class _OAuth2ProxyUpstream:
    """Upstream. `path` is a prefix, or with `rewrite` a regular expression."""

    source: ForeignKey
    target: str
    path: str
    rewrite: str = ""


def _upstream(work: _Oauth2ProxyImport, index: int, written: Any) -> _OAuth2ProxyUpstream | None:
    location = ("upstreams", index) if "upstreams" in work.foreign.values else ("upstreamConfig", "upstreams", index)
    source = work.foreign.source(*location)
    keys = written if isinstance(written, dict) else {"uri": written}
    uri, rewrite = str(keys.get("uri", "")), str(keys.get("rewriteTarget") or "")
    if keys.get("static") or uri.startswith("static:"):
        work.top.mark_lost(source, "gate does not serve fixed responses")
        return None
    if found := find_template([uri, keys.get("path")]):
        work.top.mark_lost(source, describe_lost_template(found))
        return None
    url = urlsplit(uri)
    if url.scheme not in ("http", "https") or not url.netloc:
        work.top.mark_lost(source, f"{uri} is not an HTTP URL: gate forwards requests to http and https upstreams")
        return None
    if "?" in rewrite:
        work.top.mark_lost(source, f"{rewrite}: gate rewrites paths, but not queries")
        return None
    return _OAuth2ProxyUpstream(source, f"{url.scheme}://{url.netloc}", str(keys.get("path") or url.path or "/"), rewrite)


def _route(work: _Oauth2ProxyImport, host: str, upstream: _OAuth2ProxyUpstream) -> ConvertedSection:
    route = ConvertedSection()
    route.set(upstream.source, "from", f"https://{host}")
    route.set(None, "to", upstream.target)
    _set_path(route, upstream)
    if str(work.values.get("pass_host_header", True)).lower() == "true":
        route.set(work.sources.get("pass_host_header"), "preserve_host_header", True)
    if work.values.get("ssl_upstream_insecure_skip_verify") is True:
        route.set(work.sources["ssl_upstream_insecure_skip_verify"], "tls_skip_verify", True)
    if work.values.get("skip_auth_preflight") is True:
        route.set(work.sources["skip_auth_preflight"], "cors_allow_preflight", True)
    if "upstream_timeout" in work.values:
        route.set(work.sources["upstream_timeout"], "timeout", work.values["upstream_timeout"])
    _convert_identity(work, route, upstream.source)
    route.set(None, "allow_websockets", True, new="oauth2-proxy allows websockets to every upstream")
    return route


def _set_path(route: ConvertedSection, upstream: _OAuth2ProxyUpstream) -> None:
    if upstream.rewrite:
        route.set(None, "regex", match_complete_path(upstream.path))
        route.set(None, "regex_rewrite_pattern", upstream.path)
        route.set(None, "regex_rewrite_substitution", _GROUP.sub(r"\\\1", upstream.rewrite), new="groups are \\1 here, not $1")
    elif upstream.path != "/":
        route.set(None, "prefix" if upstream.path.endswith("/") else "path", upstream.path)


def _convert_identity(work: _Oauth2ProxyImport, route: ConvertedSection, source: ForeignKey) -> None:
    """Convert the identity headers and provider tokens that the upstream receives."""
    if work.values.get("pass_user_headers", True) is not False or work.values.get("set_xauthrequest") is True:
        note_text = "applications read X-Forwarded-User, -Email and -Groups as before; X-Gate-Jwt-Assertion is the signed form"
        route.set(work.sources.get("pass_user_headers", source), "identity_headers", "oauth2-proxy", check=note_text)
        route.set(None, "pass_identity_headers", True, new="for applications that verify the user's identity")
    headers = dict(work.values.get(INJECTED, {}))
    keys = [INJECTED] if headers else []
    for key, (name, content) in TOKEN_HEADERS.items():
        if work.values.get(key) is True:
            headers[name] = content
            keys.append(key)
    if keys:
        set_headers(route, work.sources[keys[0]], headers, check="the application receives these headers as before")


def _open_route(work: _Oauth2ProxyImport, host: str, source: ForeignKey, written: str) -> None:
    before, _, after = written.partition("=")
    method, expression = (before, after) if before.isupper() else ("", written)
    if method or written.startswith("!"):
        work.top.mark_lost(source, f"{written}: not converted, because a public route of gate is public for every method")
        return
    targets = [target for target in map(_address, work.list("upstreams")) if urlsplit(target).scheme in ("http", "https")]
    if not targets:
        return
    route = ConvertedSection()
    route.set(
        source, "from", f"https://{host}", check="in gate an expression matches the whole path: it was extended to match the same paths"
    )
    route.set(None, "regex", match_complete_path(expression))
    to = urlsplit(min(targets, key=lambda target: len(urlsplit(target).path)))
    route.set(
        None,
        "to",
        f"{to.scheme}://{to.netloc}",
        new="" if len(targets) == 1 else "of several upstreams, the one with the shortest path. Check it",
    )
    route.set(None, "allow_public_unauthenticated_access", True)
    work.converted.routes.append(route)


def _address(upstream: Any) -> str:
    return f"{upstream.get('uri', '')}{upstream.get('path', '')}" if isinstance(upstream, dict) else str(upstream)


def match_complete_path(expression: str) -> str:
    """Return an expression for the complete path, for one that was searched anywhere in it."""
    begin = expression[1:] if expression.startswith("^") else f".*(?:{expression})" if expression.endswith("$") else f".*(?:{expression}).*"
    if not expression.startswith("^"):
        return begin
    return begin[:-1] if begin.endswith("$") and not begin.endswith(r"\$") else f"(?:{begin}).*"


def _convert_rules(work: _Oauth2ProxyImport, route: ConvertedSection) -> None:
    """Convert the access rules. A restriction that cannot be converted denies all users."""
    demands = [demand for demand in (_email_demand(work), _group_demand(work)) if demand is not None]
    closed = False
    below = [domain for domain in map(str, work.list("email_domains")) if domain.startswith(".")]
    if below:
        route.mark_lost(
            work.sources["email_domains"],
            f"{', '.join(below)} matched every subdomain; in gate a domain matches itself only. List the subdomains",
        )
        closed = not demands
    for key in CLOSING:
        if work.values.get(key):
            route.mark_lost(work.sources[key], "list the groups by id or name in allowed_groups; until then all users are denied")
            closed = True
    if closed:
        return
    if not demands:
        if "*" in work.list("email_domains"):
            route.set(work.sources["email_domains"], "allow_any_authenticated_user", True)
        else:
            route.note(
                "NEW", "all users were denied, and still are. Add the users to allow with allowed_users, allowed_groups or allowed_domains"
            )
    elif len(demands) == 1:
        source, key, entries, _ = demands[0]
        route.set(source, key, entries)
    else:
        route.set(
            demands[0][0],
            "policy",
            [{"allow": {"and": [demand[3] for demand in demands]}}],
            check="both the address and the group are required",
        )


Demand = tuple[ForeignKey, str, list[Any], dict[str, Any]]


def _email_demand(work: _Oauth2ProxyImport) -> Demand | None:
    domains = [str(domain).removeprefix("@") for domain in work.list("email_domains") if not str(domain).startswith(".")]
    users = _users(work)
    if "*" in domains or not (domains or users):
        return None
    if users and domains:
        source = work.sources["authenticated_emails_file"]
        criteria = [{"email": {"in": users}}, {"domain": {"in": domains}}]
        return source, "policy", [{"allow": {"or": criteria}}], {"or": criteria}
    if users:
        return work.sources["authenticated_emails_file"], "allowed_users", users, {"email": {"in": users}}
    return work.sources["email_domains"], "allowed_domains", domains, {"domain": {"in": domains}}


def _users(work: _Oauth2ProxyImport) -> list[str]:
    named = work.values.get("authenticated_emails_file")
    if not named:
        return []
    try:
        lines = (work.foreign.base / posixpath.expanduser(str(named))).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        work.top.mark_lost(work.sources["authenticated_emails_file"], "can't be read from here. List its users in allowed_users")
        return ["nobody@invalid"]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _group_demand(work: _Oauth2ProxyImport) -> Demand | None:
    groups = [str(group) for group in work.list("allowed_groups")]
    return (work.sources["allowed_groups"], "allowed_groups", groups, {"groups": {"in": groups}}) if groups else None
