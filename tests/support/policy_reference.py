"""Reference implementation of docs/reference/policy-language.md: a slow evaluator that shares no code with the product.

Results are True, False or None (unknown). Before sign-in, conditions on the user are OPEN.
"""

import base64
import hashlib
import ipaddress
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.path_parsers import READERS, served

DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


ABSENT = object()


@dataclass
class ReferenceUser:
    email: str  # "" if missing or not verified
    provider: str
    subject: str
    groups: set[str]
    group_names: set[str]
    claims: dict[str, Any]  # as the provider sends them
    issued: float
    groups_claim: Any = ABSENT
    is_granted: bool = False

    def all_groups(self) -> set[str]:
        return self.groups | self.group_names | {str(each) for each in self._claimed() if each != "" and is_group(each)}

    def is_in_others(self) -> bool:
        """Whether the user may be in unknown groups."""
        return self.groups_claim is None or not all(map(is_group, self._claimed()))

    def _claimed(self) -> list[Any]:
        return [] if self.groups_claim is ABSENT else listed_values(self.groups_claim)


@dataclass
class ReferenceRequest:
    now: float
    user: ReferenceUser | None = None
    ip: str = ""
    method: str = "GET"
    path: str = "/"
    headers: list[tuple[str, str]] = field(default_factory=list)
    certificate: bytes | None = None
    public_key: bytes = b""
    is_preflight: bool = False


def outcome(route: dict[str, Any], request: ReferenceRequest) -> str:
    """Return "allowed", "sign in" or "forbidden"; without a session, over all possible results of a sign-in."""
    blocks = route.get("policy", [])
    denies = [block["deny"] for block in blocks if "deny" in block]
    allows = [block["allow"] for block in blocks if "allow" in block]
    lists = any(route.get(key) for key in ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims"))
    signed_in = request.user is not None
    denied = [possible(deny, request) for deny in denies]
    if any(False not in answers for answers in denied) or (signed_in and any(answers != {False} for answers in denied)):
        return "forbidden"
    requires_user = any(answers != {False} for answers in denied)
    if route.get("cors_allow_preflight") and request.is_preflight:
        return "allowed"
    allowed = [possible(allow, request) for allow in allows]
    granted = route.get("allow_public_unauthenticated_access") or any(answers == {True} for answers in allowed)
    granted = granted or (signed_in and listed(route, request.user))
    if granted:
        return "sign in" if requires_user else "allowed"
    could = any(True in answers for answers in allowed) or lists or bool(route.get("allow_any_authenticated_user"))
    return "sign in" if not signed_in and (could or not blocks) else "forbidden"


def listed(route: dict[str, Any], user: ReferenceUser) -> bool:
    return bool(
        route.get("allow_any_authenticated_user")
        or (route.get("allowed_users") and is_user(route["allowed_users"], user) is True)
        or (set(route.get("allowed_groups", ())) & user.all_groups())
        or (user.email and user.email.split("@")[1] in [entry.lower() for entry in route.get("allowed_domains", ())])
        or any(
            same(value, wanted)
            for claim, values in route.get("allowed_idp_claims", {}).items()
            for wanted in values
            for value in listed_values(found(user.claims, claim))
        )
    )


def possible(expression: dict[str, Any], request: ReferenceRequest) -> set[bool | None]:
    """Return every possible result of an expression: one, unless there is no session."""
    ((key, content),) = expression.items()
    if key in ("and", "or", "nor"):
        combined = itertools.product(*(possible(part, request) for part in content))
        return {{"and": every, "or": some, "nor": lambda answers: opposite(some(answers))}[key](answers) for answers in combined}
    if key == "not":
        return {opposite(answer) for answer in possible(content, request)}
    if request.user is None and key.split("/")[0] in ("email", "domain", "user", "groups", "claim", "acr", "session_age", "granted"):
        return {True, False}
    return {criterion(key, content, request)}


def every(answers: Any) -> bool | None:
    return False if False in answers else None if None in answers else True


def some(answers: Any) -> bool | None:
    return True if True in answers else None if None in answers else False


def opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def criterion(key: str, content: Any, request: ReferenceRequest) -> bool | None:
    name, _, argument = key.partition("/")
    if not isinstance(content, dict):
        content = {"at_most" if name == "session_age" else "in" if isinstance(content, list) else "is": content}
    zone = ZoneInfo(content.get("zone", "UTC"))
    operators = {operator: operand for operator, operand in content.items() if operator != "zone"}
    if name == "time_of_day" and len(operators) == 2:
        first, last = time.fromisoformat(operators["after"]), time.fromisoformat(operators["before"])
        here = datetime.fromtimestamp(request.now, zone).time()
        return first <= here < last if first < last else not (last <= here < first)
    answers = []
    for operator, operand in operators.items():
        plain = operator.removeprefix("not_")
        operands = operand if isinstance(operand, list) else [operand]
        answer = compare(name, argument, plain, operands, request, zone)
        answers.append(opposite(answer) if plain != operator else answer)
    return every(answers)


def compare(name: str, argument: str, operator: str, operands: list[Any], request: ReferenceRequest, zone: ZoneInfo) -> bool | None:
    user = request.user
    match name:
        case "email":
            return fits(operator, [each.lower() for each in operands], user.email) if user.email else None
        case "domain":
            return fits(operator, [each.lower() for each in operands], user.email.split("@")[1]) if user.email else None
        case "user":
            return is_user(operands, user)
        case "groups":
            return some([*(fits(operator, operands, group) for group in user.all_groups()), None if user.is_in_others() else False])
        case "claim":
            return claim(operator, operands, argument, user)
        case "acr":
            values = listed_values(user.claims.get("acr"))
            return values[0] in operands if len(values) == 1 and isinstance(values[0], str) else None
        case "granted":
            return user.is_granted
        case "session_age":
            return age(operator, operands[0], request.now - user.issued) if user.issued > 0 and user.issued <= request.now + 60 else None
        case "source_ip":
            return any(ipaddress.ip_address(request.ip) in ipaddress.ip_network(each) for each in operands) if request.ip else None
        case "http_method":
            return request.method in operands if request.method else None
        case "http_path":
            return path(operator, operands, request.path)
        case "http_header":
            return header(operator, operands, argument.lower(), request.headers)
        case "client_certificate":
            return certificate(operator, operands, request)
        case _:
            return moment(name, operator, operands, datetime.fromtimestamp(request.now, zone))


def fits(operator: str, operands: list[str], text: str) -> bool:
    tests = {
        "is": str.__eq__,
        "in": str.__eq__,
        "starts_with": str.startswith,
        "ends_with": str.endswith,
        "contains": str.__contains__,
        "matches": lambda text, pattern: re.fullmatch(pattern, text, re.DOTALL) is not None,
    }
    return any(tests[operator](text, operand) for operand in operands)


def is_user(operands: list[str], user: ReferenceUser) -> bool | None:
    if f"{user.provider}/{user.subject}" in operands or (user.subject in operands and "@" not in user.subject):
        return True
    addresses = [each.lower() for each in operands if "@" in each and "/" not in each]
    if user.email and user.email in addresses:
        return True
    return None if addresses and not user.email else False


def same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def is_group(value: Any) -> bool:
    return type(value) in (str, int)


def is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def listed_values(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def found(claims: dict[str, Any], path: str) -> Any:
    """Return the value at a dotted path; a dot in a name is escaped by a backslash."""
    value: Any = claims
    for name in re.split(r"(?<!\\)\.", path):
        value = value.get(name.replace("\\.", "."), ABSENT) if isinstance(value, dict) else ABSENT
    return value


def names_another(claims: dict[str, Any], path: str) -> bool:
    """Return whether a claim has this path if the backslashes are ignored, so that dots in names are ambiguous."""
    return path.replace("\\", "") in set(paths(claims))


def paths(claims: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in claims.items():
        yield f"{before}{name}"
        if isinstance(value, dict):
            yield from paths(value, f"{before}{name}.")


def holds_nothing(value: Any) -> bool:
    """Return whether the value is null, an empty list or map, or a list of these."""
    return all(each in (None, {}, []) for each in listed_values(value))


def claim(operator: str, operands: list[Any], path: str, user: ReferenceUser) -> bool | None:
    value = found(user.claims, path)
    if operator == "exists" and value is ABSENT:
        return None if names_another(user.claims, path) else not operands[0]
    if operator == "exists":
        return None if holds_nothing(value) else operands[0]
    if value is ABSENT or holds_nothing(value):
        return None
    return some([compared(operator, operands, each) for each in listed_values(value)])


def compared(operator: str, operands: list[Any], value: Any) -> bool | None:
    if operator in ("is", "in") and is_scalar(value):
        return any(same(value, operand) for operand in operands)
    return fits(operator, operands, value) if isinstance(value, str) else None


def age(operator: str, limit: str, seconds: float) -> bool:
    length = {"m": 60, "h": 3600}[limit[-1]] * int(limit[:-1])
    return max(seconds, 0) <= length if operator == "at_most" else max(seconds, 0) >= length


def path(operator: str, operands: list[str], target: str) -> bool | None:
    """Evaluate a path condition: true if it is true for the interpretation of every server."""
    answers = {fits(operator, operands, each) for each in (target, *(served(reader, target) for reader in READERS.values())) if each}
    return answers.pop() if len(answers) == 1 else None


def header(operator: str, operands: list[Any], name: str, headers: list[tuple[str, str]]) -> bool | None:
    values = [value for key, value in headers if key == name]
    if operator == "exists":
        return bool(values) == operands[0]
    return fits(operator, operands, values[0]) if len(values) == 1 else None


def certificate(operator: str, operands: list[str], request: ReferenceRequest) -> bool | None:
    if request.certificate is None:
        return None
    if operator == "fingerprint":
        return hashlib.sha256(request.certificate).hexdigest() in [each.replace(":", "").lower() for each in operands]
    return base64.b64encode(hashlib.sha256(request.public_key).digest()).decode() in operands


def moment(name: str, operator: str, operands: list[str], here: datetime) -> bool:
    if name == "time_of_day":
        bound = time.fromisoformat(operands[0])
        return here.time() >= bound if operator == "after" else here.time() < bound
    if name == "day_of_week":
        return any(DAYS[here.weekday()] in days(each) for each in operands)
    if operator == "is":
        return here.date() == date.fromisoformat(operands[0])
    bound = datetime.fromisoformat(operands[0]).replace(tzinfo=here.tzinfo).astimezone(UTC)
    return here.astimezone(UTC) >= bound if operator == "after" else here.astimezone(UTC) < bound


def days(written: str) -> list[str]:
    first, dash, last = (part[:3].lower() for part in written.partition("-"))
    if not dash:
        return [first]
    start = DAYS.index(first)
    round_the_week = DAYS[start:] + DAYS[:start]
    return round_the_week[: round_the_week.index(last) + 1]
