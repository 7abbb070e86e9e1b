"""`checkconfig --online` against what is really there: every way in which a connection fails has its words, at its place in the file."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.support.certs import certificate_files
from tests.support.children import clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.faulty_servers import plain_http, server, silent, tls
from tests.support.fork_server import run
from tests.support.gate import GateBuilder
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream


def checked(path: Path, *arguments: str) -> tuple[int, str]:
    environment = clean_environment(HOME=str(path.parent), NO_COLOR="1")
    done = run("manage.py", "checkconfig", "-config", path, *arguments, environment=environment, timeout=120)
    return done.returncode, done.stdout


def write(builder: GateBuilder, directory: Path, **settings: Any) -> Path:
    return builder.setting(**settings).write(directory, certificate_files(directory, builder.authenticate_host, *builder._route_hosts()))


def received(path: Path, *arguments: str) -> dict[str, str]:
    """Key -> message of what does not answer."""
    _, printed = checked(path, "--online", "--format", "json", *arguments)
    return {each["key"]: each["message"] for each in json.loads(printed)["problems"] if each["kind"] == "no-answer"}


def test_reachable_services_have_no_findings(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis:
        builder = GateBuilder(provider.url).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
        builder.setting(databroker_storage_type="kvstore", databroker_storage_connection_string=redis.url)
        assert checked(write(builder, tmp_path), "--online")[0] == 0
        assert received(tmp_path / "config.yaml") == {}


def test_each_upstream_failure_has_its_log_field(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    (tmp_path / "trusted").mkdir()
    files = certificate_files(tmp_path / "trusted", "upstream.localhost")
    ca, refusing = str(files.authority), free_port()
    with ExitStack() as servers:
        port = {
            name: servers.enter_context(server(talk))
            for name, talk in {
                "tls": tls(files),
                "mutual": tls(files, wants_certificate=True),
                "plain": plain_http,
                "silent": silent,
                "tcp": silent,
            }.items()
        }
        # Route -> (its keys, the words or None)
        table: dict[str, tuple[dict[str, Any], str | None]] = {
            "http": ({"to": upstream.url}, None),
            "refused": ({"to": f"http://127.0.0.1:{refusing}"}, f"127.0.0.1:{refusing} refused the connection"),
            "unresolved": ({"to": "http://upstream.invalid"}, "can't be resolved"),
            "untrusted": ({"to": f"https://127.0.0.1:{port['tls']}"}, "presented an untrusted certificate"),
            "other name": ({"to": f"https://127.0.0.1:{port['tls']}", "tls_custom_ca_file": ca}, "for another name"),
            "as the route says": (
                {"to": f"https://127.0.0.1:{port['tls']}", "tls_custom_ca_file": ca, "tls_server_name": "upstream.localhost"},
                None,
            ),
            "unverified": ({"to": f"https://127.0.0.1:{port['tls']}", "tls_skip_verify": True}, None),
            "plain": ({"to": f"https://127.0.0.1:{port['plain']}"}, "not speak TLS"),
            "mutual": ({"to": f"https://127.0.0.1:{port['mutual']}", "tls_skip_verify": True}, "requires a client certificate"),
            "silent": ({"to": f"https://127.0.0.1:{port['silent']}"}, "in time"),
            "second": ({"to": [upstream.url, f"http://127.0.0.1:{free_port()}"]}, "refused the connection"),
        }
        builder = GateBuilder(provider.url)
        for number, (keys, _) in enumerate(table.values()):
            builder.route(f"r{number}.localhost", allow_any_authenticated_user=True, **keys)
        tcp = len(table)
        for to in (port["tcp"], free_port()):
            builder.policy.append(
                {"from": f"tcp+https://tcp{to}.localhost:22", "to": f"tcp://127.0.0.1:{to}", "allow_any_authenticated_user": True}
            )
        builder.route("same.localhost", to=f"http://127.0.0.1:{refusing}", allow_any_authenticated_user=True)
        path = write(builder, tmp_path)
        found = received(path)
    for number, (name, (_, message)) in enumerate(table.items()):
        key = f"policy[{number}].to[1]" if name == "second" else f"policy[{number}].to"
        assert (key in found) is (message is not None), (name, found)
        assert message is None or message in found[key], (name, found[key])
    assert f"policy[{tcp}].to" not in found
    assert "refused the connection" in found[f"policy[{tcp + 1}].to"]
    assert "1 more route" in found["policy[1].to"]
    assert f"policy[{tcp + 2}].to" not in found


def test_error_in_every_format_with_exit_1(provider: DevelopmentProvider, tmp_path: Path) -> None:
    refusing = free_port()
    builder = GateBuilder(provider.url).route("app.localhost", to=f"http://127.0.0.1:{refusing}", allow_any_authenticated_user=True)
    path = write(builder, tmp_path)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if f"127.0.0.1:{refusing}" in text)
    assert checked(path)[0] == 0
    code, text = checked(path, "--online")
    assert code == 1
    assert f"{path}:{line}:" in text
    assert "error: policy[0].to: 127.0.0.1" in text
    sarif = json.loads(checked(path, "--online", "--format", "sarif")[1])["runs"][0]
    (result,) = (result for result in sarif["results"] if result["ruleId"] == "no-answer")
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line


def test_online_check_skips_invalid_configuration(provider: DevelopmentProvider, tmp_path: Path) -> None:
    requested = []
    with server(lambda connection: requested.append(connection)) as port:
        builder = GateBuilder(provider.url).route("app.localhost", to=f"http://127.0.0.1:{port}", allow_any_authenticated_user=True)
        path = write(builder, tmp_path, unheard_of=1)
        assert yaml.safe_load(path.read_text())["unheard_of"] == 1
        code, _ = checked(path, "--online")
    assert (code, requested) == (1, [])
