"""File-based discovery (xDS): publishes resources in files that Envoy watches, and polls whether Envoy has applied them."""

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

POLL_INTERVAL = 0.1  # seconds
APPLY_TIMEOUT = 15.0  # seconds until Envoy must have applied new files
# The same at startup, when the machine may be busy; gate accepts no requests before.
START_TIMEOUT = 60.0
MAX_NAMED_QUERIES = 20  # clusters that are queried one by one
_OUR_LISTENERS, _NO_UPSTREAM = "edge|http3", "[^u].*"


class ConfigurationRejected(Exception):
    """Envoy rejected the configuration (NACK) and keeps the previous one. The text is Envoy's."""


class DiscoveryTimeout(ConfigurationRejected):
    """Envoy has neither applied nor rejected the configuration in time."""


def write(path: Path, text: str) -> None:
    """Replace a file atomically, readable only by this user, because it contains keys."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)


def certificate_file(name: str) -> str:
    """Return the file name of a secret; hashed, because a host name can be as long as a file name."""
    return f"certificate-{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


class Discovery:
    """Discovery files of one Envoy. `applied_clusters` are the names of the clusters that Envoy has applied.

    Envoy accepts connections only after it has applied the clusters that it finds at startup, so those count as applied.
    """

    def __init__(self, files: Path, admin: Path):
        self._files = files
        self._admin = admin
        self._versions: dict[str, str] = {}
        self._writing = asyncio.Lock()
        self.clusters: Mapping[str, str] = {}  # published, JSON by name
        self.applied_clusters: frozenset[str] = frozenset()
        self._secrets: dict[str, StapledCertificate] = {}

    def start(self, clusters: Mapping[str, str]) -> None:
        """Publish the initial clusters, JSON by name."""
        self._write(CLUSTERS, clusters.values())
        self.clusters = clusters
        self.applied_clusters = frozenset(clusters)

    def publish(self, listeners: Iterable[Json], certificates: Mapping[str, StapledCertificate]) -> bool:
        """Publish listeners and certificates. Return whether anything changed.

        Certificates are written first, because Envoy waits only a limited time for a listener's secrets.
        """
        before = dict(self._versions)
        self._remove_certificates({*self._secrets, *certificates})  # the previous ones are still in use for a moment
        self.publish_secrets(certificates)
        self._write(LISTENERS, [json.dumps(listener, sort_keys=True) for listener in listeners])
        self._secrets = dict(certificates)
        return any(before.get(name) != version for name, version in self._versions.items() if name != CLUSTERS)

    async def publish_clusters(self, clusters: Mapping[str, str]) -> None:
        """Publish clusters, JSON by content hash. They can be megabytes, so a thread writes them."""
        async with self._writing:
            if clusters.keys() == self.clusters.keys():
                return
            before, self.clusters = self.clusters, clusters
            self.applied_clusters &= clusters.keys()
            try:
                await asyncio.to_thread(self._write, CLUSTERS, clusters.values())
            except BaseException:
                self.clusters = before
                raise

    def publish_secrets(self, certificates: Mapping[str, StapledCertificate]) -> None:
        """Publish changed certificates under the secret names of the last listener. Open connections are not affected."""
        for name, certificate in certificates.items():
            if self._secrets.get(name) != certificate:
                self._write(certificate_file(name), [json.dumps(certificate.secret(name), sort_keys=True)])
                self._secrets[name] = certificate

    def _remove_certificates(self, names: Iterable[str]) -> None:
        files = {certificate_file(name) for name in names}
        for file in self._files.glob("certificate*"):
            if file.name not in files:
                file.unlink(missing_ok=True)
                self._versions.pop(file.name, None)

    async def wait_applied(self, expected: Iterable[str], *, is_start: bool = False) -> None:
        """Wait until Envoy has applied the published resources.

        Raises ConfigurationRejected with Envoy's reasons, or DiscoveryTimeout.
        """
        expected = frozenset(expected)
        reasons: list[str] = []
        try:
            async with asyncio.timeout(START_TIMEOUT if is_start else APPLY_TIMEOUT), self._client() as client:
                while True:
                    state = await _state(client, expected - self.applied_clusters)
                    if state is not None:
                        reasons = state.reasons
                        self.applied_clusters |= state.clusters & self.clusters.keys()  # it may still have clusters that were removed
                        if expected <= self.applied_clusters and state.is_active(self._versions[LISTENERS]) and not reasons:
                            return
                        if reasons and state.rejected_versions & set(self._versions.values()):
                            break
                    await asyncio.sleep(POLL_INTERVAL)
        except TimeoutError:
            if not reasons:
                raise DiscoveryTimeout("it did not apply the new configuration in time") from None
        raise ConfigurationRejected("; ".join(reasons))

    async def stop_accepting(self) -> None:
        async with self._client() as client:
            await client.post("http://envoy/drain_listeners")

    def _write(self, name: str, resources: Iterable[str]) -> None:
        """Write a resource file if its content has changed. The version is a content hash, because Envoy ignores unchanged content."""
        content = ",".join(resources)
        version = hashlib.sha256(content.encode()).hexdigest()[:16]
        if self._versions.get(name) != version:
            write(self._files / name, f'{{"version_info": "{version}", "resources": [{content}]}}')
            self._versions[name] = version

    def _client(self) -> httpx.AsyncClient:
        # No TLS on a Unix socket, and loading the CA certificates would block the event loop for 30 ms.
        return httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(self._admin), verify=False), timeout=5)


@dataclass(frozen=True, slots=True)
class EnvoyState:
    """Queried state of Envoy: listeners and their version, names of active clusters, and failures."""

    version: str
    listeners: tuple[Json, ...]
    clusters: frozenset[str]
    failures: tuple[Json, ...]

    def is_active(self, version: str) -> bool:
        # A listener that was updated in place keeps its own version.
        # A removed listener is listed while its connections drain.
        return self.version == version and all("active_state" in each or "draining_state" in each for each in self.listeners)

    @property
    def reasons(self) -> list[str]:
        return [failure.get("details", "no reason given") for failure in self.failures]

    @property
    def rejected_versions(self) -> set[str]:
        return {failure.get("version_info", "") for failure in self.failures}


async def _state(client: httpx.AsyncClient, missing: frozenset[str]) -> EnvoyState | None:
    """Return Envoy's state, with the `missing` clusters, or None if Envoy does not respond.

    It is queried in parts, because a full dump of ten thousand routes is 14 MB and takes seconds.
    """
    try:
        dumps = await _config_dump(client, mask="version_info,dynamic_listeners", name_regex=_OUR_LISTENERS)
        dump = next((each for each in dumps if "dynamic_listeners" in each), {})
        listeners = dump.get("dynamic_listeners", [])
        warming = await _clusters(client, "warming", missing)
        secrets = await _config_dump(client, resource="dynamic_warming_secrets", mask="error_state", name_regex=_NO_UPSTREAM)
        active = await _clusters(client, "active", missing)
    except httpx.HTTPError:
        return None
    failures = tuple(each["error_state"] for each in (*listeners, *active, *warming, *secrets) if "error_state" in each)
    return EnvoyState(dump.get("version_info", ""), tuple(listeners), frozenset(each["cluster"]["name"] for each in active), failures)


async def _clusters(client: httpx.AsyncClient, kind: str, missing: frozenset[str]) -> list[Json]:
    """Return clusters with these names, and possibly others. Envoy rejects a regular expression of three names as too long."""
    params = {"resource": f"dynamic_{kind}_clusters", "mask": "cluster.name,error_state"}
    if len(missing) > MAX_NAMED_QUERIES:
        return await _config_dump(client, **params)
    return [each for name in missing for each in await _config_dump(client, **params, name_regex=name)]


async def _config_dump(client: httpx.AsyncClient, **params: str) -> list[Json]:
    response = await client.get("http://envoy/config_dump", params=params)
    response.raise_for_status()
    configs: list[Json] = response.json().get("configs", [])
    return configs
