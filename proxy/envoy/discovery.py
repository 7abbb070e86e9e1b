"""Envoy's discovery by files that it watches: tells it what has changed, and learns whether it took it."""

import asyncio
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx

from proxy.envoy.bootstrap import CLUSTERS, LISTENERS, Json
from proxy.envoy.certificates import StapledCertificate

LOOK_EVERY = 0.1  # seconds
PATIENCE = 15.0  # seconds: as long may Envoy take to read the files


class ConfigurationRejected(Exception):
    """Envoy's NACK: it kept what it had; the text is its own."""


class DiscoveryTimeout(ConfigurationRejected):
    """Timeout of Envoy: it has said neither yes nor no for as long as it may take."""


def write(path: Path, content: Json) -> None:
    """Write a file as one step, readable by us alone: it holds keys."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    new.replace(path)


def certificate_file(name: str) -> str:
    """File name of a certificate's secret: a host's name is as long as a file's may be."""
    return f"certificate-{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


class Discovery:
    """Discovery files of one Envoy.  `known` are the names of the clusters that Envoy has whenever somebody reaches it.

    It takes connections only once it has the clusters of the files that it finds when it starts, so what is published before that counts.
    """

    def __init__(self, files: Path, admin: Path):
        self._files = files
        self._admin = admin
        self._versions: dict[str, str] = {}
        self.known: frozenset[str] = frozenset()
        self._shown: dict[str, StapledCertificate] = {}

    def publish(self, listener: Json, clusters: Mapping[str, Json], certificates: Mapping[str, StapledCertificate]) -> None:
        """Publish resources.  Certificates and clusters come first: Envoy waits for what a listener names, but not for ever."""
        if not self._versions:
            self.known = frozenset(clusters)
        self._remove_certificates({*self._shown, *certificates})  # those of before are still shown for a moment
        self.show(certificates)
        self._write(CLUSTERS, clusters.values())
        self._write(LISTENERS, [listener])
        self._shown = dict(certificates)

    def show(self, certificates: Mapping[str, StapledCertificate]) -> None:
        """Show these from now on, under the names of the last listener; connections that are open keep what they have."""
        for name, certificate in certificates.items():
            if self._shown.get(name) != certificate:
                self._write(certificate_file(name), [certificate.secret(name)])
                self._shown[name] = certificate

    def _remove_certificates(self, kept: Iterable[str]) -> None:
        files = {certificate_file(name) for name in kept}
        for file in self._files.glob("certificate*"):
            if file.name not in files:
                file.unlink(missing_ok=True)
                self._versions.pop(file.name, None)

    async def taken(self, wanted: Iterable[str]) -> None:
        """Wait until Envoy has all that was published last; raises ConfigurationRejected with its reasons,
        or where it says nothing for too long.
        """
        wanted = frozenset(wanted)
        reasons: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE), self._client() as client:
                while True:
                    state = await _state(client)
                    if state is not None:
                        reasons = _refusals(state)
                        if _listens(state):
                            self.known = _clusters(state)
                        if wanted <= self.known and _has_listener(state, self._versions[LISTENERS]) and not reasons:
                            return
                        if reasons and _refused_versions(state) & set(self._versions.values()):
                            break
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            if not reasons:
                raise DiscoveryTimeout("it has not taken the new configuration in time") from None
        raise ConfigurationRejected("; ".join(reasons))

    async def stop_accepting(self) -> None:
        async with self._client() as client:
            await client.post("http://envoy/drain_listeners")

    def _write(self, name: str, resources: Iterable[Json]) -> None:
        """A version follows from the content: Envoy takes no note of the same under another name."""
        content = list(resources)
        version = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        if self._versions.get(name) != version:
            self._versions[name] = version
            write(self._files / name, {"version_info": version, "resources": content})

    def _client(self) -> httpx.AsyncClient:
        # There is no TLS on a Unix socket, and to load the authorities for it takes 30 ms of the event loop.
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(self._admin), verify=False), timeout=5)


async def _state(client: httpx.AsyncClient) -> list[dict[str, Any]] | None:
    """None while Envoy does not answer yet."""
    try:
        answer = await client.get("http://envoy/config_dump")
    except httpx.TransportError:
        return None
    configs: list[dict[str, Any]] = answer.json().get("configs", [])
    return configs


def _of_type(state: list[dict[str, Any]], kind: str) -> Json:
    return next((config for config in state if config.get("@type", "").endswith(f".{kind}")), {})


def _clusters(state: list[dict[str, Any]]) -> frozenset[str]:
    return frozenset(each["cluster"]["name"] for each in _of_type(state, "ClustersConfigDump").get("dynamic_active_clusters", ()))


def _listens(state: list[dict[str, Any]]) -> bool:
    return any("active_state" in each for each in _of_type(state, "ListenersConfigDump").get("dynamic_listeners", ()))


def _has_listener(state: list[dict[str, Any]], version: str) -> bool:
    dump = _of_type(state, "ListenersConfigDump")
    return dump.get("version_info") == version and all("active_state" in each for each in dump.get("dynamic_listeners", ()))


def _failures(state: list[dict[str, Any]]) -> list[Json]:
    listeners = _of_type(state, "ListenersConfigDump").get("dynamic_listeners", ())
    dump = _of_type(state, "ClustersConfigDump")
    clusters = [*dump.get("dynamic_active_clusters", ()), *dump.get("dynamic_warming_clusters", ())]
    secrets = _of_type(state, "SecretsConfigDump").get("dynamic_warming_secrets", ())
    return [each["error_state"] for each in (*listeners, *clusters, *secrets) if "error_state" in each]


def _refusals(state: list[dict[str, Any]]) -> list[str]:
    return [failure.get("details", "no reason given") for failure in _failures(state)]


def _refused_versions(state: list[dict[str, Any]]) -> set[str]:
    return {failure.get("version_info", "") for failure in _failures(state)}
