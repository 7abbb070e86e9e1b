"""Bounds of a foreign path expression: what surely matched there, and what possibly did, in criteria of gate.

The other products search an expression in the decoded path, some of them in path and query; gate matches the whole canonical path,
in which what is no ordinary letter stays escaped, and its rules never look at a query.  Who lets somebody in by an expression must
use `surely`, who keeps somebody out `possibly`: where the two readings part, nobody gets in.
"""

import re
from dataclasses import dataclass

from config.importing.foreign_values import compile_re2
from config.importing.policy_expressions import Expression, combine_or

# Of letters, digits and `-._~/` alone: every server reads these alike, and the canonical path holds them unescaped.
_PLAIN_CLASS = r"\[(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_~/.]|\\[./_-])+-?\]"
_PLAIN = re.compile(rf"(?:[A-Za-z0-9_~/-]|\\[./_~dw-]|{_PLAIN_CLASS}|\((?:\?:)?|[)|*+?]|\{{\d+(?:,\d*)?\}})*")
_LITERAL = re.compile(r"\^((?:[A-Za-z0-9_~/-]|\\[./_~-])*)([*+?{]?)")
# What an end of the text, or of a word, decides, and flags, which change what the other signs mean.
_ENDS = re.compile(r"\$|\\[zZbBQ]|\(\?(?!:)")
_FLAGS = re.compile(r"\(\?(?!:)")  # `a(?i)*` is `a*`
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|.", re.DOTALL)
_BELOW = "(?:/.*)?"
# How such expressions end -> what the path itself surely, and possibly, ended with; a query may follow.
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
    surely: Expression
    possibly: Expression

    @property
    def are_exact(self) -> bool:
        return self.surely == self.possibly


def approximate_path(expression: str, *, sees_query: bool) -> PathBounds:
    """Bounds of an expression (RE2) that is searched for; `sees_query`: in the path and the query, else in the path."""
    searched = compile_re2(expression)
    # Authelia compares named groups with a person or a group; and behind \Q no sign means what it does elsewhere.
    if searched is None or searched.groupindex or r"\Q" in expression:
        return PathBounds(False, True)
    found = [_bounds(part, sees_query) for part in _alternatives(expression)]
    return PathBounds(combine_or([bounds.surely for bounds in found]), combine_or([bounds.possibly for bounds in found]))


def sample_path(expression: str) -> str:
    """Path that the expression begins with; "" where it begins with no plain text."""
    match = _LITERAL.match(_alternatives(expression)[0])
    return _literal(match) if match else ""


def _alternatives(expression: str) -> list[str]:
    """Expressions of which one must match: those between the bars that stand in no group."""
    found, depth = [""], 0
    for part in _PARTS.findall(expression):
        depth += (part == "(") - (part == ")")
        if part == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += part
    return found


def _bounds(expression: str, sees_query: bool) -> PathBounds:
    if expression in ("", "^", ".*", "^.*", "^.*$", ".*$", "^/", "^/.*", "^/.*$"):
        return PathBounds(True, True)
    if expression.startswith("^"):
        for tail, (surely, possibly) in _TAILS.items():
            head = expression[1:].removesuffix(tail) if tail else expression[1:]
            if expression.endswith(tail) and head.startswith(("/", r"\/", "(")) and _PLAIN.fullmatch(head) and compile_re2(head):
                if not sees_query and tail in ("$", "(/.*)?$", "(?:/.*)?$"):
                    surely = possibly
                return PathBounds(False if surely is None else _path(head + surely), _path(head + possibly))
    return PathBounds(_lower_bound(expression, sees_query), _upper_bound(expression))


def _path(whole: str) -> Expression:
    return {"http_path": {"matches": whole}}


def _lower_bound(expression: str, sees_query: bool) -> Expression:
    """Where nothing looks at the end, a query behind the match changes nothing; what is escaped may be anything decoded."""
    if sees_query and _ENDS.search("".join(part for part in _PARTS.findall(expression) if part not in (r"\$", "[$]"))):
        return False
    return {"http_path": {"matches": f".*(?:{expression}).*", "not_contains": "%"}}


def _upper_bound(expression: str) -> Expression:
    match = _LITERAL.match(expression)
    begin = _literal(match) if match and not _FLAGS.search(expression) else ""
    return {"http_path": {"starts_with": begin}} if len(begin) > 1 else True


def _literal(match: re.Match[str]) -> str:
    text = match[1].replace("\\", "")
    return text[:-1] if match[2] else text
