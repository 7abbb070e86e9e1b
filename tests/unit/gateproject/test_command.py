import sys

import pytest

from gateproject import command
from gateproject.command import COMMANDS, main, manage, usage


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_alone_it_lists_its_commands(arguments, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gate", *arguments])
    main()
    assert capsys.readouterr().out == usage() + "\n"
    assert all(f"  {short} " in usage() for short, _, _ in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["run", "-config", "x.yaml"], ["rungate"]),
        (["syncdirectory"], ["syncdirectory"]),
        (["end-sessions", "run"], ["endsessions", "run"]),
        (["help", "check"], ["checkconfig", "--help"]),
        (["-config", "x.yaml", "check"], ["checkconfig"]),
        (["--config=x.yaml", "check", "--strict"], ["checkconfig", "--strict"]),
        (["migrate"], ["migrate"]),
    ],
)
def test_a_short_name_stands_for_its_command_and_others_are_taken_as_they_are(arguments, meant, monkeypatch):
    calls = []
    monkeypatch.setenv("GATE_CONFIG", "")  # it sets this one
    monkeypatch.setattr(command, "manage", calls.append)
    monkeypatch.setattr(sys, "argv", ["gate", *arguments])
    main()
    assert calls == [["gate", *meant]]


@pytest.mark.parametrize(("typed", "meant"), [("statsu", "status"), ("end-session", "end-sessions"), ("chek", "check")])
def test_unknown_command_is_reported_with_likely_match(typed, meant, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gate", typed])
    with pytest.raises(SystemExit, match=f"{typed}. Did you mean {meant}\\?"):
        main()


@pytest.mark.parametrize("arguments", [["rungate", "-config"], ["rungate", "--config="]])
def test_missing_file_is_required_by_the_command_in_use(arguments):
    with pytest.raises(SystemExit, match=r"--config requires a file: gate rungate --config config\.yaml"):
        manage(["/usr/bin/gate", *arguments])


@pytest.mark.parametrize("arguments", [["--version"], ["rungate", "-version"], ["version"]])
def test_every_command_reports_the_version_of_gate(arguments, capsys):
    manage(["gate", *arguments])
    assert capsys.readouterr().out.startswith("v0.")


def test_interrupted_command_reports_only_its_status(monkeypatch):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_manage", interrupted)
    with pytest.raises(SystemExit) as ended:
        manage(["gate", "rungate"])
    assert ended.value.code == 130
