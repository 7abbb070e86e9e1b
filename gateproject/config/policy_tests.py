"""What do the operator's own examples of the policy say: who asks for what, and what must come of it?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from gateproject.config.documents import parse
from gateproject.config.fields import Text, TextList, text
from gateproject.config.places import Document, DocumentError, KeyPath, path_of
from gateproject.config.reader import Reader, one_of
from gateproject.config.types import WatchedFile
from gateproject.config.validation import Finding, Settings, validate

EXPECTATIONS = ("allow", "refuse", "sign-in", "no-route")


def _claims(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a map of claims to values")
    return dict(value)


def _route(value: Any) -> str | int:
    """The name of a route, or its index in `policy`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return text(value)


def _a_person_has_a_name(test: Any) -> Iterator[Finding]:
    for key in ("groups", "claims"):
        if getattr(test, key) and test.user is None:
            yield (key,), "describes a person: say who with `user`"


def _only_a_match_has_a_route(test: Any) -> Iterator[Finding]:
    if test.route is not None and test.expect == "no-route":
        yield (("route",), "can't be given where no route is expected")


class PolicyTest(Settings):
    """One entry of `policy_tests`.  `user` is an e-mail address, `provider/subject` or a bare subject; nobody where it is not given."""

    RULES = (_a_person_has_a_name, _only_a_match_has_a_route)

    name: Text | None = Field(None, description="What the test shows, for the report.", examples=["engineers reach the wiki"])
    url: Text = Field(description="What is asked for, as in a browser.", examples=["https://app.example.com/path"])
    method: Text = Field("GET", description="The method of the request.", examples=["POST"])
    user: Text | None = Field(
        None,
        description="Who asks: an e-mail address, `provider/subject` or a bare subject; nobody is signed in where it is not given.",
        examples=["alice@example.com"],
    )
    groups: TextList = Field((), description="The ids of that person's groups.", examples=[["engineering"]])
    claims: Annotated[Mapping[str, Any], Reader("map of claims to values", _claims, {"type": "object"})] = Field(
        default_factory=dict, description="What the provider says about that person.", examples=[{"department": "research"}]
    )
    expect: Annotated[str, one_of(*EXPECTATIONS)] = Field(
        description="What must come of it; `no-route` where no route matches.", examples=["allow"]
    )
    route: Annotated[str | int, Reader("string or number", _route, {"type": ["string", "integer"]})] | None = Field(
        None, description="The name of the route that must match, or its index in `policy`, from 0.", examples=["wiki"]
    )


@dataclass(frozen=True, slots=True)
class TestsFile:
    """`policy_tests_file` as it was read: the tests that can be run, and what is wrong with the others."""

    tests: tuple[tuple[KeyPath, PolicyTest], ...]
    findings: tuple[Finding, ...]
    document: Document


@lru_cache(maxsize=1)
def read_tests_file(file: WatchedFile) -> TestsFile:
    """A list of tests, or a map with the one key `policy_tests`.  Paths of findings begin with `policy_tests_file`."""
    try:
        document = parse(file.content, file.path.suffix)
    except DocumentError as error:
        place = "" if error.line is None else f" (line {error.line})"
        return TestsFile((), ((("policy_tests_file",), f"{file.path} {error}{place}"),), Document())
    base: KeyPath = ("policy_tests_file",)
    value = document.value
    if isinstance(value, dict) and set(value) == {"policy_tests"}:
        value, base = value["policy_tests"], ("policy_tests_file", "policy_tests")
    if not isinstance(value, list):
        return TestsFile((), ((base, f"{file.path} must hold a list of tests"),), document)
    tests: list[tuple[KeyPath, PolicyTest]] = []
    findings: list[Finding] = [((*base, *path_of(problem.key)), problem.message) for problem in document.problems]
    for index, raw in enumerate(value):
        test, found = validate(PolicyTest, raw, {})
        findings += [((*base, index, *path), message) for path, message, *_ in found]
        tests += [((*base, index), test)] if test is not None else []
    return TestsFile(tuple(tests), tuple(findings), document)
