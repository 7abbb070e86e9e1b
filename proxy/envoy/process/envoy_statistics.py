"""Envoy's statistics, read from its admin interface at each scrape and exported with `plane="envoy"`.

gate counts requests itself, so that the metrics mean the same on both data planes; Envoy's own request counters are omitted.
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

_TIMEOUT_SECONDS = 2.0  # seconds
# Per route: bytes, connections, TLS and pending requests. For the process: its limits. Nothing of the admin interface.
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
    """Statistics of gate's Envoy, read from its admin socket."""

    def __init__(self, admin: Path):
        self._admin = admin

    def __repr__(self) -> str:
        return f"<EnvoyStatistics of {self._admin}>"

    def families(self, service: str, labels: Mapping[str, str]) -> MetricFamilies:
        """Return metric families, none if Envoy is unavailable. `labels` are those of routes by `stat_name`. Blocks; called in a thread."""
        try:
            families = parse_families(self._page(), service, labels)
        except (OSError, HTTPException, ValueError):
            metrics.envoy_up.set(0)
            return {}
        metrics.envoy_up.set(1)
        return families

    def _page(self) -> str:
        """Fetch Envoy's metrics page. Raises OSError, HTTPException."""
        with closing(_AdminConnection("envoy", timeout=_TIMEOUT_SECONDS)) as connection:
            connection.path = self._admin
            connection.request("GET", "/stats/prometheus?" + urlencode({"usedonly": "", "filter": _FILTER}))
            response = connection.getresponse()
            if response.status != 200:
                raise HTTPException(f"status {response.status}")
            return response.read().decode()


class _AdminConnection(HTTPConnection):
    """Connection to a Unix socket; httpx does not close one that fails to connect."""

    path: Path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_SECONDS)
        self.sock.connect(str(self.path))


def parse_families(text: str, service: str, labels: Mapping[str, str]) -> MetricFamilies:
    """Parse Envoy's page. Clusters of removed routes and of gate itself are omitted."""
    families: MetricFamilies = {}
    _, *parts = _TYPE.split(text)
    for name, kind, lines in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        samples = [line for each in lines.splitlines() if (line := _line(each, service, labels))]
        if samples:
            families[name] = MetricFamilyText(kind, "As counted by Envoy.", samples)
    return families


def _line(line: str, service: str, labels: Mapping[str, str]) -> str:
    """Return a sample line with gate's labels, or "" to omit it."""
    name, brace, rest = line.partition("{")
    if not brace:
        return ""
    labels_text, _, value = rest.rpartition("}")
    if (match := _CLUSTER.search(labels_text)) is not None:
        label = labels.get(match[1])
        if label is None:
            return ""
        labels_text = f'{labels_text[: match.start()]},envoy_cluster_name="{escape_label(label)}"{labels_text[match.end() :]}'
    separator = "," if labels_text and not labels_text.startswith(",") else ""
    return f'{name}{{service="{escape_label(service)}",plane="envoy"{separator}{labels_text}}}{value}'


def merge_families(families: MetricFamilies, envoy_families: MetricFamilies) -> MetricFamilies:
    """Merge Envoy's families into gate's, and return them."""
    for name, family in envoy_families.items():
        if name in families:
            families[name].lines.extend(family.lines)
        else:
            families[name] = family
    return families
