"""Policy tests that are made of Authelia's rules: what they expect is what Authelia did, and gate does the same."""

from pathlib import Path
from typing import Any

import yaml

from gateproject.management.commands.importconfig import imported

CONTROL: dict[str, Any] = {
    "default_policy": "deny",
    "rules": [
        {"domain": "open.example.com", "policy": "bypass"},
        {"domain": "app.example.com", "policy": "bypass", "resources": ["^/api([/?].*)?$"]},
        {"domain": "app.example.com", "policy": "two_factor", "subject": ["group:admins", ["group:dev", "user:john"]]},
        {"domain": "*.example.com", "policy": "one_factor", "networks": ["10.0.0.0/8"]},
    ],
}


def imported_tests(directory: Path, control: dict[str, Any]) -> Any:
    (directory / "authelia.yml").write_text(yaml.safe_dump({"access_control": control}))
    return imported(directory / "authelia.yml")


def test_each_rule_has_tests_and_gate_passes_them_all(tmp_path: Path) -> None:
    converted = imported_tests(tmp_path, CONTROL)
    found = {(test["url"], test.get("user", ""), tuple(test.get("groups", ())), test["expect"]) for test in converted.tests}
    assert {
        ("https://open.example.com/", "", (), "allow"),
        ("https://app.example.com/api", "", (), "allow"),
        ("https://app.example.com/", "", (), "sign-in"),
        ("https://app.example.com/", "someone", ("admins",), "allow"),
        ("https://app.example.com/", "someone", ("admins",), "refuse"),  # with one factor
        ("https://app.example.com/", "someone", ("dev",), "allow"),
        ("https://app.example.com/", "someone", (), "refuse"),
        ("https://any.example.com/", "someone", (), "allow"),
    } <= found
    assert not [note for route in converted.routes for note in route.notes() if " fails" in note.text]


def test_closed_path_is_a_note_and_no_test(tmp_path: Path) -> None:
    control = {"rules": [{"domain": "app.example.com", "policy": "bypass", "resources": ["^/exact$"]}]}
    converted = imported_tests(tmp_path, control)
    assert not [test for test in converted.tests if test["expect"] == "allow"]
    assert [note.mark for note in converted.routes[0].notes() if "expected allow" in note.text] == [
        "CHECK"
    ] * 2  # for an anonymous request, and for a user
