"""Limits on what a provider may send about one user.  Everything it sends is stored for each session, so it is checked on arrival."""

import json
from collections.abc import Mapping
from typing import Any

from foundation.errors import ProviderError

MAX_MEMBERS = 1000  # members of all objects together; an object or array in an array counts as one
MAX_DEPTH = 8  # objects and arrays within each other
MAX_BYTES = 64 * 1024  # as JSON, as much as a token may have


class ClaimsTooLarge(ProviderError):
    """The claims of a user exceed a limit; the message names the provider and the limit."""


def check_claims(claims: dict[str, Any], sender: str) -> dict[str, Any]:
    """Return the claims. Raises ClaimsTooLarge."""
    if excess := find_excess(claims):
        raise ClaimsTooLarge(f"{sender} sends claims with {excess} for one user: send fewer claims or groups to this client")
    return claims


def find_excess(document: Mapping[str, Any]) -> str:
    """Return the limit that a JSON document exceeds, "" for none. Iterative, because the depth is not bounded before."""
    members, level = 0, list[Any]([document])
    for _ in range(MAX_DEPTH):
        inner = list[Any]()
        for container in level:
            values = container.values() if isinstance(container, Mapping) else container
            nested = [value for value in values if isinstance(value, Mapping | list | tuple)]
            members += len(container) if isinstance(container, Mapping) else len(nested)
            if members > MAX_MEMBERS:
                return f"more than {MAX_MEMBERS} members"
            inner += nested
        level = inner
    if level:
        return f"more than {MAX_DEPTH} levels"
    # surrogatepass for safety: strict_json.py has rejected lone surrogates, which have no UTF-8 encoding.
    size = len(json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass"))
    return f"more than {MAX_BYTES} bytes" if size > MAX_BYTES else ""
