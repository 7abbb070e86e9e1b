"""Templates of other products and tools. gate would send them as text, so they are removed and noted."""

import re
from collections.abc import Iterator
from typing import Any

from config.fields.header_template import ACCESS_TOKEN, ASSERTION, FINGERPRINT, ID_TOKEN, TOKENS, template
from config.importing.conversion import Conversion, ConvertedSection, ForeignKey

# `${pomerium.jwt}` and `$pomerium.jwt`; `$$` is a literal dollar sign, in gate too.
_REFERENCE = re.compile(r"\$(?:\{|[A-Za-z_])")
# `${VAR}` of a shell or Compose, `{{ ... }}` of Go, Jinja or Helm, `$(VAR)` of Kubernetes.
_ANYWHERE = re.compile(r"\$\{[^}]*\}?|\{\{.*?(?:\}\}|$)|\$\([A-Za-z_][A-Za-z0-9_]*\)", re.DOTALL)
# Keys whose values are regular expressions, in which dollar signs and braces are operators.
_EXPRESSIONS = frozenset({"regex", "regex_rewrite_pattern", "host_path_regex_rewrite_pattern"})
# Key whose value may contain gate's own templates.
_TEMPLATED_KEY = "set_request_headers"

# Pomerium's variable -> gate's.
_GATE_VARIABLES = {
    "access_token": f"${{{ACCESS_TOKEN}}}",
    "id_token": f"${{{ID_TOKEN}}}",
    "jwt": f"${{{ASSERTION}}}",
    "client_cert_fingerprint": f"${{{FINGERPRINT}}}",
}
_POMERIUM = re.compile(r"\$(?:\{\s*pomerium\s*(?:\.\s*(\w+)|\[\s*\"(\w+)\"\s*\])\s*\}|pomerium\.(\w+))")


def convert_request_headers(route: ConvertedSection, source: ForeignKey, value: Any) -> None:
    """Convert `set_request_headers`, header by header."""
    if not isinstance(value, dict):
        if isinstance(value, str) and "$" in value:
            route.mark_lost(source, "a reference ($...) in it would be sent as text. Write the headers as a map")
        else:
            route.set(None, "set_request_headers", value)
        return
    headers_out: dict[Any, Any] = {}
    translated: list[str] = []
    for name, content in value.items():
        converted_value = _POMERIUM.sub(_gate_reference, content) if isinstance(content, str) else content
        if converted_value != content and _is_complete(converted_value):
            headers_out[name] = converted_value
            translated.append(f"{name}: {converted_value}")
        elif isinstance(content, str) and _REFERENCE.search(content.replace("$$", "")):
            route.mark_lost(ForeignKey(f"{source.key}.{name}", source.line), f"{content}: {_TEMPLATES_HINT}")
        else:
            headers_out[name] = content
    set_headers(route, source if translated else None, headers_out, check="; ".join(translated))


def set_headers(route: ConvertedSection, source: ForeignKey | None, headers: dict[Any, Any], check: str = "") -> None:
    """Set these request headers, and the key that allows provider tokens if one of them contains a token."""
    if headers:
        route.set(source, "set_request_headers", headers, check=check)
    if any(f"${{{name}}}" in str(content) for name in TOKENS for content in headers.values()):
        route.set(None, "pass_provider_tokens", True, new="the application can act as the user at the provider, as before")


def _gate_reference(found: re.Match[str]) -> str:
    return _GATE_VARIABLES.get(found[1] or found[2] or found[3], found[0])


def _is_complete(text: str) -> bool:
    """Return whether gate supports every reference in the text."""
    try:
        return not _REFERENCE.search("".join(part for part in template(text) if isinstance(part, str)))
    except ValueError:
        return False


_TEMPLATES_HINT = "for the templates that gate supports see docs/guides/identity-headers.md"


def find_template(value: Any) -> str:
    """Return the first template of another tool in a value, or ""."""
    return next(_templates(value), "")


def describe_lost_template(found: str) -> str:
    return f"{found} is a template of another tool. Write its value"


def drop_unresolved_templates(converted: Conversion) -> None:
    """Reject all other values with templates, which the environment or a tool would have replaced."""
    for part in (converted.top, *converted.routes):
        for entry in part.entries:
            if entry.key and entry.key not in (*_EXPRESSIONS, _TEMPLATED_KEY) and (found := find_template(entry.value)):
                part.reject(entry, describe_lost_template(found))


def _templates(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _ANYWHERE.findall(value)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _templates(inner)
