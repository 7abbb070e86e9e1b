"""Lower and upper bounds of a foreign path expression, as criteria of gate.

The other products search an expression in the decoded path, some in path and query. gate matches the complete canonical path, in which
special characters stay escaped, and never the query. A rule that allows must use `lower`, a rule that denies `upper`. Where the bounds
differ, access is denied.
"""

import re
from dataclasses import dataclass

from config.importing.foreign_values import compile_re2
from config.importing.policy_expressions import Expression, combine_or

# Letters, digits and `-._~/` only: every server interprets them alike, and the canonical path contains them unescaped.
_PLAIN_CLASS = r"\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_~/.]|\\[./_-])+-?\]"
_PLAIN = re.compile(rf"(?:[A-Za-z0-9_~/-]|\\[./_~dw-]|{_PLAIN_CLASS}|\((?:\?:)?|[)|*+?]|\{{\d+(?:,\d*)?\}})*")
_LITERAL = re.compile(r"\^((?:[A-Za-z0-9_~/-]|\\[./_~-])*)([*+?{]?)")
# Anchors, word boundaries and flags, which change the meaning of what follows.
_ENDS = re.compile(r"\$|\\[zZbBQ]|\(\?(?!:)")
_FLAGS = re.compile(r"\(\?(?!:)")  # `a(?i)*` is `a*`
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|.", re.DOTALL)
_BELOW = "(?:/.*)?"
# Suffix of an expression -> lower and upper bound of the rest of the path; a query may follow.
_TAILS: dict[str, tuple[str | None, str]] = {
    "([/?].*)?$": (_BELOW, _BELOW),
    "([?/].*)?$": (_BELOW, _BELOW),
    "(?:[/?].*)?$": (_BELOW, _BELOW),
    "([/?]|$)": (_BELOW, _BELOW),
    "(/.*)?$": ("/.*", _BELOW),
    "(?:/.*)?$": ("/.*", _BELOW),
    r"(\?.*)?$": ("", ""),
    ".+$": (".+", ".*"),
    ".*$": (".*", ".*"),
    ".+": (".+", ".*"),
    ".*": (".*", ".*"),
    "$": (None, ""),
    "": (".*", ".*"),
}


@dataclass(frozen=True, slots=True)
class PathBounds:
    lower: Expression
    upper: Expression

    @property
    def is_exact(self) -> bool:
        return self.lower == self.upper


def approximate_path(expression: str, *, includes_query: bool) -> PathBounds:
    """Return the bounds of an RE2 expression that is searched for.

    With `includes_query` it is searched in path and query, else in the path.
    """
    searched = compile_re2(expression)
    # Authelia compares named groups with the user or a group. After \Q, operators are literals.
    if searched is None or searched.groupindex or r"\Q" in expression:
        return PathBounds(False, True)
    found = [_bounds(part, includes_query) for part in _alternatives(expression)]
    return PathBounds(combine_or([bounds.lower for bounds in found]), combine_or([bounds.upper for bounds in found]))


def sample_path(expression: str) -> str:
    """Return the literal prefix of the expression, or ""."""
    match = _LITERAL.match(_alternatives(expression)[0])
    return _literal(match) if match else ""


def _alternatives(expression: str) -> list[str]:
    """Split at the bars outside groups."""
    found, depth = [""], 0
    for part in _PARTS.findall(expression):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += part
    return found


def _bounds(expression: str, includes_query: bool) -> PathBounds:
    if expression in ("", "^", ".*", "^.*", "^.*$", ".*$", "^/", "^/.*", "^/.*$"):
        return PathBounds(True, True)
    if expression.startswith("^"):
        for tail, (lower, upper) in _TAILS.items():
            head = expression[1:].removesuffix(tail) if tail else expression[1:]
            if expression.endswith(tail) and head.startswith(("/", r"\/", "(")) and _PLAIN.fullmatch(head) and compile_re2(head):
                if not includes_query and tail in ("$", "(/.*)?$", "(?:/.*)?$"):
                    lower = upper
                return PathBounds(False if lower is None else _path(head + lower), _path(head + upper))
    return PathBounds(_lower_bound(expression, includes_query), _upper_bound(expression))


def _path(pattern: str) -> Expression:
    return {"http_path": {"matches": pattern}}


def _lower_bound(expression: str, includes_query: bool) -> Expression:
    """Without anchors, a query after the match changes nothing. Escaped characters may decode to anything, so they are excluded."""
    if includes_query and _ENDS.search("".join(part for part in _PARTS.findall(expression) if part not in (r"\$", "[$]"))):
        return False
    return {"http_path": {"matches": f".*(?:{expression}).*", "not_contains": "%"}}


def _upper_bound(expression: str) -> Expression:
    match = _LITERAL.match(expression)
    begin = _literal(match) if match and not _FLAGS.search(expression) else ""
    return {"http_path": {"starts_with": begin}} if len(begin) > 1 else True


def _literal(match: re.Match[str]) -> str:
    text = match[1].replace("\\", "")
    return text[:-1] if match[2] else text
