"""Criteria of the policy language on the request."""

import re
from typing import Any

import pytest

from authorize.policy.criterion import EvaluationContext
from authorize.policy.policy_request import ClientCertificate
from foundation.errors import BadRequest
from tests.unit.authorize.builders import NOW, request
from tests.unit.authorize.policy.policy_texts import answer, criterion

CERTIFICATE = ClientCertificate("ab" * 32, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "CN=ann")


@pytest.mark.parametrize(
    ("written", "address", "expected"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        (["10.0.0.0/8", "192.0.2.7"], "192.0.2.7", True),
        ({"cidr": "10.0.0.0/8"}, "::ffff:10.1.2.3", True),
        ({"not_cidr": "10.0.0.0/8"}, "11.1.2.3", True),
        ({"not_cidr": "10.0.0.0/8"}, "", None),
        ({"not_cidr": "10.0.0.0/8"}, "unknown", None),
        ("2001:db8::/32", "2001:db8::1", True),
        ("0.0.0.0/0", "2001:db8::1", False),
    ],
)
def test_addresses(written: Any, address: str, expected: bool | None) -> None:
    assert answer({"source_ip": written}, source_ip=address) is expected


@pytest.mark.parametrize(
    ("written", "path", "expected"),
    [
        ({"starts_with": "/admin"}, "/admin/x", True),
        ({"starts_with": "/admin"}, "/public", False),
        ({"starts_with": "/admin"}, "//admin", None),
        ({"not_starts_with": "/admin"}, "/%2Fadmin", None),
        ({"not_starts_with": "/admin"}, "/;a/admin", None),
        ({"starts_with": "/"}, "//admin", True),
        ("/a b", "/a%20b", True),
        ("/a%20b", "/a%20b", True),
        ("/%61", "/a", True),
        ({"matches": "/item/[0-9]+"}, "/item/42", True),
        ({"matches": "/item"}, "/item/42", False),
        ({"not_matches": "/admin.*"}, "//admin", None),
        ({"not_contains": "admin"}, "/x/y", True),
        ("/users", "/users;%2Fx", None),
        ({"not_is": "/users"}, "/users;%2Fx", None),
        ({"not_matches": r".*\.(css|js)"}, "/users;x.css", None),
        ({"matches": r".*\.(css|js)"}, "/users%3Fx.css", None),
        ({"starts_with": "/users"}, "/users;%2Fx", True),
        ({"ends_with": "/x"}, "/a%2Fx", None),
        ({"not_starts_with": "/admin"}, "//x/admin", None),
        ("/a@b", "/a%40b", None),
        ("/a%40b", "/a@b", None),
        ("/a%40b", "/a%40b", True),
        ({"matches": "/a%2F[a-z]+"}, "/a%2Fb", True),
        ({"matches": "/a%2F[a-z]+"}, "/a/b", False),
    ],
)
def test_paths_are_compared_in_every_way_an_upstream_may_read_them(written: Any, path: str, expected: bool | None) -> None:
    assert answer({"http_path": written}, target=path) is expected


@pytest.mark.parametrize(
    ("written", "headers", "expected"),
    [
        ("prod", [(b"x-env", b"prod")], True),
        ("prod", [(b"x-env", b"Prod")], False),
        ({"not_is": "prod"}, [], None),
        ({"not_is": "prod"}, [(b"x-env", b"test"), (b"x-env", b"prod")], None),
        ("prod", [(b"x-env", b"prod"), (b"x-env", b"prod")], None),
        ({"not_is": "prod"}, [(b"x-env", b"\xff")], None),
        ({"exists": False}, [(b"x-other", b"prod")], True),
        ({"exists": True}, [(b"x-env", b"")], True),
    ],
)
def test_headers(written: Any, headers: list[tuple[bytes, bytes]], expected: bool | None) -> None:
    assert answer({"http_header/X-Env": written}, headers=headers) is expected


@pytest.mark.parametrize("operator", ["starts_with", "not_starts_with", "contains", "not_is"])
def test_a_path_of_too_many_readings_is_unknown_to_every_comparison(operator: str) -> None:
    path = "/users/" + ";x" * 33
    assert answer({"http_path": {operator: "/users/"}}, target=path) is None
    assert answer({"http_path": {operator: "/"}}, target=path) is None
    compared = criterion({"http_path": {operator: "/"}}).description.actual
    assert compared(EvaluationContext(request(target=path), None, NOW)).endswith("which is ambiguous")


def test_an_explanation_names_the_reading_that_differs() -> None:
    compared = criterion({"http_path": {"starts_with": "/users/"}}).description.actual
    assert compared(EvaluationContext(request("/users/1"), None, NOW)) == "/users/1"
    assert re.fullmatch("/users;%2Fx, .* as /users/x", compared(EvaluationContext(request("/users;%2Fx"), None, NOW)))


def test_secret_header_is_not_displayed() -> None:
    case = EvaluationContext(request(headers=[(b"x-api-key", b"s3cret")]), None, NOW)
    assert "s3cret" not in criterion({"http_header/X-Api-Key": "x"}).description.actual(case)


def test_methods_have_their_case() -> None:
    assert answer({"http_method": ["GET", "HEAD"]}, method="HEAD") is True
    with pytest.raises(BadRequest, match="upper-case"):
        answer({"http_method": "GET"}, method="get")
    assert answer({"http_method": {"not_is": "GET"}}, method="") is None


@pytest.mark.parametrize(
    ("written", "certificate", "expected"),
    [
        ({"fingerprint": ":".join(["AB"] * 32)}, CERTIFICATE, True),
        ({"fingerprint": "cd" * 32}, CERTIFICATE, False),
        ({"not_fingerprint": "cd" * 32}, CERTIFICATE, True),
        ({"not_fingerprint": "cd" * 32}, None, None),
        ({"spki": ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]}, CERTIFICATE, True),
    ],
)
def test_certificates(written: Any, certificate: ClientCertificate | None, expected: bool | None) -> None:
    assert answer({"client_certificate": written}, client_certificate=certificate) is expected
