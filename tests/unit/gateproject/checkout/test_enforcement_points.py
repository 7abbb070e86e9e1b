"""Markers of enforcement points are read with the function or class after them, and refused where none is."""

import pytest

from gateproject.checkout.enforcement_points import EnforcementPoint, enforcement_points_page, points_in

SOURCE = """
# enforcement-point: Requests: Host normalization
@cache
def host():
    ...


class Outer:
    # enforcement-point: Identity: Session cookie
    async def inner(self):
        ...
"""


def test_marker_names_the_definition_after_it() -> None:
    assert list(points_in(SOURCE, "a.py")) == [
        EnforcementPoint("Requests", "Host normalization", "a.py", "host"),
        EnforcementPoint("Identity", "Session cookie", "a.py", "Outer.inner"),
    ]


def test_page_lists_rules_by_section() -> None:
    page = enforcement_points_page(points_in(SOURCE, "a.py"))
    requests, identity = page.index("## Requests\n"), page.index("## Identity\n")
    assert (
        requests
        < page.index("| Host normalization | `a.py` `host` |\n")
        < identity
        < page.index("| Session cookie | `a.py` `Outer.inner` |\n")
    )


@pytest.mark.parametrize(
    "source",
    [
        "# enforcement-point: Requests: Host normalization\nVALUE = 1\n",
        "# enforcement-point: Requests: Host normalization\n\ndef host():\n    ...\n",
        "# enforcement-point: Unknown section: Host normalization\ndef host():\n    ...\n",
        "# enforcement-point: Requests: Host normalization\n",
    ],
)
def test_marker_without_section_or_definition_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"a\.py:1"):
        list(points_in(source, "a.py"))
