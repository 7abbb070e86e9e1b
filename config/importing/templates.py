"""Templates that the other product fills in.  As text they would mean something else, so they are left out and said."""

import re
from collections.abc import Iterator
from typing import Any

from config.importing.converted import Converted, ConvertedPart, ForeignKey

# `${pomerium.jwt}` and `$pomerium.jwt`; `$$` is the sign itself, to gate, too.
_REFERENCE = re.compile(r"\$(?:\{|[A-Za-z_])")
_ANYWHERE = re.compile(r"\$\{[^}]*\}?")
# There a dollar sign and braces are an expression's own.
_EXPRESSIONS = frozenset({"regex", "regex_rewrite_pattern", "host_path_regex_rewrite_pattern"})

WORDS = {
    "access_token": "the provider's tokens never leave gate",
    "id_token": "the provider's tokens never leave gate",
    "jwt": "X-Gate-Jwt-Assertion is what upstreams verify (pass_identity_headers), in another header by ${assertion}",
}


def request_headers(route: ConvertedPart, source: ForeignKey, value: Any) -> None:
    """Header by header of `set_request_headers`."""
    if not isinstance(value, dict):
        if isinstance(value, str) and "$" in value:
            route.lose(source, "a reference ($...) in it would be sent as text: write the headers as a map")
        else:
            route.set(None, "set_request_headers", value)
        return
    kept: dict[Any, Any] = {}
    for name, content in value.items():
        bare = content.replace("$$", "") if isinstance(content, str) else ""
        if _REFERENCE.search(bare):
            route.lose(ForeignKey(f"{source.key}.{name}", source.line), f"{content}: {_why(bare)}")
        else:
            kept[name] = content
    if kept:
        route.set(None, "set_request_headers", kept)


def _why(reference: str) -> str:
    named = next((words for name, words in WORDS.items() if re.search(rf"\.{name}\b", reference)), "")
    return named or "what gate fills into headers stands in docs/identity_headers.md"


def leave_out_templates(converted: Converted) -> None:
    """Templates of every other value, `${...}`: one of the environment's, or of a tool that writes files."""
    for part in (converted.top, *converted.routes):
        for entry in part.entries:
            if entry.key and entry.key not in _EXPRESSIONS and (found := next(_templates(entry.value), "")):
                part.refuse(entry, f"{found} is filled in by something else than gate: write what it stands for")


def _templates(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _ANYWHERE.findall(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _templates(inner)
