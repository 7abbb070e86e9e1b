"""Alpha configuration of oauth2-proxy: the same options under other keys."""

from collections.abc import Callable, Iterator
from typing import Any

from config.importing.conversion import ForeignKey
from config.importing.foreign_file import ForeignConfig


def flat(foreign: ForeignConfig) -> tuple[dict[str, Any], dict[str, ForeignKey]]:
    """Return the alpha configuration under the keys of the ordinary one."""
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
    for index, upstream in enumerate(found):
        for key, content in upstream.items():
            if key in ("passHostHeader", "insecureSkipTLSVerify", "timeout"):
                yield ALPHA_UPSTREAM[key], content, ("upstreams", index, key)
            elif key not in UPSTREAM_KEYS:
                yield f"upstreams[{index}].{key}", content, ("upstreams", index, key)
    yield "upstreams", found, ("upstreams",)


def _alpha_server(value: Any) -> Iterator[Flattened]:
    for key, content in value.items() if isinstance(value, dict) else ():
        yield ALPHA_SERVER.get(key, str(key)), content, (key,)


def _alpha_headers(value: Any) -> Iterator[Flattened]:
    """Convert headers with standard names to `identity_headers`, and others to `set_request_headers`."""
    headers: dict[str, str] = {}
    has_usual = False
    for index, header in enumerate(value if isinstance(value, list) else []):
        name, written = _alpha_header(header)
        if not written:
            yield f"injectRequestHeaders[{index}]", header, (index,)
        elif USUAL_HEADERS.get(name.lower()) == written:
            has_usual = True
        else:
            headers[name] = written
    yield "pass_user_headers", has_usual, ()
    if headers:
        yield INJECTED, headers, ()


def _alpha_header(header: Any) -> tuple[str, str]:
    """Return name and template of a header; "" for a value that gate does not support."""
    values = header.get("values") if isinstance(header, dict) else None
    value = values[0] if isinstance(values, list) and len(values) == 1 else None
    if not isinstance(value, dict) or not set(value) <= {"claim", "prefix"} or value.get("claim") not in ALPHA_CLAIMS:
        return "", ""
    return str(header.get("name")), str(value.get("prefix", "")).replace("$", "$$") + ALPHA_CLAIMS[value["claim"]]


INJECTED = "injectRequestHeaders"
UPSTREAM_KEYS = ("id", "path", "uri", "rewriteTarget", "static", "staticCode")
ALPHA_CLAIMS: dict[Any, str] = {
    "user": "${subject}",
    "email": "${claim.email}",
    "groups": "${groups}",
    "preferred_username": "${claim.preferred_username}",
    "access_token": "${access_token}",
    "id_token": "${id_token}",
}
USUAL_HEADERS = {
    "x-forwarded-user": ALPHA_CLAIMS["user"],
    "x-forwarded-email": ALPHA_CLAIMS["email"],
    "x-forwarded-groups": ALPHA_CLAIMS["groups"],
    "x-forwarded-preferred-username": ALPHA_CLAIMS["preferred_username"],
}
ALPHA_PROVIDER: dict[Any, str] = {
    "clientID": "client_id",
    "clientSecret": "client_secret",
    "clientSecretFile": "client_secret_file",
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
