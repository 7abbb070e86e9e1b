"""Envoy's own statistics, read of its admin interface at each scrape, and told beside ours as `plane="envoy"`.

Requests are counted by gate, whoever carries them, so that they mean the same on both planes; of what Envoy counts these are left out.
"""

import re
import socket
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlencode

from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText, escape_label

_PATIENCE = 2.0  # seconds
# Of routes: bytes, connections, TLS, and what waits for them.  Of Envoy as a whole what bounds it; nothing of its admin interface.
_FILTER = (
    r"^cluster\.route-[0-9a-f]+\.(upstream_cx_(total|active|http1_total|http2_total|connect_fail|connect_timeout|connect_attempts_exceeded"
    r"|destroy_local|destroy_remote|idle_timeout|none_healthy|overflow|protocol_error|rx_bytes_total|tx_bytes_total)"
    r"|upstream_rq_(rx_reset|tx_reset|pending_(total|active|overflow|failure_eject))"
    r"|upstream_flow_control_\w+|ssl\.(connection_error|handshake|fail_verify_\w+)|update_(attempt|success|failure))$"
    r"|^http\.edge\.(downstream|no_cluster|no_route|rq_)|^listener\.[\[0-9]|^listener_manager\.|^cluster_manager\.|^overload\.|^server\.|^sds\."
)
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)\n", re.MULTILINE)
_CLUSTER = re.compile(r'(?:^|,)envoy_cluster_name="([^"]*)"')


class EnvoyStatistics:
    """Statistics of our Envoy at its admin socket."""

    def __init__(self, admin: Path):
        self._admin = admin

    def __repr__(self) -> str:
        return f"<EnvoyStatistics of {self._admin}>"

    def families(self, service: str, labels: Mapping[str, str]) -> MetricFamilies:
        """Families, none where Envoy is away; `labels` are those of routes, by `stat_name`.  Waits; called in a thread."""
        try:
            families = translated(self._page(), service, labels)
        except (OSError, HTTPException, ValueError):
            metrics.envoy_up.set(0)
            return {}
        metrics.envoy_up.set(1)
        return families

    def _page(self) -> str:
        """Page as Envoy writes it.  Raises OSError, HTTPException."""
        with closing(_AdminConnection("envoy", timeout=_PATIENCE)) as connection:
            connection.path = self._admin
            connection.request("GET", "/stats/prometheus?" + urlencode({"usedonly": "", "filter": _FILTER}))
            answer = connection.getresponse()
            if answer.status != 200:
                raise HTTPException(f"status {answer.status}")
            return answer.read().decode()


class _AdminConnection(HTTPConnection):
    """Connection to a Unix socket; httpx forgets one that can't be connected."""

    path: Path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE)
        self.sock.connect(str(self.path))


def translated(text: str, service: str, labels: Mapping[str, str]) -> MetricFamilies:
    """Families out of Envoy's page, without clusters of no route that is in force: those of before a reload, and gate itself."""
    families: MetricFamilies = {}
    _, *parts = _TYPE.split(text)
    for name, kind, lines in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        told = [line for each in lines.splitlines() if (line := _line(each, service, labels))]
        if told:
            families[name] = MetricFamilyText(kind, "As counted by Envoy.", told)
    return families


def _line(line: str, service: str, labels: Mapping[str, str]) -> str:
    """Line of a sample with our labels, "" for one that is not told."""
    name, brace, rest = line.partition("{")
    if not brace:
        return ""
    said, _, value = rest.rpartition("}")
    if (found := _CLUSTER.search(said)) is not None:
        label = labels.get(found[1])
        if label is None:
            return ""
        said = f'{said[: found.start()]},envoy_cluster_name="{escape_label(label)}"{said[found.end() :]}'
    separator = "," if said and not said.startswith(",") else ""
    return f'{name}{{service="{escape_label(service)}",plane="envoy"{separator}{said}}}{value}'


def merged(ours: MetricFamilies, envoys: MetricFamilies) -> MetricFamilies:
    """Families of both, each once."""
    for name, family in envoys.items():
        if name in ours:
            ours[name].lines.extend(family.lines)
        else:
            ours[name] = family
    return ours
