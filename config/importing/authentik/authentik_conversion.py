"""Importer for authentik: a route for each proxy provider with an application, with a policy made of the application's bindings.

authentik remains the identity provider. Expression policies, reputation and flows have no counterpart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from config.importing.authentik.authentik_entries import (
    APPLICATION,
    BINDING,
    GROUP,
    PROVIDER,
    USER,
    AuthentikEntries,
    AuthentikEntry,
    read_entries,
)
from config.importing.conversion import Conversion, ConvertedSection
from config.importing.foreign_file import AUTHENTIK, ForeignConfig
from config.importing.foreign_values import split_url
from config.importing.path_bounds import approximate_path, sample_path
from config.importing.policy_expressions import Expression, combine_and, combine_nor, combine_or
from config.importing.preamble import NO_UPSTREAM, SIGNED_IN, grant_access, write_preamble

_LOST = {
    "basic_auth_enabled": "gate does not send passwords to applications. They can read X-Gate-Jwt-Assertion",
    "cookie_domain": "gate uses separate cookies for each host",
    "certificate": "configure the certificate of all hosts with certificate_file or autocert",
}


@dataclass(frozen=True, slots=True)
class BindingResult:
    """Users that the bindings of an application allow: the expression, and for policy tests the groups of an allowed user."""

    allowed: Expression
    groups: tuple[str, ...] = ()


def convert(foreign: ForeignConfig, new_secret: Callable[[], bytes]) -> Conversion:
    """Convert the configuration. `new_secret` returns 32 random bytes."""
    converted, entries = Conversion(AUTHENTIK), read_entries(foreign)
    hosts = [split_url(provider.attrs.get("external_host")).hostname or "" for provider in entries.with_model(PROVIDER)]
    domain = next((host.partition(".")[2] for host in hosts if host.count(".") > 1), "example.com")
    issuer = f"https://authentik.{domain}/application/o/gate/"
    write_preamble(
        converted.top, domain, issuer, "the URL of your authentik, with an application `gate`", "of that application", new_secret
    )
    converted.top.note("CHECK", "flows (second factors, consent) are those of the application `gate` for all hosts. Choose them there")
    converted.top.note("NEW", "X-authentik-... became X-Gate-Jwt-Assertion, which is signed (pass_identity_headers)")
    if any(entry.attrs.get("user") for entry in entries.with_model(BINDING)):
        converted.top.note("CHECK", "a bound user became the claim preferred_username. Check that users can't choose its value")
    for provider in sorted(entries.with_model(PROVIDER), key=_path_length, reverse=True):
        if (route := _route(converted, provider, entries)) is not None:
            converted.routes.append(route)
    if not converted.routes:
        converted.top.note("LOST", "the file has no proxy provider with its own host")
    return converted


def _path_length(provider: AuthentikEntry) -> int:
    """Return the length of the path, for the order of routes: the first match applies."""
    return len(split_url(provider.attrs.get("external_host")).path)


def _route(converted: Conversion, provider: AuthentikEntry, entries: AuthentikEntries) -> ConvertedSection | None:
    attrs, mode = provider.attrs, str(provider.attrs.get("mode") or "proxy")
    url = split_url(attrs.get("external_host"))
    if mode == "forward_domain":
        converted.top.mark_lost(
            provider.source,
            f"{attrs.get('name')}: it applied to all hosts of a domain, and gate needs a route for each host. Add the routes",
        )
        return None
    route = ConvertedSection()
    text = "" if url.scheme == "https" else "gate serves https"
    route.set(provider.source, "from", f"https://{url.netloc}", check=text)
    if url.path.strip("/"):
        route.set(None, "prefix", url.path)
    _convert_upstream(route, attrs, mode)
    route.set(None, "allow_websockets", True)
    route.set(None, "pass_identity_headers", True)
    for key, why in _LOST.items():
        if attrs.get(key):
            route.mark_lost(provider.source, f"{key}: {why}")
    bound = _resolve_bindings(route, provider, entries)
    skipped = str(attrs.get("skip_path_regex") or "").splitlines()
    bounds = [approximate_path(expression.strip(), includes_query=False) for expression in skipped if expression.strip()]
    if any(not each.is_exact for each in bounds):
        route.note("CHECK", f"{provider.source}: skip_path_regex: paths with escapes (%..) are public only if they are unambiguous")
    grant_access(route, combine_or([*(each.lower for each in bounds), bound.allowed]))
    converted.tests += _tests(f"https://{url.netloc}{url.path.rstrip('/')}", skipped, bound)
    return route


def _convert_upstream(route: ConvertedSection, attrs: dict[str, Any], mode: str) -> None:
    if mode == "proxy" and attrs.get("internal_host"):
        route.set(None, "to", str(attrs["internal_host"]).rstrip("/"))
        if attrs.get("internal_host_ssl_validation") is False:
            route.set(None, "tls_skip_verify", True)
    else:
        route.set(None, "to", NO_UPSTREAM, new="your own proxy has the upstream. Add it (not needed with forward auth)")


def _resolve_bindings(route: ConvertedSection, provider: AuthentikEntry, entries: AuthentikEntries) -> BindingResult:
    application = _application(provider, entries)
    if application is None:
        route.mark_lost(provider.source, "no application uses this provider, so all users are denied as before")
        return BindingResult(False)
    targets = [(binding, entries.find(binding.attrs.get("target"), APPLICATION)) for binding in entries.with_model(BINDING)]
    bindings = [binding for binding, target in targets if target is application]
    enabled = [binding for binding in bindings if binding.attrs.get("enabled") is not False]
    demands_all = application.attrs.get("policy_engine_mode") == "all"
    knows_all = entries.is_complete and all(target is not None or _binds_other_object(binding, entries) for binding, target in targets)
    if not knows_all and (demands_all or not enabled):
        route.note("CHECK", f"{application.source}: this file may not contain all its bindings. Add the users to allow")
        return BindingResult(False)
    if not enabled:
        if bindings:
            route.note("CHECK", f"{application.source}: all its bindings are disabled. Add the users to allow")
        return BindingResult(False if bindings else SIGNED_IN)
    parts = [_convert_binding(route, binding, entries) for binding in enabled]
    allowed = combine_and(part.allowed for part in parts) if demands_all else combine_or(part.allowed for part in parts)
    groups = {group for part in parts for group in part.groups} if demands_all else next((part.groups for part in parts if part.groups), ())
    return BindingResult(allowed, tuple(sorted(groups)))


def _binds_other_object(binding: AuthentikEntry, entries: AuthentikEntries) -> bool:
    """Return whether the binding's target is another object of the file, such as a flow or one of its stages."""
    models = {entry.model for entry in entries.entries} - {APPLICATION}
    return any(entries.find(binding.attrs.get("target"), model) is not None for model in models)


def _application(provider: AuthentikEntry, entries: AuthentikEntries) -> AuthentikEntry | None:
    return next(
        (entry for entry in entries.with_model(APPLICATION) if entries.find(entry.attrs.get("provider"), PROVIDER) is provider), None
    )


def _convert_binding(route: ConvertedSection, binding: AuthentikEntry, entries: AuthentikEntries) -> BindingResult:
    group = _name(binding, "group", GROUP, "name", entries)
    user = _name(binding, "user", USER, "username", entries)
    if binding.is_conditional or binding.attrs.get("policy") or not (group or user):
        what = (
            "a policy" if binding.attrs.get("policy") else "it is conditional" if binding.is_conditional else "its user or group is unknown"
        )
        route.mark_lost(binding.source, f"{what}: it allows nothing here")
        return BindingResult(False)
    one: Expression = {"groups": group} if group else {"claim/preferred_username": user}
    return BindingResult(combine_nor([one])) if binding.attrs.get("negate") else BindingResult(one, (group,) if group else ())


def _name(binding: AuthentikEntry, key: str, model: str, field: str, entries: AuthentikEntries) -> str:
    """Return the name of the bound group or user. The API includes the object itself next to its key."""
    label = binding.attrs.get(f"{key}_obj")
    if isinstance(label, dict) and isinstance(label.get(field), str):
        return str(label[field])
    reference = binding.attrs.get(key)
    return "" if reference is None else entries.named(reference, model, field)


def _tests(base: str, skipped: list[str], bound: BindingResult) -> list[dict[str, Any]]:
    """Return policy tests of authentik's decisions, if they are known."""
    tests: list[dict[str, Any]] = [
        {"url": base + sample, "expect": "allow"} for sample in map(sample_path, skipped) if len(sample) > 1 and base.count("/") == 2
    ]
    if bound.allowed == SIGNED_IN:
        tests.append({"url": f"{base}/", "user": "someone", "expect": "allow"})
    elif bound.allowed is not False and bound.groups:
        tests.append({"url": f"{base}/", "user": "someone", "groups": list(bound.groups), "expect": "allow"})
    if bound.allowed is not False:
        tests.append({"url": f"{base}/", "expect": "sign-in"})
    return [{"name": f"authentik: {test['url']}", **test} for test in tests]
