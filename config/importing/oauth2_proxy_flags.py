"""Flags and environment variables of oauth2-proxy in a Compose file or a Kubernetes manifest."""

import shlex
from collections.abc import Iterator
from typing import Any

from config.parsing.document import Document, KeyPath, pack_position

_VARIABLE = "OAUTH2_PROXY_"
# Repeatable flags: the configuration file has their plural, a list.
_REPEATED = {
    **{name: f"{name}s" for name in ("upstream", "email_domain", "cookie_domain", "allowed_group", "allowed_role", "whitelist_domain")},
    **{name: f"{name}s" for name in ("skip_auth_route", "trusted_ip", "trusted_proxy_ip", "github_user", "google_group", "gitlab_group")},
    **{name: f"{name}s" for name in ("gitlab_project", "keycloak_group", "extra_jwt_issuer", "htpasswd_user_group", "api_route")},
    "skip_auth_regex": "skip_auth_regex",
}
_BOOLEANS = {"true": True, "false": False}


def settings_in(document: Document) -> Document | None:
    """Return the settings of the only oauth2-proxy in a document, with their positions; None if there is none."""
    for path, container in _containers(document.value):
        if _is_oauth2_proxy(container):
            return _settings(document, path, container)
    return None


def _containers(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield all maps with an image or a command at any depth: services of Compose, containers of pods, items of lists."""
    if isinstance(value, dict):
        if "image" in value or "command" in value:
            yield path, value
        for key, content in value.items():
            yield from _containers(content, (*path, key))
    elif isinstance(value, list):
        for index, content in enumerate(value):
            yield from _containers(content, (*path, index))


def _is_oauth2_proxy(container: dict[str, Any]) -> bool:
    image = str(container.get("image", "")).rpartition("/")[2].partition("@")[0].partition(":")[0]
    flags = {name for name, _, _ in _flags(container)}
    return image == "oauth2-proxy" or {"client_id", "provider"} <= flags


def _settings(document: Document, path: KeyPath, container: dict[str, Any]) -> Document:
    variables: dict[str, Any] = {name: _BOOLEANS.get(content, content) for name, content, _ in _variables(container)}
    flags: dict[str, Any] = {}
    for name, content, _ in _flags(container):
        if name in _REPEATED:
            flags.setdefault(_REPEATED[name], []).extend(part.strip() for part in content.split(","))
        else:
            flags[name] = _BOOLEANS.get(content, content)
    values = variables | flags
    places = {
        _REPEATED.get(name, name): document.find_location((*path, *index))
        for name, _, index in (*_variables(container), *_flags(container))
    }
    return Document(values, {id(values): {key: pack_position(*place) for key, place in places.items() if place is not None}})


def _flags(container: dict[str, Any]) -> Iterator[tuple[str, str, KeyPath]]:
    for source in ("command", "args"):
        written = container.get(source)
        arguments: list[tuple[str, KeyPath]] = (
            [(str(word), (source, index)) for index, word in enumerate(written)]
            if isinstance(written, list)
            else [(word, (source,)) for word in _split(written)]
        )
        for index, (word, place) in enumerate(arguments):
            if not word.startswith("-"):
                continue
            name, separator, content = word.lstrip("-").partition("=")
            following = arguments[index + 1][0] if index + 1 < len(arguments) else "-"
            value = content if separator else "true" if following.startswith("-") else following
            yield name.replace("-", "_"), value, place


def _split(written: Any) -> list[str]:
    try:
        return shlex.split(written) if isinstance(written, str) else []
    except ValueError:
        return []


def _variables(container: dict[str, Any]) -> Iterator[tuple[str, str, KeyPath]]:
    """Return variables: `environment` of Compose is a map or a list of NAME=value; in Kubernetes, a value may be a reference."""
    written = container.get("environment", container.get("env"))
    source = "environment" if "environment" in container else "env"
    pairs: list[tuple[str, Any, KeyPath]] = []
    if isinstance(written, dict):
        pairs = [(str(name), content, (source, name)) for name, content in written.items()]
    for index, each in enumerate(written if isinstance(written, list) else []):
        if isinstance(each, dict):
            pairs.append((str(each.get("name", "")), each.get("value"), (source, index)))
        else:
            name, _, content = str(each).partition("=")
            pairs.append((name, content, (source, index)))
    for name, content, place in pairs:
        if name.startswith(_VARIABLE) and content is not None:
            yield name.removeprefix(_VARIABLE).lower(), str(content), place
