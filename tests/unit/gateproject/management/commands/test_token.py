"""Standard output has the token alone, and invalid arguments are reported before anything is sent."""

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from gateproject.management import client_command
from tests.support.children import clean_environment
from tests.support.consent import device_code_of
from tests.support.fake_gate import RESOURCE_PATH, TUNNEL, FakeGate
from tests.support.fork_server import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wiki.example.com",), "URL wiki.example.com: needs a scheme"),
        (("http://wiki.example.com",), "must be https://host, or tcp"),
        (("tcp+https://db.example.com",), "must be https://host, or tcp"),
        (("tcp+https://db.example.com:22/x",), "must be https://host, or tcp"),
        (("https://ann@wiki.example.com",), "user name"),
        (("https://wiki.example.com", "--url", "http://gate.example.com"), "--url http://gate.example.com: must be https://host"),
        (("https://wiki.example.com", "--ca", "/nowhere"), "--ca /nowhere"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("token", *arguments)


@pytest.fixture
def gate(tmp_path):
    with FakeGate(tmp_path) as running:
        yield running


@pytest.mark.parametrize("route", [str(TUNNEL), "https://app.localhost/a/b?c=d"])
def test_token_is_printed_refreshed_and_revoked(gate, tmp_path, route: str) -> None:
    gate.expires_in = 1
    environment = clean_environment(XDG_CACHE_HOME=str(tmp_path / "home"), BROWSER="false %s")
    command = ("manage.py", "token", route, "--url", str(gate.url), "--ca", str(gate.authority))
    first = run(*command, "--no-browser", environment=environment)
    assert (first.returncode, first.stdout) == (0, "access-1\n"), first.stderr
    assert device_code_of(first.stderr) == (f"{gate.issuer}/device", "WDJB-MJHT")
    second = run(*command, environment=environment)
    assert (second.returncode, second.stdout, second.stderr) == (0, "access-2\n", "")
    revoked = run(*command, "--revoke", environment=environment)
    assert (revoked.returncode, revoked.stdout, "revoked" in revoked.stderr) == (0, "", True)
    assert gate.forms[-1]["token"] == "refresh-2"
    again = run(*command, "--revoke", environment=environment)
    assert (again.returncode, "no stored token" in again.stderr) == (0, True)
    third = run(*command, environment=environment)
    assert (third.returncode, third.stdout) == (1, "")
    assert "Use --no-browser" in third.stderr
    assert "Traceback" not in third.stderr


def test_older_gate_is_one_line(gate, tmp_path) -> None:
    gate.failing[RESOURCE_PATH] = "missing"
    environment = clean_environment(XDG_CACHE_HOME=str(tmp_path / "home"))
    done = run("manage.py", "token", str(TUNNEL), "--url", str(gate.url), "--ca", str(gate.authority), environment=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n"), "its version is older" in done.stderr) == (1, "", 1, True)


def test_address_of_gate_is_that_of_the_route(monkeypatch) -> None:
    command = client_command.ClientCommand()
    for route, address in (("https://app.example.com:8443", "https://app.example.com:8443"), (str(TUNNEL), "https://db.localhost")):
        found = command.gate_address({"url": None, "ca": None}, client_command.parse_url(route))
        assert str(found.url) == address
