"""Rewrites of a route: changes of the path and the Host header for the upstream."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from config.fields.basic_types import text
from config.fields.field_type import TEXT, FieldType
from config.fields.header_fields import header_name
from config.routes.policy.criteria import regular_expression
from config.validation import Finding
from foundation.values import parse_url

if TYPE_CHECKING:
    from config.options import Options
    from config.routes.route import Route

# A backslash with the number of a group (0: the whole match), or with a backslash.
_REFERENCE = re.compile(r"\\(.?)")
_NO_REFERENCE = 'has a backslash that is followed by neither a digit nor a backslash. Write \\1 for the first group, "\\\\" for a backslash'

# `\1/x` is (1, "/x"): literal texts and group numbers.
Template = tuple[str | int, ...]


def template(substitution: str) -> Template:
    """Parse a substitution. Raises ValueError for an invalid backslash."""
    parts: list[str | int] = []
    end = 0
    for reference in _REFERENCE.finditer(substitution):
        parts.append(substitution[end : reference.start()])
        end = reference.end()
        if reference[1] != "\\" and not (reference[1].isascii() and reference[1].isdigit()):
            raise ValueError(_NO_REFERENCE)
        parts.append("\\" if reference[1] == "\\" else int(reference[1]))
    return tuple(part for part in (*parts, substitution[end:]) if part != "")


def substitution(value: Any) -> str:
    """Validate a substitution; an empty one removes the match."""
    written = "" if value == "" else text(value)
    template(written)
    return written


def path_substitution(value: Any) -> str:
    written = substitution(value)
    literal = "".join(part for part in template(written) if isinstance(part, str))
    if "?" in literal:
        raise ValueError("must be part of a path, without a query")
    parse_url(f"https://host/{literal.removeprefix('/')}")
    return written


def host_value(value: Any) -> str:
    """Parse `host` or `host:port` into the form in which it is sent."""
    parsed = parse_url(f"tcp://{text(value)}", underscore=True)
    if parsed.path or parsed.query:
        raise ValueError("must be a host with an optional port, as in upstream.internal:8080")
    return parsed.host_port


Pattern = Annotated[str, FieldType("string", regular_expression, TEXT)]
PathSubstitution = Annotated[str, FieldType("string", path_substitution, {"type": "string"})]
HostSubstitution = Annotated[str, FieldType("string", substitution, {"type": "string"})]
HostValue = Annotated[str, FieldType("string", host_value, TEXT)]
HeaderName = Annotated[str, FieldType("string", header_name, TEXT)]


def check_rewrite_pairs(route: "Route") -> Iterator[Finding]:
    for stem in ("regex_rewrite", "host_path_regex_rewrite"):
        pattern, substitution = getattr(route, f"{stem}_pattern"), getattr(route, f"{stem}_substitution")
        if (pattern is None) != (substitution is None):
            present, absent = ("pattern", "substitution") if substitution is None else ("substitution", "pattern")
            yield (f"{stem}_{present}",), f"needs {stem}_{absent} too"
        elif pattern is not None:
            import re2  # 2 MiB, for expressions alone

            groups = re2.compile(pattern).groups
            if any(isinstance(part, int) and part > groups for part in template(substitution)):
                yield (f"{stem}_substitution",), f"refers to a group that {stem}_pattern does not have"


def check_single_rewrite(route: "Route") -> Iterator[Finding]:
    if route.prefix_rewrite is not None and route.regex_rewrite_pattern is not None:
        yield ("regex_rewrite_pattern",), "cannot be combined with prefix_rewrite. Set one of them"
    rewrites = [
        key for key in ("host_rewrite", "host_rewrite_header", "host_path_regex_rewrite_pattern") if getattr(route, key) is not None
    ]
    others = ["preserve_host_header"] if route.preserve_host_header else []
    others += ["set_request_headers" for name in route.set_request_headers if name.lower() == "host"]
    for key in [*rewrites, *others][1:] if rewrites else ():
        yield (key,), f"cannot be combined with {rewrites[0]}: both set the Host header. Set one of them"
    if not route.to and (rewrites or route.regex_rewrite_pattern is not None):
        yield ((rewrites or ["regex_rewrite_pattern"])[0],), "requires an upstream. Set `to`"


def warn_changed_upstream_paths(settings: "Options") -> Iterator[Finding]:
    """Report routes whose requests went to another path in releases in which the path of `to` replaced the matched path."""
    for index, route in enumerate(settings.policy):
        base = route.to[0].url.path if route.to else ""
        is_full_match = route.path is None and route.regex is None and (route.prefix or "/") == "/"
        if base and route.prefix_rewrite is None and route.regex_rewrite_pattern is None and not (is_full_match and base.endswith("/")):
            part = (
                "the leading slash" if is_full_match else "the prefix" if route.prefix is not None and route.regex is None else "the path"
            )
            yield (
                ("policy", index, "to"),
                (
                    f"now has the request's whole path appended; in an earlier release {base} replaced {part}. Set "
                    f"`prefix_rewrite: {base}` to keep that (docs/guides/upstreams.md#path-rewrites)"
                ),
            )
