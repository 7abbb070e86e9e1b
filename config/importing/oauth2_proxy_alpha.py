"""Alpha configuration of oauth2-proxy in the keys of its ordinary one: it says the same in other places."""

from collections.abc import Callable, Iterator
from typing import Any

from config.importing.converted import ForeignKey
from config.importing.foreign_file import ForeignConfig


def flat(foreign: ForeignConfig) -> tuple[dict[str, Any], dict[str, ForeignKey]]:
    """The alpha configuration says the same in other places: brought to the names of the ordinary one."""
    values: dict[str, Any] = {}
    sources: dict[str, ForeignKey] = {}
    for key, value, source in foreign.items():
        if key not in ALPHA:
            values[key], sources[key] = value, source
            continue
        for name, found, place in ALPHA[key](value):
            values[name], sources[name] = found, foreign.source(key, *place)
    return values, sources


Flattened = tuple[str, Any, tuple[str | int, ...]]


def _alpha_providers(value: Any) -> Iterator[Flattened]:
    for index, provider in enumerate(value if isinstance(value, list) else []):
        if index > 0:
            yield f"providers[{index}]", provider, (index,)
            continue
        for key, content in provider.items() if isinstance(provider, dict) else ():
            if key == "oidcConfig" and isinstance(content, dict):
                yield from ((ALPHA_OIDC.get(inner, str(inner)), found, (index, key, inner)) for inner, found in content.items())
            elif key in ALPHA_VENDORS and isinstance(content, dict):
                yield from ((f"{ALPHA_VENDORS[key]}_{inner}", found, (index, key, inner)) for inner, found in content.items())
            else:
                yield ALPHA_PROVIDER.get(key, str(key)), content, (index, key)


def _alpha_upstreams(value: Any) -> Iterator[Flattened]:
    found = value.get("upstreams", []) if isinstance(value, dict) else []
    addresses = []
    for index, upstream in enumerate(found):
        uri, path = str(upstream.get("uri", "")), str(upstream.get("path", "/"))
        addresses.append(uri.rstrip("/") + path)
        for key, content in upstream.items():
            if key in ("passHostHeader", "insecureSkipTLSVerify", "timeout"):
                yield ALPHA_UPSTREAM[key], content, ("upstreams", index, key)
            elif key not in ("id", "path", "uri"):
                yield f"upstreams[{index}].{key}", content, ("upstreams", index, key)
    yield "upstreams", addresses, ("upstreams",)


def _alpha_server(value: Any) -> Iterator[Flattened]:
    for key, content in value.items() if isinstance(value, dict) else ():
        yield ALPHA_SERVER.get(key, str(key)), content, (key,)


def _alpha_headers(value: Any) -> Iterator[Flattened]:
    yield "pass_user_headers", bool(value), ()
    for index, header in enumerate(value if isinstance(value, list) else []):
        values = header.get("values") if isinstance(header, dict) else None
        for each in values if isinstance(values, list) else []:
            if not isinstance(each, dict) or each.get("claim") not in ALPHA_CLAIMS:
                yield f"injectRequestHeaders[{index}]", header, (index,)


ALPHA_CLAIMS = ("user", "email", "groups", "preferred_username")
ALPHA_PROVIDER: dict[Any, str] = {
    "clientID": "client_id",
    "clientSecret": "client_secret",
    "allowedGroups": "allowed_groups",
    "provider": "provider",
    "id": "id",
}
ALPHA_VENDORS: dict[Any, str] = {
    "githubConfig": "github",
    "gitlabConfig": "gitlab",
    "googleConfig": "google",
    "bitbucketConfig": "bitbucket",
    "keycloakConfig": "keycloak",
    "azureConfig": "azure",
    "microsoftEntraIDConfig": "entra_id",
}
ALPHA_OIDC: dict[Any, str] = {"issuerURL": "oidc_issuer_url", "groupsClaim": "oidc_groups_claim"}
ALPHA_SERVER: dict[Any, str] = {"BindAddress": "http_address", "SecureBindAddress": "https_address"}
ALPHA_UPSTREAM: dict[Any, str] = {
    "passHostHeader": "pass_host_header",
    "insecureSkipTLSVerify": "ssl_upstream_insecure_skip_verify",
    "timeout": "upstream_timeout",
}
ALPHA: dict[str, Callable[[Any], Iterator[Flattened]]] = {
    "providers": _alpha_providers,
    "upstreamConfig": _alpha_upstreams,
    "server": _alpha_server,
    "injectRequestHeaders": _alpha_headers,
}
