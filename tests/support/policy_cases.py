"""Random routes, users and requests from a small vocabulary, so that rules often match."""

import base64
import hashlib
from random import Random
from typing import Any

from tests.support.policy_reference import ABSENT, ReferenceRequest, ReferenceUser

EMAILS = ["ann@corp.com", "Ann@Corp.com", "bob@corp.com", "eve@evil-corp.com", "ann@sub.corp.com", "x@a.org"]
DOMAINS = ["corp.com", "evil-corp.com", "sub.corp.com", "a.org", "CORP.com"]
SUBJECTS = ["1", "2", "ann@corp.com", "corp"]
GROUPS = ["g1", "g2", "payroll", "audit", "pay", "1001"]
CLAIMS = ["team", "realm.role", r"realm\.role", "realm", "level", "acr"]
VALUES = ["a", "b", "ab", "1", 1, 0, True, False, 2.5]
# Values that providers send in addition to strings, numbers and booleans.
ODD = [None, {}, {"a": "b"}, {"role": {"name": "a"}}, [], ["a"]]
TEXTS = ["a", "b", "ab", "g", "pay", "1", "corp"]
PATTERNS = ["a.*", ".*b", "[ab]+", "g[0-9]", ".*", "(a|b)", ".*corp.*"]
NETWORKS = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.7", "2001:db8::/32", "0.0.0.0/0"]
ADDRESSES = ["10.1.2.3", "10.9.9.9", "192.0.2.7", "2001:db8::1", "203.0.113.9", ""]
METHODS = ["GET", "HEAD", "POST", "DELETE"]
PATHS = ["/", "/admin", "/admin/x", "//admin", "/%2Fadmin", "/a;b/admin", "/administrator", "/a%20b", "/x/admin", "/%41dmin"]
PATHS += ["/admin;%2Fx", "/x;y/admin", "//x/admin", "/admin%3Fx", "/%252Fadmin", "/x%2Fadmin", "/admin;v=1"]
CANONICAL = [path.replace("%41", "A") for path in PATHS]
PATH_PATTERNS = ["/admin.*", ".*/admin", "/[a-z]*"]
HEADERS = ["x-env", "user-agent"]
TIMES = ["00:00", "06:30", "08:00", "12:00", "18:00", "23:59"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]
DAYS = ["mon", "Tuesday", "fri", "mon-fri", "sat-sun", "fri-mon", "sun"]
DATES = ["2027-01-14", "2027-01-15", "2027-01-16", "2027-01-15T08:00", "2027-03-28"]
AGES = ["10m", "1h", "8h"]
CRITERIA = ["email", "domain", "user", "groups", "claim", "acr", "session_age", "source_ip", "http_method", "http_path", "http_header"]
CRITERIA += ["time_of_day", "day_of_week", "date", "client_certificate", "granted"]
KEYS = [b"key one", b"key two"]
CERTIFICATES = [b"certificate one", b"certificate two"]
NOW = 1_800_000_000  # Friday 2027-01-15 08:00 UTC


class Cases:
    def __init__(self, seed: int):
        self._random = Random(seed)

    def route(self) -> dict[str, Any]:
        route: dict[str, Any] = {}
        for key, chance, made in (
            ("allowed_users", 0.2, lambda: self._some([*EMAILS, *SUBJECTS, "oidc/1", "oidc/ann@corp.com"])),
            ("allowed_groups", 0.2, lambda: self._some(GROUPS)),
            ("allowed_domains", 0.2, lambda: self._some(DOMAINS)),
            ("allowed_idp_claims", 0.2, lambda: {self._one(CLAIMS): self._some(VALUES)}),
            ("cors_allow_preflight", 0.2, lambda: True),
        ):
            if self._random.random() < chance:
                route[key] = made()
        if self._random.random() < 0.85:
            route["policy"] = [{self._one(["allow", "allow", "deny"]): self.expression(0)} for _ in range(self._random.randint(1, 3))]
        # With these, allow lists would have no effect, which is an error.
        lets_in = any(key.startswith("allowed_") for key in route) or any("allow" in block for block in route.get("policy", ()))
        if not lets_in and self._random.random() < 0.6:
            route[self._one(["allow_any_authenticated_user", "allow_public_unauthenticated_access"])] = True
        return route

    def expression(self, depth: int) -> dict[str, Any]:
        if depth < 3 and self._random.random() < 0.45:
            key = self._one(["and", "or", "nor", "not"])
            return {
                key: self.expression(depth + 1) if key == "not" else [self.expression(depth + 1) for _ in range(self._random.randint(1, 3))]
            }
        key = self._one(CRITERIA)
        return getattr(self, f"_{key}")()

    def request(self) -> ReferenceRequest:
        now = NOW + self._random.randint(-90, 90) * 3600 + self._one([0, 0, 1, -1, 1800])
        preflight = self._random.random() < 0.1
        return ReferenceRequest(
            now=float(now),
            user=self._random_user(now) if self._random.random() < 0.75 else None,
            ip=self._one(ADDRESSES),
            method="OPTIONS" if preflight else self._one([*METHODS, ""]),
            path=self._one(CANONICAL),
            headers=[(self._one(HEADERS), self._one(TEXTS)) for _ in range(self._random.randint(0, 3))],
            certificate=self._one([*CERTIFICATES, None]),
            public_key=self._one(KEYS),
            is_preflight=preflight,
        )

    def _random_user(self, now: int) -> ReferenceUser:
        return ReferenceUser(
            email=self._one([*(email.lower() for email in EMAILS), ""]),
            provider="oidc",
            subject=self._one(SUBJECTS),
            groups=set(self._some(GROUPS, minimum=0)),
            group_names=set(self._some(["payroll", "audit"], minimum=0)) if self._random.random() < 0.3 else set(),
            claims=self._claims(),
            groups_claim=self._one([ABSENT, ABSENT, self._value([*GROUPS, 1001, True, ""], "pay")]),
            is_granted=self._random.random() < 0.5,
            issued=float(self._one([0, now - 60, now - 600, now - 3600, now - 5 * 3600, now + 30, now + 3600])),
        )

    def _claims(self) -> dict[str, Any]:
        """Return claims as a provider sends them: `realm.role` is a role in a realm, and the name of another claim."""
        names = self._some(["team", "realm", "realm.role", "level", "acr"], minimum=0)
        claims = {name: self._value(["a", "b", 1] if name == "acr" else VALUES, "a") for name in names}
        if "realm" in claims and self._random.random() < 0.7:
            claims["realm"] = {"role": self._value(VALUES, "b")}
        return claims

    def _value(self, values: list[Any], one: Any) -> Any:
        """Return one value or a list, sometimes with values that no rule can compare."""
        odd = self._random.random() < 0.3
        if self._random.random() < 0.4:
            return self._one(ODD if odd else [one, *values])
        return [*self._some(values, minimum=0 if odd else 1), *(self._some(ODD) if odd else [])]

    def _text(self, key: str, texts: list[str], patterns: list[str], operators: list[str], ends: list[str] | None = None) -> dict[str, Any]:
        operator = self._one(operators)
        if operator == "in" and self._random.random() < 0.4:
            return {key: self._some(texts)}
        if operator == "is" and self._random.random() < 0.4:
            return {key: self._one(texts)}
        chosen = patterns if operator == "matches" else ends if operator == "ends_with" and ends else texts
        operand = self._one(chosen) if operator == "is" or (operator != "in" and self._random.random() < 0.5) else self._some(chosen)
        found = {("not_" if self._random.random() < 0.3 else "") + operator: operand}
        if self._random.random() < 0.1:
            found["not_in"] = self._some(texts)
        return {key: found}

    ALL_TEXT = ["is", "in", "starts_with", "ends_with", "contains", "matches"]

    def _email(self) -> dict[str, Any]:
        operator = self._one(self.ALL_TEXT)
        texts = EMAILS if operator in ("is", "in") else ["ann", "ann@", "corp"]
        found = self._text("email", texts, [".*@corp\\.com", "ann@.*"], [operator], ["@corp.com", ".corp.com", "@A.org"])
        if isinstance(found["email"], dict) and "not_in" in found["email"] and operator != "in":
            found["email"]["not_in"] = self._some(EMAILS)
        return found

    def _domain(self) -> dict[str, Any]:
        return self._text("domain", DOMAINS, [".*corp.*", "a\\.org"], ["is", "in", "ends_with", "matches"], [".corp.com", ".org"])

    def _user(self) -> dict[str, Any]:
        return self._text("user", [*EMAILS, *SUBJECTS, "oidc/1", "oidc/ann@corp.com", "google/1"], [], ["is", "in"])

    def _groups(self) -> dict[str, Any]:
        return self._text("groups", GROUPS, PATTERNS, ["is", "in", "starts_with", "ends_with", "matches"])

    def _claim(self) -> dict[str, Any]:
        key = f"claim/{self._one(CLAIMS)}"
        choice = self._random.random()
        if choice < 0.15:
            return {key: {"exists": self._one([True, False])}}
        return self._text(key, VALUES, [], ["is", "in"]) if choice < 0.6 else self._text(key, TEXTS, PATTERNS, self.ALL_TEXT)

    def _acr(self) -> dict[str, Any]:
        return self._text("acr", ["a", "b", "c"], [], ["is", "in"])

    def _session_age(self) -> dict[str, Any]:
        return {"session_age": self._one([self._one(AGES), {self._one(["at_most", "at_least"]): self._one(AGES)}])}

    def _granted(self) -> dict[str, Any]:
        return {"granted": self._one([True, {"is": True}])}

    def _source_ip(self) -> dict[str, Any]:
        return self._text("source_ip", NETWORKS, [], ["is", "in", "cidr"])

    def _http_method(self) -> dict[str, Any]:
        return self._text("http_method", METHODS, [], ["is", "in"])

    def _http_path(self) -> dict[str, Any]:
        return self._text("http_path", ["/admin", "/", "/a%20b", "/admin/x", "/x"], PATH_PATTERNS, self.ALL_TEXT)

    def _http_header(self) -> dict[str, Any]:
        key = f"http_header/{self._one(['X-Env', 'user-agent'])}"
        return (
            {key: {"exists": self._one([True, False])}} if self._random.random() < 0.2 else self._text(key, TEXTS, PATTERNS, self.ALL_TEXT)
        )

    def _time_of_day(self) -> dict[str, Any]:
        first, last = self._random.sample(TIMES, 2)
        found = self._one([{"after": first, "before": last}, {"after": first}, {"before": last}])
        return {"time_of_day": self._in_zone(found)}

    def _day_of_week(self) -> dict[str, Any]:
        return self._text("day_of_week", DAYS, [], ["is", "in"])

    def _date(self) -> dict[str, Any]:
        first, last = sorted(self._random.sample(DATES, 2))
        found = self._one(
            [
                {"after": first},
                {"before": last},
                {"is": first[:10]},
                {"not_is": last[:10]},
                {"after": first[:10] + "T00:00", "before": last + "T09:00" if len(last) == 10 else "2027-12-01"},
            ]
        )
        return {"date": self._in_zone(found)}

    def _client_certificate(self) -> dict[str, Any]:
        operator = self._one(["fingerprint", "spki"])
        if operator == "fingerprint":
            operand = hashlib.sha256(self._one(CERTIFICATES)).hexdigest()
            operand = operand if self._random.random() < 0.5 else ":".join(operand.upper()[at : at + 2] for at in range(0, 64, 2))
        else:
            operand = base64.b64encode(hashlib.sha256(self._one(KEYS)).digest()).decode()
        return {"client_certificate": {("not_" if self._random.random() < 0.3 else "") + operator: self._one([operand, [operand]])}}

    def _in_zone(self, found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "zone": self._one(ZONES)} if self._random.random() < 0.6 else found

    def _one(self, choices: list[Any]) -> Any:
        return self._random.choice(choices)

    def _some(self, choices: list[Any], *, minimum: int = 1) -> list[Any]:
        return self._random.sample(choices, self._random.randint(minimum, min(3, len(choices))))
