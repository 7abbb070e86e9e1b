"""A running gate takes over what changes: certificates, authorities, limits, keys; whole, or not at all."""

import asyncio
import re
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.admin import visible_text
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.client_certificates import Issued, authority
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE
from tests.support.fork_server import python
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in
from tests.support.options import MINIMAL
from tests.support.raw_http import RawClient
from tests.support.reloading import RELOADED, reload, replace, rewrite, wait_for_event
from tests.support.upstream import SampleUpstream

REFUSED = "configuration rejected"


@pytest.fixture(scope="module")
def shared(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    metrics = f"127.0.0.1:{free_port()}"
    builder = GateBuilder(provider.url).setting(groups_claim="groups", metrics_address=metrics, admin_allowed_users=["alice@example.com"])
    builder.route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.route("open.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture
def gate(shared: RunningGate) -> Iterator[RunningGate]:
    """As it was at the start: what a test has changed is taken back, and has been when the next one begins."""
    paths = (shared.config_file, shared.certificates.certificate, shared.certificates.key)
    before = [path.read_bytes() for path in paths]
    yield shared
    changed = [(path, content) for path, content in zip(paths, before, strict=True) if path.read_bytes() != content]
    if changed:
        with wait_for_event(shared, RELOADED):
            for path, content in changed:
                replace(path, content)


def served_certificate(port: int, server_name: str = "app.localhost") -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain, server_hostname=server_name) as tls:
        certificate = tls.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def metrics(gate: RunningGate, address: str = "") -> dict[str, Any]:
    address = address or str(gate.builder.settings["metrics_address"])
    answer = httpx.get(f"http://{address}/metrics", trust_env=False)
    assert answer.status_code == 200
    return {sample.name: sample for family in text_string_to_metric_families(answer.text) for sample in family.samples}


async def test_new_certificate_is_served_and_invalid_pair_refused(gate: RunningGate, tmp_path: Path) -> None:
    first = served_certificate(gate.port)
    idle = await asyncio.open_connection("127.0.0.1", gate.port, ssl=gate.certificates.client_context(), server_hostname="app.localhost")
    (tmp_path / "next").mkdir()
    files = certificate_files(tmp_path / "next", "authenticate.localhost", "app.localhost", "open.localhost")
    # The certificate is replaced before its key: for a moment they don't belong together.
    with wait_for_event(gate, REFUSED):
        replace(gate.certificates.certificate, files.certificate.read_bytes())
    assert served_certificate(gate.port) == first
    assert metrics(gate)["gate_config_last_reload_success"].value == 0
    with wait_for_event(gate, RELOADED):
        replace(gate.certificates.key, files.key.read_bytes())
    second = served_certificate(gate.port)
    assert second == ssl.PEM_cert_to_DER_cert(files.issued.certificate_pem.decode())
    assert second != first
    assert metrics(gate)["gate_config_last_reload_success"].value == 1
    reader, writer = idle
    writer.write(b"GET /ping HTTP/1.1\r\nHost: app.localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_without_certificates_in_the_new_file_tls_stays_until_a_restart(gate: RunningGate) -> None:
    first = served_certificate(gate.port)
    with wait_for_event(gate, "restart required") as waiting:
        reload(gate, insecure_server=True, certificate_file=None, certificate_key_file=None)
    assert "insecure_server" in waiting[0]["settings"]
    assert served_certificate(gate.port) == first


async def test_the_cookies_name_and_keys_change_for_the_admin_too(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        admin = gate.url("authenticate.localhost", "/.gate/admin/")
        page = await client.get(admin, headers=HTML)
        while page.next_request is not None:
            page = await client.send(page.next_request)
        assert page.status_code == 200
        assert "__Host-_gate_admin" in {cookie.name for cookie in client.cookies.jar}
        reload(gate, cookie_name="_other")
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 302
        assert (await client.get(admin, headers=HTML)).status_code != 200
        assert (await sign_in(client, gate.url("app.localhost"), "alice")).status_code == 200
        assert "_other" in {cookie.name for cookie in client.cookies.jar}
        page = await client.get(admin, headers=HTML)
        while page.next_request is not None:
            page = await client.send(page.next_request)
        assert page.status_code == 200
        assert "__Host-_other_admin" in {cookie.name for cookie in client.cookies.jar}


async def test_admin_displays_rejected_file_until_it_is_fixed(gate: RunningGate) -> None:
    page = gate.url("authenticate.localhost", "/.gate/admin/proxy/route/")
    async with gate.client() as client:
        await sign_in(client, page, "alice")
        valid = (await client.get(page, headers=HTML)).text
        with wait_for_event(gate, REFUSED):
            rewrite(gate.config_file, cookie_expire="soon", polcy=[])
        displayed = (await client.get(page, headers=HTML)).text
        reload(gate, cookie_expire="14h", polcy=None)
        mended = (await client.get(page, headers=HTML)).text
    lines = gate.config_file.read_text().splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if text.startswith("cookie_expire:"))
    assert f"<code>{gate.config_file}:{line}:1</code>" in displayed
    assert ("<code>cookie_expire</code>" in displayed, "<code>polcy</code>" in displayed, "2 problems" in displayed) == (True, True, True)
    (in_force,) = re.findall("checksum <code>([0-9a-f]{16})</code>", valid)
    assert f"checksum <code>{in_force}</code>" in displayed
    assert ["errornote" in page for page in (valid, displayed, mended)] == [False, True, False]
    assert f"checksum <code>{in_force}</code>" not in mended


async def test_admin_displays_each_active_value_and_changes_of_last_reload(gate: RunningGate) -> None:
    page = gate.url("authenticate.localhost", "/.gate/admin/gateproject/configuration/")
    async with gate.client() as client:
        first = visible_text(await sign_in(client, page, "alice"))
        reload(gate, cookie_expire="13h", timeout_idle="4m")
        changed = visible_text(await client.get(page, headers=HTML))
        with wait_for_event(gate, REFUSED):
            rewrite(gate.config_file, cookie_expire="soon")
        answer = await client.get(page, headers=HTML)
        refused = visible_text(answer)
        reload(gate, cookie_expire="14h", timeout_idle=None)
    assert f"idp_client_secret (set, not shown) {gate.config_file}:" in first
    assert "cookie_expire changed 14h 13h" in changed
    assert "timeout_idle changed 5m 4m" in changed
    for text in (changed, refused):
        assert f"cookie_expire 13h {gate.config_file}:" in text
    assert "errornote" in answer.text
    assert "cookie_expire changed 14h 13h" in refused


async def test_limits_change_for_connections_that_are_open(gate: RunningGate) -> None:
    idle = await asyncio.open_connection("127.0.0.1", gate.port, ssl=gate.certificates.client_context(), server_hostname="open.localhost")
    reload(gate, timeout_idle="300ms")
    reader, writer = idle
    writer.write(b"GET /ping HTTP/1.1\r\nHost: open.localhost\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP/1.1 200")  # read() ends when gate closes
    writer.close()


async def test_metrics_identify_the_configuration(gate: RunningGate) -> None:
    before = metrics(gate)
    assert before["gate_build_info"].value == 1
    assert before["gate_build_info"].labels["service"] == "gate"
    assert any(name.startswith("django_db_") for name in before)
    reload(gate, cookie_expire="1h")
    changed = metrics(gate)
    assert changed["gate_config_checksum_int64"].value != before["gate_config_checksum_int64"].value
    name = "gate_config_last_reload_success_timestamp"
    assert changed[name].value > before[name].value
    with wait_for_event(gate, REFUSED) as refusal:
        rewrite(gate.config_file, cookie_expire="soon")
    assert f"{gate.config_file}:" in refusal[0]["problem"]
    refused = metrics(gate)
    assert refused["gate_config_last_reload_success"].value == 0
    for name in ("gate_config_checksum_int64", "gate_config_last_reload_success_timestamp"):
        assert refused[name].value == changed[name].value
    secrets = (gate.builder.settings["cookie_secret"], gate.builder.settings["shared_secret"], "not a secret")
    text = httpx.get(f"http://{gate.builder.settings['metrics_address']}/metrics", trust_env=False).text
    assert [secret for secret in secrets if str(secret) in text] == []


async def test_the_metrics_move_to_a_new_address_and_stay_where_it_is_taken(gate: RunningGate, upstream: SampleUpstream) -> None:
    with wait_for_event(gate, REFUSED) as refusal:
        rewrite(gate.config_file, metrics_address=upstream.url.removeprefix("http://"))
    assert "metrics_address" in refusal[0]["problem"]
    assert metrics(gate)["gate_config_last_reload_success"].value == 0
    moved = f"127.0.0.1:{free_port()}"
    reload(gate, metrics_address=moved)
    assert metrics(gate, moved)["gate_config_last_reload_success"].value == 1
    with pytest.raises(httpx.TransportError):
        metrics(gate)
    with httpx.Client(trust_env=False, base_url=f"http://{moved}") as client:
        assert client.get("/").status_code == 404
        assert client.get("/.gate/admin/").status_code == 404
        assert client.post("/metrics").status_code == 405
        assert client.head("/metrics").content == b""


async def test_the_metrics_move_to_another_host_on_their_own_port_or_stay(gate: RunningGate) -> None:
    address = str(gate.builder.settings["metrics_address"])
    port = int(address.rpartition(":")[2])
    with socket.create_server(("127.0.0.2", port)), wait_for_event(gate, REFUSED) as refusal:
        rewrite(gate.config_file, metrics_address=f":{port}")  # all addresses, of which another socket has one
    assert f"metrics_address: can't listen on :{port}" in refusal[0]["problem"]
    assert metrics(gate)["gate_config_last_reload_success"].value == 0
    reload(gate, metrics_address=f":{port}", cookie_expire="1h")
    assert metrics(gate, f"[::1]:{port}")["gate_config_last_reload_success"].value == 1
    reload(gate, metrics_address=address)
    assert metrics(gate)["gate_config_last_reload_success"].value == 1
    with pytest.raises(httpx.TransportError):
        metrics(gate, f"[::1]:{port}")


def shows(gate: RunningGate, directory: Path, certificate: Issued) -> RawClient:
    context = certificate.present_in(gate.certificates.client_context(), directory)
    return RawClient(gate.port, tls=context, server_name="open.localhost")


def status_on(client: RawClient, gate: RunningGate) -> int:
    return client.send(f"GET / HTTP/1.1\r\nHost: open.localhost:{gate.port}\r\n\r\n".encode()).response().status


def test_replaced_client_ca_applies_to_open_connections(gate: RunningGate, tmp_path: Path) -> None:
    old, new = authority("old"), authority("new")
    replace(tmp_path / "clients.pem", old.pem)
    reload(gate, client_ca_file=str(tmp_path / "clients.pem"))
    by_old, by_new = old.issue("ann"), new.issue("ann")
    with shows(gate, tmp_path, by_old) as held, shows(gate, tmp_path, by_new) as waiting:
        assert status_on(held, gate) == 200
        with shows(gate, tmp_path, by_new) as early:
            assert status_on(early, gate) == 495
        with wait_for_event(gate, RELOADED):
            replace(tmp_path / "clients.pem", new.pem)
        assert status_on(held, gate) == 495
        assert status_on(waiting, gate) == 200
    with shows(gate, tmp_path, by_old) as late:
        assert status_on(late, gate) == 495
    with shows(gate, tmp_path, by_new) as late:
        assert status_on(late, gate) == 200


async def test_failing_policy_tests_keep_configuration(gate: RunningGate) -> None:
    opened = yaml.safe_load(gate.config_file.read_text())["policy"][1]
    reload(gate, policy_tests=[{"name": "open to all", "url": gate.url("open.localhost"), "expect": "allow"}])
    before = metrics(gate)
    with wait_for_event(gate, REFUSED) as refusal:
        rewrite(gate.config_file, policy=[{"from": opened["from"], "to": opened["to"], "allow_any_authenticated_user": True}])
    assert re.search(r"config\.yaml:\d+:\d+: policy_tests\[0\]", refusal[0]["problem"])
    refused = metrics(gate)
    assert refused["gate_config_last_reload_success"].value == 0
    assert refused["gate_config_checksum_int64"].value == before["gate_config_checksum_int64"].value
    async with gate.client() as client:
        assert (await client.get(gate.url("open.localhost"), headers=HTML)).status_code == 200
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 302


def test_a_hangup_before_gate_is_ready_does_not_end_it(tmp_path: Path, upstream: SampleUpstream) -> None:
    builder = GateBuilder("http://127.0.0.1:9").route("open.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
    config = builder.write(tmp_path, certificate_files(tmp_path, "authenticate.localhost", "open.localhost"))
    with python("manage.py", "rungate", "-config", config) as child:
        child.wait_for(lambda: _ignores_hangups(child.process.pid), "it ignores SIGHUP")
        child.process.send_signal(signal.SIGHUP)
        child.wait_for(lambda: any(entry["event"] == "gate is ready" for entry in child.events), "gate is ready")


def _ignores_hangups(pid: int) -> bool:
    ignored = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:"))
    return bool(int(ignored.split()[1], 16) >> (signal.SIGHUP - 1) & 1)


SECRETS = {"idp_client_secret": "hunter2sEcReT", "cookie_secret": "a" * 42 + "E=", "shared_secret": "b" * 42 + "E="}
INVALID = {name: f"{value}x" for name, value in SECRETS.items() if name != "idp_client_secret"} | {"idp_client_secret": ["hunter2sEcReT"]}


async def test_a_file_that_is_written_in_place_opens_nothing_before_it_is_complete(gate: RunningGate) -> None:
    """As scp, `rsync --inplace` and NFS write: its first lines are a configuration, too, without the deny that comes last."""
    page = gate.url("app.localhost", "/admin")
    config = yaml.safe_load(gate.config_file.read_text())
    route = next(route for route in config.pop("policy") if "app.localhost" in route["from"])
    lines = [*yaml.safe_dump(config).splitlines(), "policy:", f"- from: {route['from']}", f"  to: {route['to']}"]
    lines += ["  allow_any_authenticated_user: true", *["  # more"] * 15]
    lines += ["  policy:", "  - deny:", "      and:", "      - http_path: {starts_with: /admin}"]
    content = "\n".join(lines).encode()
    with wait_for_event(gate, RELOADED):
        replace(gate.config_file, content)
    answers = set()
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        with wait_for_event(gate, RELOADED), gate.config_file.open("wb") as file:
            for line in content.splitlines(keepends=True):
                file.write(line)
                file.flush()
                if line.startswith(b"  "):
                    await asyncio.sleep(0.2)
                    answers.add((await client.get(page, headers=HTML)).status_code)
        answers.add((await client.get(page, headers=HTML)).status_code)
    assert answers == {403}


def shows_a_secret(report: str) -> list[str]:
    return [name for name, value in SECRETS.items() if value in report or value.rstrip("E=") in report]


def test_the_log_never_shows_a_secret(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    builder = GateBuilder(provider.url).setting(**SECRETS, log_level="debug")
    builder.route("open.localhost", to=upstream.url, allow_public_unauthenticated_access=True, set_request_headers={"X-A": "hunter2sEcReT"})
    with builder.start(tmp_path) as gate:
        rewrite(gate.config_file, **INVALID, cookie_secert=SECRETS["cookie_secret"])
        gate.wait_for_event(REFUSED)
        assert all(name in gate.child.output for name in SECRETS)
        assert shows_a_secret(gate.child.output) == []
    with python("manage.py", "rungate", "-config", gate.config_file) as child:
        child.wait_for_line("startup failed")
        assert shows_a_secret(child.output) == []


def test_a_mounted_volume_is_swapped_as_kubernetes_does_it(tmp_path: Path, upstream: SampleUpstream) -> None:
    """config.yaml and its files are links through `..data`, itself a link to a directory that is never written again."""
    port = free_port()
    route = {"from": "https://app.example.com", "to": upstream.url, "allow_public_unauthenticated_access": True}
    settings = {**MINIMAL, "data_dir": str(tmp_path / "data"), "address": f"127.0.0.1:{port}", "grpc_address": ""}
    volume = tmp_path / "volume"
    volume.mkdir()

    def publish(version: str, **changes: object) -> None:
        directory = volume / f"..{version}"
        directory.mkdir()
        (directory / "config.yaml").write_text(yaml.safe_dump({**settings, "policy": [route], **changes}))
        new = volume / "..data_tmp"
        new.symlink_to(directory.name)
        new.replace(volume / "..data")

    publish("one")
    (volume / "config.yaml").symlink_to("..data/config.yaml")
    with python("manage.py", "rungate", "-config", volume / "config.yaml") as child:
        child.wait_for_line("gate is ready")
        assert _status(port) == 200
        publish("two", policy=[])
        shutil.rmtree(volume / "..one")
        child.wait_for_line(RELOADED)
        assert _status(port) == 404
        child.process.send_signal(signal.SIGHUP)
        child.wait_for(lambda: sum(RELOADED in line for line in child.lines) == 2, "a reload by SIGHUP")


def _status(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/", headers={"Host": "app.example.com", **HTML}, trust_env=False).status_code


async def test_a_changed_policy_takes_over_and_sessions_live_on(gate: RunningGate) -> None:
    first, second = gate.builder.policy
    stricter = {"from": first["from"], "to": first["to"], "allowed_groups": ["engineering"]}
    async with gate.client() as client:
        assert (await sign_in(client, gate.url("app.localhost"), "bob")).status_code == 200
        for policy, status in (([stricter, second], 403), ([first, second], 200)):
            reload(gate, policy=policy)
            assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == status


async def test_restart_only_settings_are_logged(gate: RunningGate) -> None:
    with wait_for_event(gate, "restart required") as waiting:
        reload(gate, address="127.0.0.1:1", data_dir="/nowhere", policy=[])
    assert waiting[0]["settings"] == ["address", "data_dir", "database_url"]  # a file below data_dir
    async with gate.client() as client:
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 404


def test_sighup_reloads_at_once_even_an_unchanged_file(gate: RunningGate) -> None:
    with wait_for_event(gate, RELOADED):
        gate.child.process.send_signal(signal.SIGHUP)


async def test_invalid_file_keeps_configuration_and_logs_problems(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        rewrite(gate.config_file, policy=[{"from": "https://broken.example/path"}], log_level="loud")
        for key in ("policy[0].from", "log_level"):
            gate.wait_for_event(REFUSED, lambda entry, key=key: key in entry["problem"])
        assert (await client.get(gate.url("app.localhost"), headers=HTML)).status_code == 200
