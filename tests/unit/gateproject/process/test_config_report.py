"""The same problems as text, JSON and SARIF."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema

from foundation.errors import Problem
from gateproject.process.config_report import KINDS, ConfigReport, as_json, as_sarif, as_text

ERROR = Problem("policy[3].from", "must begin with https", 12, 5, "/work/gate/config.yaml")
ELSEWHERE = Problem("policy_tests_file[0]", "fails", 2, 3, "/etc/a b.yaml", "policy-test")
IN_ENVIRONMENT = Problem("COOKIE_SECRET", "is not valid base64 (in the environment)")
WARNING = Problem("gate_debug", "is true", 4, 1, "/work/gate/config.yaml", "weak-setting")
REPORT = ConfigReport(Path("/work/gate/config.yaml"), Path("/work/gate"), (ERROR, ELSEWHERE, IN_ENVIRONMENT), (WARNING,))

# Required by GitHub's code scanning ("SARIF support for code scanning"), with the types of OASIS SARIF 2.1.0.
CODE_REVIEW = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {"items": {"required": ["id", "shortDescription"]}},
                                    "version": {"type": "string"},
                                },
                            }
                        },
                    },
                    "results": {
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "level", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {"uri": {"type": "string", "pattern": "^[!-~]+$"}},
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "additionalProperties": False,
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        },
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        }
                    },
                },
            },
        },
    },
}


def test_text_has_place_severity_key_and_message() -> None:
    assert as_text(REPORT).splitlines() == [
        "config.yaml:12:5: error: policy[3].from: must begin with https",
        "/etc/a b.yaml:2:3: error: policy_tests_file[0]: fails",
        "environment: error: COOKIE_SECRET: is not valid base64 (in the environment)",
        "config.yaml:4:1: warning: gate_debug: is true",
        "3 errors, 1 warning",
    ]


def test_missing_file_argument_is_reported() -> None:
    assert re.search("3 errors, 1 warning; .*--config FILE$", as_text(replace(REPORT, path=None)))


def test_only_colours_differ_on_a_terminal() -> None:
    coloured = as_text(REPORT, in_colour=True)
    assert "\x1b[31m" in coloured
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"):
        coloured = coloured.replace(code, "")
    assert coloured == as_text(REPORT)


def test_valid_configuration_reports_its_size() -> None:
    right = ConfigReport(None, Path("/"), (), (), routes=1, policy_tests=2)
    assert as_text(right) == "The configuration has no problems: 1 route, 2 policy tests passed."


def test_json_holds_everything() -> None:
    found = json.loads(as_json(REPORT))
    assert (found["errors"], found["warnings"]) == (3, 1)
    assert found["problems"][0] == {
        "severity": "error",
        "kind": "invalid-configuration",
        "file": "config.yaml",
        "line": 12,
        "column": 5,
        "key": "policy[3].from",
        "message": "must begin with https",
    }
    assert found["problems"][2]["file"] is None


def test_sarif_has_the_fields_required_by_code_review() -> None:
    found = json.loads(as_sarif(REPORT))
    jsonschema.validate(found, CODE_REVIEW)
    results = found["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert [place["artifactLocation"]["uri"] for place in places] == ["config.yaml", "file:///etc/a%20b.yaml", "config.yaml", "config.yaml"]
    assert places[0]["region"] == {"startLine": 12, "startColumn": 5}
    assert [result["level"] for result in results] == ["error", "error", "error", "warning"]
    rules = [rule["id"] for rule in found["runs"][0]["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in results] == [result["ruleId"] for result in results]
    assert rules == list(KINDS)


def test_without_problems_there_are_no_results() -> None:
    assert json.loads(as_sarif(ConfigReport(None, Path("/"), (), ())))["runs"][0]["results"] == []
