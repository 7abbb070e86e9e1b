"""Where is the configuration, and what does it say?  Defaults < file < environment -> Options, or every problem at once."""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gateproject.config import removed, unbuilt
from gateproject.config.documents import Document, DocumentError, key_path, parse
from gateproject.config.files import LARGEST_CONFIGURATION, Files, read_capped
from gateproject.config.options import Options
from gateproject.config.route import Route
from gateproject.config.validation import Finding, Settings, validate
from gateproject.errors import ConfigError, Problem

ENVIRONMENT_KEYS = (*Options.attributes(), *unbuilt.SETTINGS, *removed.SETTINGS)


def config_path(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """`GATE_CONFIG`, else `config.yaml` in the working directory, else None: the environment alone."""
    if named := environ.get("GATE_CONFIG"):
        return cwd / named
    path = cwd / "config.yaml"
    return path if path.exists() else None


def load_process_options(named: Path | None = None) -> Options:
    """As the commands do it: the file that was named, else `config_path`, and this process's environment."""
    return load_options(named or config_path(os.environ, Path.cwd()), os.environ)


def load_options(path: Path | None, environ: Mapping[str, str]) -> Options:
    """Raises ConfigError with every problem that can be told now."""
    document = Document({}) if path is None else _read(path)
    directory = Path.cwd() if path is None else path.absolute().parent
    return _options(document, environ, directory)


def parse_options(content: bytes, extension: str, environ: Mapping[str, str], directory: Path) -> Options:
    """As `load_options`, for the bytes of a configuration file in `directory`."""
    try:
        document = parse(content, extension)
    except DocumentError as error:
        raise ConfigError([Problem("", f"the configuration: {error}", error.line)]) from None
    return _options(document, environ, directory)


def _read(path: Path) -> Document:
    try:
        return parse(read_capped(path, LARGEST_CONFIGURATION), path.suffix)
    except ValueError as error:
        raise ConfigError([Problem("", str(error))]) from None
    except DocumentError as error:
        raise ConfigError([Problem("", f"{path}: {error}", error.line)]) from None


def _options(document: Document, environ: Mapping[str, str], directory: Path) -> Options:
    in_file = {} if document.value is None else document.value
    if not isinstance(in_file, dict):
        raise ConfigError([Problem("", "the configuration must be a map of settings", 1)])
    in_environment = {key: environ[key.upper()] for key in ENVIRONMENT_KEYS if environ.get(key.upper())}
    raw = {"data_dir": _data_dir(environ)} | _without_nulls(in_file, Options) | in_environment
    options, findings = _validated(raw, {"files": Files(directory)})
    problems = list(document.problems)
    for found, message in findings:
        if found and found[0] in in_environment:
            problems.append(Problem(key_path([str(found[0]).upper(), *found[1:]]), f"{message} (in the environment)"))
        else:
            problems.append(Problem(key_path(found), message, document.line_of(found)))
    if problems or options is None:
        raise ConfigError(sorted(problems, key=lambda problem: problem.line or 0))
    return options


def _data_dir(environ: Mapping[str, str]) -> Path:
    if shared := environ.get("XDG_DATA_HOME"):
        return Path(shared).absolute() / "gate"
    return Path(environ.get("HOME") or "/").absolute() / ".local" / "share" / "gate"


def _validated(raw: dict[str, Any], context: dict[str, Any]) -> tuple[Options | None, list[Finding]]:
    """Routes one by one first, so that a mistake in one of them hides no mistake elsewhere."""
    try:
        routes = _raw_routes(raw.pop("policy", None))
        findings: list[Finding] = []
    except ValueError as error:
        routes, findings = [], [(("policy",), str(error))]
    good: dict[int, Route] = {}
    for index, raw_route in enumerate(routes):
        written = _without_nulls(raw_route, Route) if isinstance(raw_route, dict) else raw_route
        route, found = validate(Route, written, context)
        findings += [(("policy", index, *path), message) for path, message in found]
        if route is not None:
            good[index] = route
    options, found = validate(Options, raw | {"policy": tuple(good.values())}, context)
    findings += _with_file_indexes(found, list(good))
    return options if not findings else None, findings


def _with_file_indexes(findings: Iterable[Finding], indexes: list[int]) -> list[Finding]:
    """A rule saw the good routes only: its `policy[1]` may be the file's `policy[3]`."""
    return [
        (("policy", indexes[path[1]], *path[2:]) if path[:1] == ("policy",) and isinstance(path[1], int) else path, message)
        for path, message in findings
    ]


def _without_nulls(raw: dict[str, Any], model: type[Settings]) -> dict[str, Any]:
    """`cookie_domain:` with nothing behind it is unset.  Keys that are no settings stay, to be complained about."""
    return {key: value for key, value in raw.items() if value is not None or key not in model.attributes()}


def _raw_routes(policy: Any) -> list[Any]:
    if policy is None:
        return []
    if isinstance(policy, str):
        policy = _decoded_policy(policy)
    if not isinstance(policy, list):
        raise ValueError("must be a list of routes")
    return policy


def _decoded_policy(text: str) -> Any:
    try:
        document = parse(base64.b64decode(text.strip(), validate=True), ".yaml")
    except (ValueError, binascii.Error):
        raise ValueError("as text must be base64 of a YAML or JSON list of routes") from None
    except DocumentError as error:
        raise ValueError(f"decoded, {error}" if error.line is None else f"decoded, line {error.line}: {error}") from None
    if document.problems:
        raise ValueError(f"decoded, {document.problems[0]}")
    return document.value
