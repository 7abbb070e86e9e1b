"""Routes, callers and requests for the tests of authorize, each as short as the test needs."""

from typing import Any

from authorize.decision_log.decision_log import DecisionLog, DecisionRecorder
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest, parse_request
from authorize.policy.route_table import RouteTable
from config.routes.route import Route
from foundation.email_address import canonical_email

HTTPS = frozenset({443})
NOW = 1_800_000_000.0  # Friday 2027-01-15 08:00:00 UTC


def make_route(host: str = "app.example.com", **keys: Any) -> Route:
    return Route.model_validate({"from": f"https://{host}", "to": "http://upstream.example.com", **keys})


def table(*routes: Route, default_ports: frozenset[int] = HTTPS, client_ca: bytes | None = None) -> RouteTable:
    return RouteTable.build(routes, default_ports, client_ca=client_ca)


def request(target: str | bytes = "/", host: str = "app.example.com", method: str = "GET", **facts: Any) -> PolicyRequest:
    raw = target if isinstance(target, bytes) else target.encode()
    path, _, query = raw.partition(b"?")
    return parse_request(method, host.encode(), path, query, HTTPS, **facts)


def user(email: str = "ann@corp.com", **facts: Any) -> Identity:
    subject = facts.pop("subject", "1")
    provider = facts.pop("provider", "oidc")
    values = {
        "session_id": "s1", "user_id": f"{provider}/{subject}", "subject": subject, "provider": provider, "expires_at": 2000.0,
        "issued_at": 1000.0, "email": email, "verified_email": canonical_email(email),
    }  # fmt: skip
    return Identity(**{**values, **facts})


def recorder() -> DecisionRecorder:
    """One that keeps nothing."""
    return DecisionRecorder(DecisionLog(lambda entries: None), lambda session_id, now, host: None)
