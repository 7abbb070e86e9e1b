"""Configuration loader: defaults < file < environment -> Options, or every problem at once."""

import base64
import binascii
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from config import removed_keys
from config.fields.setting_files import MAX_CONFIG_BYTES, SettingFiles, read_capped
from config.file_forms import FileContents, read_contents
from config.inspect.source_map import SourceMap
from config.options import Options
from config.parsing.document import Document, DocumentError, KeyPath, format_key_path, printable_path
from config.parsing.parser import parse
from config.routes.policy.policy_tests import read_policy_test_file
from config.routes.route import Route
from config.routes.route_cache import RouteCache
from config.settings.identity_providers import single_provider_placeholders
from config.settings.rpc_settings import unneeded_settings
from config.validation import Finding, Rule, Settings, find_violations, valid_subset, validate
from foundation.errors import ConfigError, Problem

ENVIRONMENT_KEYS = (*Options.attributes(), *removed_keys.SETTINGS)
EXTENSION = "x-"  # begins keys at the top that are the operator's: a place for YAML anchors
MAX_PROBLEMS = 1_000  # nobody reads more, and each takes time to explain


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """Check by somebody who knows more than this package does.  What it finds forbids a start, or only `warns`."""

    kind: str
    rule: Rule
    warns: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Configuration after its checks.  `options` is None where there are errors.

    `files` are those that settings and routes name, whether they could be read or not; routes that were known name none.  `places`
    are those of the values, where there are no errors.
    """

    options: Options | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    files: frozenset[Path] = frozenset()
    source_map: SourceMap = field(default_factory=SourceMap)


@dataclass(frozen=True, slots=True)
class _ReadConfig:
    """What was read, and from where; `file` is empty where there is none."""

    document: Document
    file: str
    directory: Path


def find_config(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Path of the configuration: `GATE_CONFIG`, else `config.yaml` in the working directory, else None: the environment alone."""
    if named := environ.get("GATE_CONFIG"):
        return cwd / named
    path = cwd / "config.yaml"
    # Also a dangling or unreadable one: leaving it out silently would start something else than was meant.
    return path if os.path.lexists(path) else None


def load_options(path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = ()) -> Options:
    """Options; ConfigError with every problem that can be told now."""
    return require_options(check_configuration(path, environ, [check for check in checks if not check.warns]))


def check_content(
    content: bytes, extension: str, environ: Mapping[str, str], directory: Path, checks: Sequence[ConfigCheck] = ()
) -> CheckResult:
    """Check as of `check_configuration`, for the bytes of a configuration file in `directory`."""
    return _checked(lambda: _ReadConfig(parse(content, extension), "", directory), environ, checks)


def check_configuration(
    path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = (), route_cache: RouteCache | None = None
) -> CheckResult:
    """Check of a configuration.  Never raises, whatever the file is.  `known` routes are taken over, and are those of now afterwards."""
    return _checked(lambda: _read(path), environ, checks, "" if path is None else printable_path(path), route_cache)


def require_options(checked: CheckResult) -> Options:
    """Options of a checked configuration; ConfigError."""
    if checked.options is None:
        raise ConfigError(list(checked.errors))
    return checked.options


def _read(path: Path | None) -> _ReadConfig:
    if path is None:
        return _ReadConfig(Document({}), "", Path.cwd())
    document = parse(read_capped(path, MAX_CONFIG_BYTES), path.suffix)
    return _ReadConfig(document, printable_path(path), path.absolute().parent)


def _checked(
    read: Callable[[], _ReadConfig],
    environ: Mapping[str, str],
    checks: Sequence[ConfigCheck],
    file: str = "",
    known: RouteCache | None = None,
) -> CheckResult:
    try:
        source = read()
    except DocumentError as error:
        return CheckResult(None, (Problem("", f"the configuration {error}", error.line, error.column, file),))
    except ValueError as error:
        return CheckResult(None, (Problem("", f"cannot load the configuration: {error}", file=file),))
    in_file = {} if source.document.value is None else source.document.value
    if not isinstance(in_file, dict):
        return CheckResult(None, (Problem("", "the configuration must be a map of settings", 1, 1, file),))
    settings = {key: value for key, value in in_file.items() if not key.startswith(EXTENSION)}
    return _ConfigChecker(source, environ, known).check(settings, checks)


class _ConfigChecker:
    def __init__(self, source: _ReadConfig, environ: Mapping[str, str], known: RouteCache | None):
        self._known = known
        self._source = source
        self._environ = environ
        self._in_environment = {key: environ[key.upper()] for key in ENVIRONMENT_KEYS if environ.get(key.upper())}
        self._documents: dict[str, tuple[str, Document]] = {}  # setting that names a document -> its file, and what is in it
        self._contents = FileContents()
        self._errors = [replace(problem, file=source.file) for problem in source.document.problems[:MAX_PROBLEMS]]
        self._warnings: list[Problem] = []

    def check(self, in_file: dict[str, Any], checks: Sequence[ConfigCheck]) -> CheckResult:
        """Routes one by one first, so that a mistake in one of them hides no mistake elsewhere."""
        given = _without_nulls(in_file, Options) | self._in_environment
        files = SettingFiles(self._source.directory)
        self._contents = read_contents(Options, given, files)
        given |= self._contents.values
        raw = (
            {"data_dir": _data_dir(self._environ)}
            | unneeded_settings(given.get("services"))
            | {**single_provider_placeholders(given)}
            | given
        )
        self._add(self._contents.findings)
        context = {"files": files}
        good = self._good_routes(raw.pop("policy", None), context)
        raw["policy"] = tuple(good.values())
        options, findings = validate(Options, raw, context)
        self._add(_with_file_indexes(findings, list(good)))
        view = options if options is not None else valid_subset(Options, raw, findings, context)
        self._add(find_violations([self._tests_file], view))
        for check in checks:
            self._add(_with_file_indexes(find_violations([check.rule], view), list(good)), check.kind, warns=check.warns)
        errors, warnings = (tuple(sorted(found, key=_by_place)) for found in (self._errors, self._warnings))
        read = frozenset(files.read_ones)
        return CheckResult(None, errors, warnings, read) if errors else CheckResult(options, (), warnings, read, self._places(in_file))

    def _places(self, in_file: dict[str, Any]) -> SourceMap:
        written, document = in_file.get("policy"), self._source.document
        settings = {key: line for key, line in document.key_lines(in_file, ()).items() if in_file[key] is not None}
        of_file = written if isinstance(written, list) and "policy" not in self._in_environment else []
        lines = [document.key_lines(route, ("policy", index)) for index, route in enumerate(of_file)]
        return SourceMap(self._source.file, settings, frozenset(self._in_environment), lines)

    def _good_routes(self, policy: Any, context: dict[str, Any]) -> dict[int, Route]:
        """Index in the list -> route."""
        try:
            routes = raw_routes(policy)
        except ValueError as error:
            self._add([(("policy",), str(error))])
            return {}
        if self._known is not None:
            self._known.start_generation()
        found: dict[int, Route] = {}
        for index, raw_route in enumerate(routes):
            if len(self._errors) > MAX_PROBLEMS:
                break
            if (route := self._route(index, raw_route, context)) is not None:
                found[index] = route
        return found

    def _route(self, index: int, raw_route: Any, context: dict[str, Any]) -> Route | None:
        written = _without_nulls(raw_route, Route) if isinstance(raw_route, dict) else raw_route
        route = None if self._known is None else self._known.find(written)
        if route is not None:
            return route
        route, findings = validate(Route, written, context)
        self._add((("policy", index, *path), message) for path, message, *_ in findings)
        if route is not None and self._known is not None:
            self._known.add(written, route)
        return route

    def _tests_file(self, view: Options) -> Iterator[Finding]:
        if view.policy_tests_file is not None:
            tests = read_policy_test_file(view.policy_tests_file)
            self._documents["policy_tests_file"] = (printable_path(view.policy_tests_file.path), tests.document)
            yield from tests.findings

    def _add(self, findings: Iterable[Finding], kind: str = "invalid-configuration", *, warns: bool = False) -> None:
        known = self._warnings if warns else self._errors
        for finding in findings:
            if finding[0] and finding[0][0] in self._contents.unread:
                continue
            if len(known) == MAX_PROBLEMS:
                known.append(Problem("", f"too many problems: showing the first {MAX_PROBLEMS}", file=self._source.file))
            if len(known) > MAX_PROBLEMS:
                return
            known.append(self._problem(finding, kind))

    def _problem(self, finding: Finding, kind: str) -> Problem:
        path, message, *other = finding
        path = self._written_path(path)
        if other:
            message = message.replace("{other}", self._described(other[0]))
        if path and path[0] in self._in_environment and path[0] not in self._documents:
            return Problem(format_key_path([str(path[0]).upper(), *path[1:]]), f"{message} (in the environment)", rule=kind)
        file, place = self._place(path)
        return Problem(format_key_path(path), message, *place, file=file, rule=kind)

    def _written_path(self, path: KeyPath) -> KeyPath:
        """What is wrong with a value in a file is found at the key that names the file."""
        return (self._contents.keys[str(path[0])],) if path and path[0] in self._contents.keys else path

    def _described(self, path: KeyPath) -> str:
        path = self._written_path(path)
        _, (line, _) = self._place(path)
        return format_key_path(path) if line is None else f"{format_key_path(path)} (line {line})"

    def _place(self, path: KeyPath) -> tuple[str, tuple[int | None, int | None]]:
        if path and path[0] in self._documents and len(path) > 1:
            file, document = self._documents[str(path[0])]
            return file, document.find_location(path[1:]) or (None, None)
        return self._source.file, self._source.document.find_location(path) or (None, None)


def _by_place(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line or 0, problem.column or 0


def _data_dir(environ: Mapping[str, str]) -> Path:
    if shared := environ.get("XDG_DATA_HOME"):
        return Path(shared).absolute() / "gate"
    # What systemd made for this unit (StateDirectory=); several are separated by colons.
    if states := environ.get("STATE_DIRECTORY"):
        return Path(states.partition(":")[0]).absolute()
    return Path(environ.get("HOME") or "/").absolute() / ".local" / "share" / "gate"


def _with_file_indexes(findings: Iterable[Finding], indexes: list[int]) -> Iterator[Finding]:
    """A rule saw the good routes only: its `policy[1]` may be the file's `policy[3]`."""
    for finding in findings:
        path = _with_file_index(finding[0], indexes)
        yield (path, finding[1]) if len(finding) == 2 else (path, finding[1], _with_file_index(finding[2], indexes))


def _with_file_index(path: KeyPath, indexes: list[int]) -> KeyPath:
    if path[:1] == ("policy",) and len(path) > 1 and isinstance(path[1], int):
        return ("policy", indexes[path[1]], *path[2:])
    return path


def _without_nulls(raw: dict[str, Any], model: type[Settings]) -> dict[str, Any]:
    """`cookie_domain:` with nothing behind it is unset.  Keys that are no settings stay, to be complained about."""
    return {key: value for key, value in raw.items() if value is not None or key not in model.attributes()}


def raw_routes(policy: Any) -> list[Any]:
    """Routes as written: a list, or base64 of one; ValueError."""
    if policy is None:
        return []
    if isinstance(policy, str):
        policy = _decoded_policy(policy)
    if not isinstance(policy, list):
        raise ValueError("must be a list of routes. Start each entry with `- `")
    return policy


def _decoded_policy(text: str) -> Any:
    try:
        document = parse(base64.b64decode("".join(text.split()), validate=True), ".yaml")
    except (ValueError, binascii.Error):
        raise ValueError("as text must be base64 of a YAML or JSON list of routes") from None
    except DocumentError as error:
        raise ValueError(f"decoded, {error}" if error.line is None else f"decoded, line {error.line}: {error}") from None
    if document.problems:
        raise ValueError(f"decoded, {document.problems[0]}")
    return document.value
