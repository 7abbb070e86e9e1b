"""`gate init`: writes an initial configuration from answers to questions."""

import asyncio
import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.loader import CheckResult, check_content
from config.options import Options
from config.parsing.document import DocumentError
from config.parsing.parser import parse
from config.validation import Finding
from gateproject.init import preflight
from gateproject.init.initial_config import FILE, SIGNED_OUT, configuration, generate_secrets, write_new
from gateproject.init.questions import CALLBACK, QUESTIONS, InvalidAnswer, Question, redirect_uri
from gateproject.init.systemd_unit import DEFAULT_PATH, next_steps, systemd_unit, write_unit
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS, check
from gateproject.management.gate_command import GateCommand
from gateproject.management.monitoring_client import page
from gateproject.process.config_report import as_text

_SHORT = {"rungate": "run", "checkconfig": "check"}
# Placeholder for answers that are still missing when the provider is verified.
_PLACEHOLDER_APP = {"application": "https://app.example.com", "upstream": "http://127.0.0.1:1", "who": "everyone"}
_OF_PROVIDER = ("provider", "issuer", "client_id", "client_secret")


class Command(GateCommand):
    help = "Create a configuration: asks for the values, tests the provider, generates secrets. It never overwrites a file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", nargs="?", type=Path, default=Path(), help=f"directory for {FILE} (default: here)")
        keys = ", ".join(question.key for question in QUESTIONS)
        parser.add_argument("--answers", type=Path, metavar="FILE", help=f"YAML file with the answers, for use without a terminal: {keys}")
        parser.add_argument(
            "--systemd",
            nargs="?",
            type=Path,
            const=DEFAULT_PATH,
            metavar="FILE",
            help=f"also write a systemd unit that runs this configuration (default: {DEFAULT_PATH})",
        )
        parser.add_argument("--offline", action="store_true", help="do not contact the provider")

    def handle(self, *args: Any, **arguments: Any) -> None:
        directory: Path = arguments["directory"]
        path, is_online = directory / FILE, not arguments["offline"]
        unit: Path | None = arguments["systemd"]
        unit_text = "" if unit is None else _unit_text(unit, path)
        if os.path.lexists(path):
            self._report_existing(path, is_online=is_online)
            return
        if arguments["answers"] is None and not sys.stdin.isatty():
            raise CommandError("no terminal. Use --answers FILE")
        try:
            dialog = Dialog(self, directory, None if unit is not None else _default_data_dir())
            if arguments["answers"] is None:
                dialog.prompt_all(is_online=is_online)
            else:
                dialog.load_answers(_answers_in(arguments["answers"]), is_online=is_online)
            options = dialog.write(path)
            if unit is not None:
                write_unit(unit, unit_text)
        except FileExistsError as error:
            raise CommandError(f"{error.filename} already exists. Nothing was written") from error
        except OSError as error:
            raise CommandError(
                f"{error.filename or directory}: {(error.strerror or type(error).__name__).lower()}; nothing was written"
            ) from error
        self._print_next_steps(path, options)
        if unit is not None:
            self.stdout.write(f"Created {unit}.\n{next_steps(unit, path.absolute())}")
        elif arguments["answers"] is None and dialog.confirm("Start gate now?"):
            command = [sys.executable, sys.argv[0], "rungate", "-config", str(path.absolute())]
            os.execv(command[0], command)  # noqa: S606 - ourselves, as we were started

    def _report_existing(self, path: Path, *, is_online: bool) -> None:
        self.stdout.write(f"{path} already exists and was not changed.")
        report = check(path, is_online=is_online)
        self.stdout.write(as_text(report))
        options = _options(path)
        if options is not None:
            self._note(options)
        if report.errors:
            raise SystemExit(1)
        self.stdout.write(f"Start it: {_command('rungate')} --config {path}")

    def _print_next_steps(self, path: Path, options: Options) -> None:
        self.stdout.write(f"\nCreated {path}, readable by you only: it contains secrets.")
        self._note(options)
        self.stdout.write(f"Check it: {_command('checkconfig')} --config {path}\nRun it:   {_command('rungate')} --config {path}")

    def _note(self, options: Options) -> None:
        for note in preflight.notes(options, page):
            self.stdout.write(f"note: {note}")


class Dialog:
    """Dialog with a user, or with a file of answers. Nothing is written until all answers are valid."""

    def __init__(self, command: BaseCommand, directory: Path, data_dir: str | None):
        self._command = command
        self._directory, self._data_dir = directory, data_dir
        self._answers: dict[str, str] = {}
        self._secrets = generate_secrets()

    def prompt_all(self, *, is_online: bool) -> None:
        """Ask each question until its answer is valid, then verify the provider until it succeeds or the user continues anyway."""
        self._print("Press Enter to accept the value in brackets. Ctrl-C cancels without writing.\n")
        for question in QUESTIONS:
            if question.key == "client_id":
                self._print_registration()
            self._prompt(question)
            if question.key == "client_secret" and is_online:
                self._try_until_accepted()

    def load_answers(self, answers: dict[str, str], *, is_online: bool) -> None:
        """Load all answers from a file. Raise CommandError with all problems."""
        problems = []
        for question in QUESTIONS:
            if not question.applies(self._answers | answers):
                continue
            answer = answers.get(question.key) or (question.default(self._answers) if "domain" in self._answers else "")
            if not answer and not question.is_optional:
                problems.append(f"{question.key}: missing: {question.text}")
                continue
            self._answers[question.key] = answer
            problems += [f"{question.key}: {problem}" for problem in self._problems(question)]
        if problems:
            raise CommandError("nothing was written\n" + "\n".join(problems))
        if is_online and (found := self._provider_findings()):
            raise CommandError("nothing was written\n" + "\n".join(found) + "\nUse --offline to write it anyway")

    def write(self, path: Path) -> Options:
        """Write the configuration. Raise OSError, or CommandError for a problem that no single answer has."""
        text = self._configuration(self._answers)
        checked = self._checked(text)
        if checked.options is None:
            raise CommandError("nothing was written\n" + "\n".join(map(str, checked.errors)))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, text)
        for warning in checked.warnings:
            self._print(f"note: {warning.key}: {warning.message}")
        return checked.options

    def confirm(self, text: str) -> bool:
        return input(f"{text} [y/N] ").strip().lower() in ("y", "yes")

    def _prompt(self, question: Question) -> None:
        if not question.applies(self._answers):
            self._answers.pop(question.key, None)
            return
        default = self._answers.get(question.key) or (question.default(self._answers) if "domain" in self._answers else "")
        if question.hint:
            self._print(question.hint)
        while True:
            hint = "" if not default else " [unchanged]" if question.is_secret else f" [{default}]"
            read = getpass.getpass if question.is_secret else input
            answer = read(f"{question.text}{hint}: ").strip() or default
            if not answer and not question.is_optional:
                continue
            self._answers[question.key] = answer
            if not (problems := self._problems(question)):
                self._print("")
                return
            for problem in problems:
                self._print(f"  {problem}")

    def _print_registration(self) -> None:
        uri = redirect_uri(self._answers)
        self._print(
            "Register gate at the provider as a web application (confidential client, authorization code flow):\n"
            f"  redirect URI               {uri}\n"
            f"  post-logout redirect URI   {uri.removesuffix(CALLBACK)}{SIGNED_OUT}\n"
            "Steps for each kind of provider: docs/guides/identity-providers/README.md"
        )
        input("Press Enter to continue. ")

    def _try_until_accepted(self) -> None:
        self._print("Testing the provider ...")
        while found := self._provider_findings():
            for finding in found:
                self._print(f"  {finding}")
            match input("Try again (Enter), change the provider answers (c), or continue anyway (g)? ").strip().lower():
                case "g":
                    return
                case "c":
                    for question in QUESTIONS:
                        if question.key in _OF_PROVIDER:
                            self._prompt(question)
        self._print("  The provider accepts this client.\n")

    def _configuration(self, answers: Mapping[str, str]) -> str:
        """Return the text of the configuration for these answers. Raise InvalidAnswer."""
        return configuration(answers, self._secrets, self._data_dir)

    def _problems(self, question: Question) -> list[str]:
        """Return the problems of the answer to this question that can be found so far."""
        usable = dict(self._answers)
        while True:
            try:
                text = self._configuration(usable)
                break
            except InvalidAnswer as error:
                if error.key == question.key:
                    return [str(error)]
                del usable[error.key]  # reported with the answer that it belongs to
        return [problem.message for problem in self._checked(text).errors if _concerns(problem.key, question)]

    def _checked(self, text: str) -> CheckResult:
        environ = dict(os.environ)  # noqa: TID251 - an entry point
        return check_content(text.encode(), ".yaml", environ, self._directory.absolute(), ALL_CONFIG_CHECKS)

    def _provider_findings(self) -> list[str]:
        """Return the provider's objections to this client; the rest of the configuration may be missing."""
        from gateproject.management.online_checks import provider_findings  # its imports take longer than all questions

        options = self._checked(self._configuration({**_PLACEHOLDER_APP, **self._answers})).options
        if options is None:
            return ["not tested: other answers have problems"]
        return [_format_finding(finding) for finding in asyncio.run(provider_findings(options, options.first_provider))]

    def _print(self, text: str) -> None:
        self._command.stdout.write(text)


def _concerns(key: str, question: Question) -> bool:
    return any(key == setting or key.startswith((f"{setting}.", f"{setting}[")) for setting in question.settings)


def _format_finding(finding: Finding) -> str:
    return f"{'.'.join(map(str, finding[0]))}: {finding[1]}"


def _options(path: Path) -> Options | None:
    environ = dict(os.environ)  # noqa: TID251 - an entry point
    try:
        return check_content(path.read_bytes(), path.suffix, environ, path.absolute().parent).options
    except OSError:
        return None


def _default_data_dir() -> str | None:
    """Return data_dir for the file, or None if the environment sets it."""
    return None if os.environ.get("XDG_DATA_HOME") else "data"  # noqa: TID251 - an entry point


def _unit_text(unit: Path, configuration: Path) -> str:
    """Return the unit for this installation. Raise CommandError."""
    program = Path(sys.argv[0])
    if program.name != "gate":
        raise CommandError("--systemd: this gate is not installed. Install it with `pip install gate-proxy`, then run `gate init`.")
    if os.path.lexists(unit):
        raise CommandError(f"{unit} already exists. Nothing was written")
    try:
        return systemd_unit(program.absolute(), configuration.absolute())
    except ValueError as error:
        raise CommandError(f"--systemd: {error}") from error


def _command(name: str) -> str:
    """Return the command line of a management command, in the form this one was started."""
    program = Path(sys.argv[0]).name
    return f"gate {_SHORT[name]}" if program == "gate" else f"python {program} {name}"


def _answers_in(file: Path) -> dict[str, str]:
    """Return the answers in a file. Raise CommandError."""
    try:
        document = parse(file.read_bytes(), file.suffix if file.suffix in (".yaml", ".yml", ".json", ".toml") else ".yaml")
    except DocumentError as error:
        raise CommandError(f"{file} {error}") from error
    except OSError as error:
        raise CommandError(f"{file}: {(error.strerror or type(error).__name__).lower()}") from error
    if not isinstance(document.value, dict) or document.problems:
        raise CommandError(f"{file} must be a map of answers without duplicate keys")
    return dict(_texts(file, document.value))


def _texts(file: Path, answers: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    known = {question.key for question in QUESTIONS}
    for key, value in answers.items():
        if key not in known:
            raise CommandError(f"{file}: unknown key {key}. Known keys: {', '.join(sorted(known))}")
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str | int) for part in parts):
            raise CommandError(f"{file}: {key} must be text or a list of text")
        yield key, ", ".join(map(str, parts))
