"""Envoy's discovery by files that it watches: tells it what has changed, and learns whether it took it."""

import asyncio
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from proxy.envoy.resources.bootstrap import CLUSTERS, LISTENERS, Json
from proxy.envoy.resources.certificate_secrets import StapledCertificate

LOOK_EVERY = 0.1  # seconds
PATIENCE = 15.0  # seconds: as long may Envoy take to read the files
# The same when it starts, on a machine that starts much else; nobody is served meanwhile who would be served without it.
STARTS_WITHIN = 60.0
MOST_NAMED = 20  # clusters that are asked for one by one
_OUR_LISTENERS, _NO_UPSTREAM = "edge|http3", "[^u].*"


class ConfigurationRejected(Exception):
    """Envoy's NACK: it kept what it had; the text is its own."""


class DiscoveryTimeout(ConfigurationRejected):
    """Timeout of Envoy: it has said neither yes nor no for as long as it may take."""


def write(path: Path, text: str) -> None:
    """Write a file as one step, readable by us alone: it holds keys."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
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
        self._writing = asyncio.Lock()
        self.clusters: Mapping[str, str] = {}  # as they are written, JSON by name
        self.known: frozenset[str] = frozenset()
        self._shown: dict[str, StapledCertificate] = {}

    def begin(self, clusters: Mapping[str, str]) -> None:
        """Publish the clusters that Envoy starts with, JSON by name."""
        self._write(CLUSTERS, clusters.values())
        self.clusters = clusters
        self.known = frozenset(clusters)

    def publish(self, listeners: Iterable[Json], certificates: Mapping[str, StapledCertificate]) -> bool:
        """Publish what clients meet; whether that is new to Envoy.  Certificates come first: it waits for what a listener names, but not
        for ever."""
        before = dict(self._versions)
        self._remove_certificates({*self._shown, *certificates})  # those of before are still shown for a moment
        self.show(certificates)
        self._write(LISTENERS, [json.dumps(listener, sort_keys=True) for listener in listeners])
        self._shown = dict(certificates)
        return any(before.get(name) != version for name, version in self._versions.items() if name != CLUSTERS)

    async def publish_clusters(self, clusters: Mapping[str, str]) -> None:
        """Publish clusters, JSON whose content follows from the name: megabytes, of which nobody else on the event loop should notice."""
        async with self._writing:
            if clusters.keys() == self.clusters.keys():
                return
            before, self.clusters = self.clusters, clusters
            self.known &= clusters.keys()
            try:
                await asyncio.to_thread(self._write, CLUSTERS, clusters.values())
            except BaseException:
                self.clusters = before
                raise

    def show(self, certificates: Mapping[str, StapledCertificate]) -> None:
        """Show these from now on, under the names of the last listener; connections that are open keep what they have."""
        for name, certificate in certificates.items():
            if self._shown.get(name) != certificate:
                self._write(certificate_file(name), [json.dumps(certificate.secret(name), sort_keys=True)])
                self._shown[name] = certificate

    def _remove_certificates(self, kept: Iterable[str]) -> None:
        files = {certificate_file(name) for name in kept}
        for file in self._files.glob("certificate*"):
            if file.name not in files:
                file.unlink(missing_ok=True)
                self._versions.pop(file.name, None)

    async def taken(self, wanted: Iterable[str], *, is_start: bool = False) -> None:
        """Wait until Envoy has all that was published last; raises ConfigurationRejected with its reasons,
        or where it says nothing for too long.
        """
        wanted = frozenset(wanted)
        reasons: list[str] = []
        try:
            async with asyncio.timeout(STARTS_WITHIN if is_start else PATIENCE), self._client() as client:
                while True:
                    state = await _state(client, wanted - self.known)
                    if state is not None:
                        reasons = state.reasons
                        self.known |= state.clusters & self.clusters.keys()  # it may still have what it is to forget
                        if wanted <= self.known and state.has_listener(self._versions[LISTENERS]) and not reasons:
                            return
                        if reasons and state.refused_versions & set(self._versions.values()):
                            break
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            if not reasons:
                raise DiscoveryTimeout("it did not apply the new configuration in time") from None
        raise ConfigurationRejected("; ".join(reasons))

    async def stop_accepting(self) -> None:
        async with self._client() as client:
            await client.post("http://envoy/drain_listeners")

    def _write(self, name: str, resources: Iterable[str]) -> None:
        """A version follows from the content: Envoy takes no note of the same under another name."""
        content = ",".join(resources)
        version = hashlib.sha256(content.encode()).hexdigest()[:16]
        if self._versions.get(name) != version:
            write(self._files / name, f'{{"version_info": "{version}", "resources": [{content}]}}')
            self._versions[name] = version

    def _client(self) -> httpx.AsyncClient:
        # There is no TLS on a Unix socket, and to load the authorities for it takes 30 ms of the event loop.
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(self._admin), verify=False), timeout=5)


@dataclass(frozen=True, slots=True)
class EnvoyState:
    """State of an Envoy, as far as it is asked for: its `listeners` and the version of all they hold, the names of `clusters` it uses, and
    its `failures`."""

    version: str
    listeners: tuple[Json, ...]
    clusters: frozenset[str]
    failures: tuple[Json, ...]

    def has_listener(self, version: str) -> bool:
        # Of a listener that changed in place, the version of its own stays as it was.
        # One that is gone is shown as long as connections to it may end in peace.
        return self.version == version and all("active_state" in each or "draining_state" in each for each in self.listeners)

    @property
    def reasons(self) -> list[str]:
        return [failure.get("details", "no reason given") for failure in self.failures]

    @property
    def refused_versions(self) -> set[str]:
        return {failure.get("version_info", "") for failure in self.failures}


async def _state(client: httpx.AsyncClient, missing: frozenset[str]) -> EnvoyState | None:
    """State with the `missing` ones of its clusters; None while Envoy does not answer yet.

    Piece by piece: all that it has, of ten thousand routes, are 14 MB, which take Envoy and us seconds.  Whatever is asked for, it looks
    at all its clusters that have such a name.
    """
    try:
        dumps = await _dumped(client, mask="version_info,dynamic_listeners", name_regex=_OUR_LISTENERS)
        dump = next((each for each in dumps if "dynamic_listeners" in each), {})
        listeners = dump.get("dynamic_listeners", [])
        warming = await _clusters(client, "warming", missing)
        secrets = await _dumped(client, resource="dynamic_warming_secrets", mask="error_state", name_regex=_NO_UPSTREAM)
        active = await _clusters(client, "active", missing)
    except httpx.HTTPError:
        return None
    failures = tuple(each["error_state"] for each in (*listeners, *active, *warming, *secrets) if "error_state" in each)
    return EnvoyState(dump.get("version_info", ""), tuple(listeners), frozenset(each["cluster"]["name"] for each in active), failures)


async def _clusters(client: httpx.AsyncClient, kind: str, missing: frozenset[str]) -> list[Json]:
    """Clusters with these names, and perhaps others.  Envoy takes no regular expression that is as long as three names."""
    asked = {"resource": f"dynamic_{kind}_clusters", "mask": "cluster.name,error_state"}
    if len(missing) > MOST_NAMED:
        return await _dumped(client, **asked)
    return [each for name in missing for each in await _dumped(client, **asked, name_regex=name)]


async def _dumped(client: httpx.AsyncClient, **asked: str) -> list[Json]:
    answer = await client.get("http://envoy/config_dump", params=asked)
    answer.raise_for_status()
    found: list[Json] = answer.json().get("configs", [])
    return found
