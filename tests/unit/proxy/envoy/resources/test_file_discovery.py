"""Discovery files are complete and private; gate polls whether Envoy has applied them."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from foundation.values import CertificatePair, SecretBytes
from proxy.envoy.resources import file_discovery
from proxy.envoy.resources.bootstrap import CLUSTERS, LISTENERS, Json
from proxy.envoy.resources.certificate_secrets import StapledCertificate
from proxy.envoy.resources.file_discovery import ConfigurationRejected, Discovery, certificate_file
from tests.support.eventually import PATIENCE

GATE_LISTENERS = [{"name": "edge"}]
CLUSTER = '{"name": "upstream-1"}'
ONE, OTHER = (StapledCertificate(CertificatePair(name, SecretBytes(b"key"), "")) for name in (b"one", b"other"))


@asynccontextmanager
async def admin(path: Path, *states: Json) -> AsyncIterator[None]:
    """Answers out of one state after the other, the last for ever; the listeners are asked for first."""
    left, conversations = [{}, *states], set[asyncio.Task[Any] | None]()

    def answered(target: str) -> bytes:
        params = parse_qs(urlsplit(target).query)
        (resource,) = params.get("resource", ["listeners"])
        if resource == "listeners" and len(left) > 1:
            left.pop(0)
        configs = left[0].get(resource, [])
        for pattern in params.get("name_regex", ()):
            configs = [each for each in configs if "name" not in (one := each.get("cluster", each)) or re.fullmatch(pattern, one["name"])]
        return json.dumps({"configs": configs} if configs else {}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversations.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                while await reader.readline() != b"\r\n":
                    pass
                body = answered(line.decode().split(" ")[1])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()
        await asyncio.wait_for(asyncio.gather(*filter(None, conversations)), PATIENCE)


def state(version: str, *clusters: str, error: dict[str, str] | None = None, gone: str | None = None) -> Json:
    listener: Json = {"name": "edge", "active_state": {"version_info": "of when it was added"}}
    if error is not None:
        listener["error_state"] = error
    removed = [] if gone is None else [{"name": gone, "draining_state": {}}]
    listeners = {"version_info": version, "dynamic_listeners": [listener, *removed]}
    return {"listeners": [listeners], "dynamic_active_clusters": [{"cluster": {"name": name}} for name in clusters]}


@pytest.fixture
def reported(tmp_path: Path) -> Discovery:
    made = Discovery(tmp_path, tmp_path / "admin")
    made.publish(GATE_LISTENERS, {"one": ONE})
    made.start({"upstream-1": CLUSTER})
    return made


def version(directory: Path, name: str = LISTENERS) -> str:
    configs: str = json.loads((directory / name).read_text())["version_info"]
    return configs


async def test_files_are_private_and_change_with_content(reported: Discovery, tmp_path: Path) -> None:
    for name in (LISTENERS, CLUSTERS, certificate_file("one")):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    before = {name: (version(tmp_path, name), (tmp_path / name).stat().st_ino) for name in (LISTENERS, CLUSTERS)}
    reported.publish(GATE_LISTENERS, {"one": ONE})
    await reported.publish_clusters({"upstream-2": CLUSTER.replace("1", "2")})
    after = {name: (version(tmp_path, name), (tmp_path / name).stat().st_ino) for name in (LISTENERS, CLUSTERS)}
    assert after[LISTENERS] == before[LISTENERS]
    assert after[CLUSTERS] != before[CLUSTERS]


def presented(directory: Path, name: str) -> str:
    (secret,) = json.loads((directory / certificate_file(name)).read_text())["resources"]
    configs: str = secret["tls_certificate"]["certificate_chain"]["inline_string"]
    return configs


def test_only_changed_certificate_is_written(reported: Discovery, tmp_path: Path) -> None:
    reported.publish(GATE_LISTENERS, {"one": ONE, "two": ONE})
    before = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}
    reported.publish_secrets({"one": ONE, "two": OTHER})
    changed = {path.name for path in tmp_path.iterdir() if before.get(path.name) != path.stat().st_ino}
    assert changed == {certificate_file("two")}
    assert (presented(tmp_path, "one"), presented(tmp_path, "two")) == ("one", "other")


def test_removes_secret_only_after_listeners_stop_using_it(reported: Discovery, tmp_path: Path) -> None:
    (tmp_path / "certificates.json").write_text("of a release before")
    reported.publish(GATE_LISTENERS, {"two": ONE})
    assert {path.name for path in tmp_path.glob("cert*")} == {certificate_file("one"), certificate_file("two")}
    reported.publish(GATE_LISTENERS, {"two": ONE})
    assert {path.name for path in tmp_path.glob("cert*")} == {certificate_file("two")}
    reported.publish(GATE_LISTENERS, {"one": ONE})
    assert presented(tmp_path, "one") == "one"


async def test_waits_until_envoy_has_applied_all(reported: Discovery, tmp_path: Path) -> None:
    reported.publish([*GATE_LISTENERS, {"name": "new"}], {})
    await reported.publish_clusters({"upstream-1": CLUSTER, "upstream-2": CLUSTER.replace("1", "2")})
    new = version(tmp_path)
    states = state("old", "upstream-1"), state(new, "upstream-1"), state(new, "upstream-1", "upstream-2")
    async with admin(tmp_path / "admin", *states):
        await reported.wait_applied(["upstream-1", "upstream-2"])
    assert reported.applied_clusters == {"upstream-1", "upstream-2"}


async def test_does_not_wait_for_removed_listener(reported: Discovery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_discovery, "APPLY_TIMEOUT", 5.0)
    async with admin(tmp_path / "admin", state(version(tmp_path), "upstream-1", gone="http3")):
        await reported.wait_applied(["upstream-1"])


async def test_many_new_clusters_are_queried_at_once(reported: Discovery, tmp_path: Path) -> None:
    names = [f"upstream-{number}" for number in range(2, file_discovery.MAX_NAMED_QUERIES + 4)]
    await reported.publish_clusters(dict.fromkeys(names, CLUSTER))
    async with admin(tmp_path / "admin", state(version(tmp_path), "upstream-1", *names)):
        await reported.wait_applied(names)
    assert reported.applied_clusters == set(names)


async def test_initial_clusters_are_applied(reported: Discovery, tmp_path: Path) -> None:
    """Envoy accepts no connections before it has applied them."""
    new = version(tmp_path)
    assert reported.applied_clusters == {"upstream-1"}
    async with admin(tmp_path / "admin", {}):
        waiting = asyncio.ensure_future(reported.wait_applied(["upstream-1"]))
        await asyncio.wait([waiting], timeout=3 * file_discovery.POLL_INTERVAL)
        assert reported.applied_clusters == {"upstream-1"}
        waiting.cancel()
    await reported.publish_clusters({"upstream-2": CLUSTER})
    assert reported.applied_clusters == frozenset(), "it may have read that the one goes, and has yet to read of the other"
    async with admin(tmp_path / "admin", state(new, "upstream-2")):
        await reported.wait_applied(["upstream-2"])
    assert reported.applied_clusters == {"upstream-2"}


@pytest.mark.parametrize("resource", ["dynamic_warming_clusters", "dynamic_warming_secrets", "dynamic_active_clusters"])
async def test_reports_every_rejection(reported: Discovery, tmp_path: Path, resource: str) -> None:
    await reported.publish_clusters({"upstream-2": CLUSTER})
    named = {"name": "own-0"} if "secrets" in resource else {"cluster": {"name": "upstream-2"}}
    refused = {**named, "error_state": {"version_info": version(tmp_path, CLUSTERS), "details": "no such key"}}
    async with admin(tmp_path / "admin", state(version(tmp_path)) | {resource: [refused]}):
        with pytest.raises(ConfigurationRejected, match="no such key"):
            await reported.wait_applied(["upstream-2"])


async def test_rejection_has_envoy_reason(reported: Discovery, tmp_path: Path) -> None:
    error = {"version_info": version(tmp_path), "details": "cannot bind"}
    async with admin(tmp_path / "admin", state("old", "upstream-1", error=error)):
        with pytest.raises(ConfigurationRejected, match="cannot bind"):
            await reported.wait_applied(["upstream-1"])


@pytest.mark.parametrize(("patience", "is_start"), [("APPLY_TIMEOUT", False), ("START_TIMEOUT", True)])
async def test_unresponsive_envoy_times_out(patience: str, is_start: bool, reported: Discovery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_discovery, patience, 0.05)
    with pytest.raises(ConfigurationRejected, match="in time"):
        await reported.wait_applied(["upstream-1"], is_start=is_start)
    assert reported.applied_clusters == {"upstream-1"}, "nobody reaches it"
