"""Configuration report: problems as text, as JSON, and as SARIF for code review."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from foundation.errors import Problem
from foundation.version import version

# All rules, for tools that group and explain problems.
KINDS = {
    "invalid-configuration": "A setting is missing, unknown, removed, or has an invalid value.",
    "unusable-route": "A route is invalid.",
    "policy-test": "A policy test of the configuration fails.",
    "unreachable-route": "A route can never match, or allows no user.",
    "doubtful-name": "A rule matches no user of this configuration, or does not name the provider of its users.",
    "weak-setting": "A setting weakens the protection.",
    "changed-meaning": "A setting has another meaning than in an earlier release.",
    "no-answer": "A server in the configuration does not respond as required.",
}
# Without -config, a dozen settings are reported as missing; this states the cause.
NO_FILE = "no configuration file was read. Use --config FILE"
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_BOLD, _RED, _YELLOW, _GREEN, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """Report of a check. `path` is None if only the environment is used; file names are relative to `cwd`."""

    path: Path | None
    cwd: Path
    errors: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    routes: int = 0
    policy_tests: int = 0

    def by_severity(self) -> Iterator[tuple[str, Problem]]:
        yield from (("error", problem) for problem in self.errors)
        yield from (("warning", problem) for problem in self.warnings)

    def relative_name(self, file: str) -> str:
        """Return a file name relative to the working directory, as editors and code review expect; empty stays empty."""
        if not file:
            return ""
        try:
            return str((self.cwd / file).relative_to(self.cwd))
        except ValueError:
            return file


def as_text(report: ConfigReport, *, in_colour: bool = False) -> str:
    def coloured(text: str, *codes: str) -> str:
        return f"{''.join(codes)}{text}{_PLAIN}" if in_colour else text

    lines = []
    for severity, problem in report.by_severity():
        place = ":".join(str(part) for part in (report.relative_name(problem.file), problem.line, problem.column) if part) or "environment"
        key = f"{coloured(problem.key, _BOLD)}: " if problem.key else ""
        lines.append(f"{place}: {coloured(severity, _BOLD, _RED if severity == 'error' else _YELLOW)}: {key}{problem.message}")
    return "\n".join([*lines, _summary(report, coloured)])


def _summary(report: ConfigReport, coloured: Any) -> str:
    if not report.errors and not report.warnings:
        tests = f", {_pluralize(report.policy_tests, 'policy test')} passed" if report.policy_tests else ""
        return f"{coloured('The configuration has no problems', _GREEN)}: {_pluralize(report.routes, 'route')}{tests}."
    where = "" if report.path else f"; {NO_FILE}"
    return f"{_pluralize(len(report.errors), 'error')}, {_pluralize(len(report.warnings), 'warning')}{where}"


def _pluralize(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_json(report: ConfigReport) -> str:
    problems = [
        {
            "severity": severity,
            "kind": problem.rule,
            "file": report.relative_name(problem.file) or None,
            "line": problem.line,
            "column": problem.column,
            "key": problem.key,
            "message": problem.message,
        }
        for severity, problem in report.by_severity()
    ]
    counts = {"errors": len(report.errors), "warnings": len(report.warnings), "routes": report.routes, "policy_tests": report.policy_tests}
    return json.dumps({"file": str(report.path) if report.path else None, **counts, "problems": problems}, indent=2)


def as_sarif(report: ConfigReport) -> str:
    """Return SARIF 2.1.0 (OASIS) with the rules, levels and relative paths that code review requires."""
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, text in KINDS.items()]
    driver = {"name": "gate check", "version": version(), "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(report, severity, problem) for severity, problem in report.by_severity()],
    }
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(report: ConfigReport, severity: str, problem: Problem) -> dict[str, Any]:
    file = problem.file or (str(report.path) if report.path else "")
    result: dict[str, Any] = {
        "ruleId": problem.rule,
        "ruleIndex": list(KINDS).index(problem.rule),
        "level": severity,
        "message": {"text": f"{problem.key}: {problem.message}" if problem.key else problem.message},
    }
    location: dict[str, Any] = {}
    if file:
        # Code review ignores results without a line, so a problem without one refers to the complete file.
        region = {"startLine": problem.line or 1, **({"startColumn": problem.column} if problem.column else {})}
        location["physicalLocation"] = {"artifactLocation": {"uri": _uri(report.relative_name(file))}, "region": region}
    if problem.key:
        location["logicalLocations"] = [{"fullyQualifiedName": problem.key}]
    return {**result, "locations": [location]} if location else result


def _uri(name: str) -> str:
    return Path(name).as_uri() if Path(name).is_absolute() else quote(name)
