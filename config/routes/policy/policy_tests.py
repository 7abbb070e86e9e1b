"""Policy tests: requests with their expected decisions, written by the operator."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from config.fields.basic_types import Bool, Text, TextList, text
from config.fields.field_type import MAP, TEXT, FieldType, JsonSchema, choice_type
from config.fields.header_fields import header_map
from config.parsing.document import Document, DocumentError, KeyPath, parse_key_path
from config.parsing.parser import parse
from config.routes.policy.criteria import MCP_METHODS, fingerprint, spki_hash
from config.validation import Finding, Settings, validate
from foundation.values import WatchedFile

CERTIFICATE_STATES = ("good", "none", "untrusted")
EXPECTATIONS = ("allow", "refuse", "sign-in", "step-up", "no-route")


def _claims(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a map of claims to values")
    return dict(value)


def _route(value: Any) -> str | int:
    """Parse the name of a route, or its index in `policy`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return text(value)


@dataclass(frozen=True, slots=True)
class PresentedCertificate:
    """Client certificate of the route's CA, unless it is `untrusted`. The hashes are empty if they do not matter."""

    fingerprint: str = ""
    spki: str = ""
    is_trusted: bool = True


def _certificate(value: Any) -> PresentedCertificate | None:
    """Parse a certificate state; None for no certificate."""
    if value in CERTIFICATE_STATES:
        return None if value == "none" else PresentedCertificate(is_trusted=value == "good")
    if not isinstance(value, Mapping) or not value or not set(value) <= {"fingerprint", "spki"}:
        raise ValueError(f"must be {', '.join(CERTIFICATE_STATES)}, or a map with the fingerprint or spki of a valid certificate")
    digest, key_hash = value.get("fingerprint"), value.get("spki")
    return PresentedCertificate("" if digest is None else fingerprint(digest), "" if key_hash is None else spki_hash(key_hash))


def _address(value: Any) -> str:
    try:
        return str(ipaddress.ip_address(value)) if isinstance(value, str) else text(value)
    except ValueError:
        raise ValueError("must be an IP address such as 203.0.113.7") from None


_HASHES: JsonSchema = {
    "fingerprint": {"type": "string", "pattern": "^([0-9A-Fa-f]{2}:?){32}$"},
    "spki": {"type": "string", "pattern": "^[A-Za-z0-9+/]{43}=$"},
}
CERTIFICATE: JsonSchema = {
    "anyOf": [
        {"type": "string", "enum": list(CERTIFICATE_STATES)},
        {"type": "object", "properties": _HASHES, "additionalProperties": False, "minProperties": 1},
    ]
}


def _check_user_required(test: "PolicyTest") -> Iterator[Finding]:
    for key in ("groups", "claims", "granted", "granted_tools", "client"):
        if getattr(test, key) and test.user is None:
            yield (key,), "describes a user. Set `user`"
    if test.scopes and test.client is None:
        yield ("scopes",), "describes the access token of a client. Set `client`"


def _check_route_expectation(test: "PolicyTest") -> Iterator[Finding]:
    if test.route is not None and test.expect == "no-route":
        yield (("route",), "cannot be combined with `expect: no-route`")


def _check_message(message: "PolicyTestMessage") -> Iterator[Finding]:
    for key, methods in MCP_METHODS.items():
        if getattr(message, key) is None:
            continue
        if message.method is not None and message.method not in methods:
            yield (key,), f"is used by {', '.join(methods)} only"
    if sum(getattr(message, key) is not None for key in MCP_METHODS) > 1:
        yield (), "has one of tool, prompt and resource"
    if all(getattr(message, key) is None for key in ("method", *MCP_METHODS)):
        yield (), "needs a method, tool, prompt or resource"


class PolicyTestMessage(Settings):
    """MCP message of a policy test."""

    RULES = (_check_message,)

    method: Text | None = Field(
        None,
        description="Method of the message.",
        examples=["tools/list"],
        json_schema_extra={"when_unset": "`tools/call`, `prompts/get` or `resources/read`"},
    )
    tool: Text | None = Field(None, description="Tool that the message calls.", examples=["delete_repo"])
    prompt: Text | None = Field(None, description="Prompt that the message uses.", examples=["review"])
    resource: Text | None = Field(None, description="URI of the resource that the message uses.", examples=["docs://public/readme"])


class PolicyTest(Settings):
    """One entry of `policy_tests`.

    `user` is an email address, `provider/subject` or a bare subject; without it, the request is anonymous.
    """

    RULES = (_check_user_required, _check_route_expectation)

    name: Text | None = Field(None, description="Name of the test in reports.", examples=["engineers reach the wiki"])
    url: Text = Field(description="Requested URL, as in the browser.", examples=["https://app.example.com/path"])
    method: Text = Field("GET", description="HTTP method of the request.", examples=["POST"])
    user: Text | None = Field(
        None,
        description="User of the request: e-mail address, `provider/subject` or subject. Empty means not signed in.",
        examples=["alice@example.com"],
    )
    groups: TextList = Field((), description="Ids of the user's groups.", examples=[["engineering"]])
    claims: Annotated[Mapping[str, Any], FieldType("map of claims to values", _claims, {"type": "object"})] = Field(
        default_factory=dict, description="Claims of the user.", examples=[{"department": "research"}]
    )
    client: Text | None = Field(
        None,
        description="OAuth client that acts for the user: its `client_id`, or the domain of its client ID metadata document.",
        examples=["claude.ai"],
        json_schema_extra={"when_unset": "a browser, or a service account's own token"},
    )
    scopes: TextList = Field((), description="Scopes of the client's access token.", examples=[["repositories:read"]])
    granted: Bool = Field(False, description="Whether the user has temporary access to the route.", examples=[True])
    granted_tools: TextList = Field(
        (), description="Tools of MCP servers to which the user has temporary access, one at a time.", examples=[["delete_repo"]]
    )
    source_ip: Annotated[str, FieldType("IP address", _address, TEXT)] | None = Field(
        None, description="Client address. Empty means unknown.", examples=["203.0.113.7"]
    )
    headers: Annotated[Mapping[str, str], FieldType("map string-to-string", header_map, MAP)] = Field(
        default_factory=dict, description="Headers of the request.", examples=[{"X-Api-Version": "2"}]
    )
    client_certificate: Annotated[PresentedCertificate | None, FieldType("string or map", _certificate, CERTIFICATE)] = Field(
        PresentedCertificate(),
        description="Client certificate, where the route requires one: `good` (issued by the expected CA), `none`, "
        "`untrusted`, or a map with the `fingerprint` or `spki` of a good one.",
        examples=["none"],
        json_schema_extra={"when_unset": "`good`"},
    )
    mcp: PolicyTestMessage | None = Field(
        None, description="MCP message of the request, for a route with `mcp`. The request is a POST.", examples=[{"tool": "delete_repo"}]
    )
    expect: Annotated[str, choice_type(*EXPECTATIONS)] = Field(
        description="Expected result. `no-route` means that no route matches.", examples=["allow"]
    )
    route: Annotated[str | int, FieldType("string or number", _route, {"type": ["string", "integer"]})] | None = Field(
        None, description="Route that must match: its name, or its index in `policy` from 0.", examples=["wiki"]
    )


@dataclass(frozen=True, slots=True)
class PolicyTestFile:
    """Parsed `policy_tests_file`: the valid tests, and the findings of the others."""

    tests: tuple[tuple[KeyPath, PolicyTest], ...]
    findings: tuple[Finding, ...]
    document: Document


@lru_cache(maxsize=1)
def read_policy_test_file(file: WatchedFile) -> PolicyTestFile:
    """Parse a list of tests, or a map with the one key `policy_tests`. Key paths of findings start with `policy_tests_file`."""
    try:
        document = parse(file.content, file.path.suffix)
    except DocumentError as error:
        place = "" if error.line is None else f" (line {error.line})"
        return PolicyTestFile((), ((("policy_tests_file",), f"{file.path} {error}{place}"),), Document())
    base: KeyPath = ("policy_tests_file",)
    value = document.value
    if isinstance(value, dict) and set(value) == {"policy_tests"}:
        value, base = value["policy_tests"], ("policy_tests_file", "policy_tests")
    if not isinstance(value, list):
        return PolicyTestFile((), ((base, f"{file.path} must contain a list of tests"),), document)
    tests: list[tuple[KeyPath, PolicyTest]] = []
    findings: list[Finding] = [((*base, *parse_key_path(problem.key)), problem.message) for problem in document.problems]
    for index, raw in enumerate(value):
        test, found = validate(PolicyTest, raw, {})
        findings += [((*base, index, *path), message) for path, message, *_ in found]
        tests += [((*base, index), test)] if test is not None else []
    return PolicyTestFile(tuple(tests), tuple(findings), document)
