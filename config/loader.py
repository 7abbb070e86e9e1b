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
EXTENSION = "x-"  # prefix of top-level keys that gate ignores, for example for YAML anchors
MAX_PROBLEMS = 1_000  # more are never read, and each takes time to format


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """Check that needs knowledge outside this package. Its findings prevent a start, or are warnings if `warns` is set."""

    kind: str
    rule: Rule
    warns: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of all checks. `options` is None if there are errors.

    `files` are the files that settings and routes name, readable or not, except those of routes from the cache. `source_map` has the
    locations of the values, if there are no errors.
    """

    options: Options | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    files: frozenset[Path] = frozenset()
    source_map: SourceMap = field(default_factory=SourceMap)


@dataclass(frozen=True, slots=True)
class _ConfigSource:
    """Parsed document and its origin. `file` is empty if there is no file."""

    document: Document
    file: str
    directory: Path


def find_config(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the path of the configuration file.

    It is `GATE_CONFIG`, else `config.yaml` in the working directory, else None: the environment alone configures gate.
    """
    if named := environ.get("GATE_CONFIG"):
        return cwd / named
    path = cwd / "config.yaml"
    # Includes a dangling link and an unreadable file: ignoring it would start gate with unintended settings.
    return path if os.path.lexists(path) else None


def load_options(path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = ()) -> Options:
    """Return the options. Raises ConfigError with all problems if the configuration is invalid."""
    return require_options(check_configuration(path, environ, [check for check in checks if not check.warns]))


def check_content(
    content: bytes, extension: str, environ: Mapping[str, str], directory: Path, checks: Sequence[ConfigCheck] = ()
) -> CheckResult:
    """Check the bytes of a configuration file in `directory`, as `check_configuration` does."""
    return _checked(lambda: _ConfigSource(parse(content, extension), "", directory), environ, checks)


def check_configuration(
    path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = (), route_cache: RouteCache | None = None
) -> CheckResult:
    """Check a configuration. Never raises, whatever the file contains.

    Unchanged routes are taken from `route_cache`, which then holds the routes of this configuration.
    """
    return _checked(lambda: _read(path), environ, checks, "" if path is None else printable_path(path), route_cache)


def require_options(checked: CheckResult) -> Options:
    """Return the options of a result. Raises ConfigError if it has errors."""
    if checked.options is None:
        raise ConfigError(list(checked.errors))
    return checked.options


def _read(path: Path | None) -> _ConfigSource:
    if path is None:
        return _ConfigSource(Document({}), "", Path.cwd())
    document = parse(read_capped(path, MAX_CONFIG_BYTES), path.suffix)
    return _ConfigSource(document, printable_path(path), path.absolute().parent)


def _checked(
    read: Callable[[], _ConfigSource],
    environ: Mapping[str, str],
    checks: Sequence[ConfigCheck],
    file: str = "",
    route_cache: RouteCache | None = None,
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
    return _ConfigChecker(source, environ, route_cache).check(settings, checks)


class _ConfigChecker:
    def __init__(self, source: _ConfigSource, environ: Mapping[str, str], route_cache: RouteCache | None):
        self._route_cache = route_cache
        self._source = source
        self._environ = environ
        self._in_environment = {key: environ[key.upper()] for key in ENVIRONMENT_KEYS if environ.get(key.upper())}
        self._documents: dict[str, tuple[str, Document]] = {}  # setting that names a document -> (its file, its content)
        self._contents = FileContents()
        self._errors = [replace(problem, file=source.file) for problem in source.document.problems[:MAX_PROBLEMS]]
        self._warnings: list[Problem] = []

    def check(self, in_file: dict[str, Any], checks: Sequence[ConfigCheck]) -> CheckResult:
        """Validate all settings.

        Routes are validated one by one first, so that an invalid route hides no other problem.
        """
        raw_settings = _drop_nulls(in_file, Options) | self._in_environment
        files = SettingFiles(self._source.directory)
        self._contents = read_contents(Options, raw_settings, files)
        raw_settings |= self._contents.values
        raw = (
            {"data_dir": _data_dir(self._environ)}
            | unneeded_settings(raw_settings.get("services"))
            | {**single_provider_placeholders(raw_settings)}
            | raw_settings
        )
        self._add(self._contents.findings)
        context = {"files": files}
        valid_routes = self._valid_routes(raw.pop("policy", None), context)
        raw["policy"] = tuple(valid_routes.values())
        options, findings = validate(Options, raw, context)
        self._add(_with_file_indexes(findings, list(valid_routes)))
        view = options if options is not None else valid_subset(Options, raw, findings, context)
        self._add(find_violations([self._tests_file], view))
        for check in checks:
            self._add(_with_file_indexes(find_violations([check.rule], view), list(valid_routes)), check.kind, warns=check.warns)
        errors, warnings = (tuple(sorted(found, key=_by_place)) for found in (self._errors, self._warnings))
        read = frozenset(files.read_ones)
        return CheckResult(None, errors, warnings, read) if errors else CheckResult(options, (), warnings, read, self._places(in_file))

    def _places(self, in_file: dict[str, Any]) -> SourceMap:
        written, document = in_file.get("policy"), self._source.document
        settings = {key: line for key, line in document.key_lines(in_file, ()).items() if in_file[key] is not None}
        of_file = written if isinstance(written, list) and "policy" not in self._in_environment else []
        lines = [document.key_lines(route, ("policy", index)) for index, route in enumerate(of_file)]
        return SourceMap(self._source.file, settings, frozenset(self._in_environment), lines)

    def _valid_routes(self, policy: Any, context: dict[str, Any]) -> dict[int, Route]:
        """Return the valid routes by their index in the list."""
        try:
            routes = raw_routes(policy)
        except ValueError as error:
            self._add([(("policy",), str(error))])
            return {}
        if self._route_cache is not None:
            self._route_cache.start_generation()
        found: dict[int, Route] = {}
        for index, raw_route in enumerate(routes):
            if len(self._errors) > MAX_PROBLEMS:
                break
            if (route := self._route(index, raw_route, context)) is not None:
                found[index] = route
        return found

    def _route(self, index: int, raw_route: Any, context: dict[str, Any]) -> Route | None:
        written = _drop_nulls(raw_route, Route) if isinstance(raw_route, dict) else raw_route
        route = None if self._route_cache is None else self._route_cache.find(written)
        if route is not None:
            return route
        route, findings = validate(Route, written, context)
        self._add((("policy", index, *path), message) for path, message, *_ in findings)
        if route is not None and self._route_cache is not None:
            self._route_cache.add(written, route)
        return route

    def _tests_file(self, view: Options) -> Iterator[Finding]:
        if view.policy_tests_file is not None:
            tests = read_policy_test_file(view.policy_tests_file)
            self._documents["policy_tests_file"] = (printable_path(view.policy_tests_file.path), tests.document)
            yield from tests.findings

    def _add(self, findings: Iterable[Finding], kind: str = "invalid-configuration", *, warns: bool = False) -> None:
        problems = self._warnings if warns else self._errors
        for finding in findings:
            if finding[0] and finding[0][0] in self._contents.unread:
                continue
            if len(problems) == MAX_PROBLEMS:
                problems.append(Problem("", f"too many problems: showing the first {MAX_PROBLEMS}", file=self._source.file))
            if len(problems) > MAX_PROBLEMS:
                return
            problems.append(self._problem(finding, kind))

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
        """Return the key that names the file, if the value comes from a file."""
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
    # Set by systemd (StateDirectory=); several directories are separated by colons.
    if states := environ.get("STATE_DIRECTORY"):
        return Path(states.partition(":")[0]).absolute()
    return Path(environ.get("HOME") or "/").absolute() / ".local" / "share" / "gate"


def _with_file_indexes(findings: Iterable[Finding], indexes: list[int]) -> Iterator[Finding]:
    """Restore the indexes of the file: rules see valid routes only, so their `policy[1]` may be `policy[3]` of the file."""
    for finding in findings:
        path = _with_file_index(finding[0], indexes)
        yield (path, finding[1]) if len(finding) == 2 else (path, finding[1], _with_file_index(finding[2], indexes))


def _with_file_index(path: KeyPath, indexes: list[int]) -> KeyPath:
    if path[:1] == ("policy",) and len(path) > 1 and isinstance(path[1], int):
        return ("policy", indexes[path[1]], *path[2:])
    return path


def _drop_nulls(raw: dict[str, Any], model: type[Settings]) -> dict[str, Any]:
    """Treat a key without a value, such as `cookie_domain:`, as unset. Unknown keys are kept, so that they are reported."""
    return {key: value for key, value in raw.items() if value is not None or key not in model.attributes()}


def raw_routes(policy: Any) -> list[Any]:
    """Return the unvalidated routes: a list, or base64 of one. Raises ValueError if it is neither."""
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
