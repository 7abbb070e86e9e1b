"""Request metrics: requests that end, by a host that is ours, whatever clients say."""

from collections.abc import Collection

from authorize.policy.paths.canonical import canonical_host
from foundation.errors import BadRequest
from foundation.telemetry.http_calls import OTHER, HttpCalls

_MOST_SPELLINGS = 1000


class RequestCounter:
    """Request counter.  `hosts` are those of routes and of our own pages, wildcards as they are written."""

    def __init__(self, service: str, hosts: Collection[str]):
        self._calls = HttpCalls.answered(service)
        self._hosts = frozenset(hosts)
        self._names: dict[bytes, str] = {}

    def __call__(self, host: bytes, method: bytes, status: int, seconds: float, received: int | None, sent: int | None) -> None:
        """`host` as the client wrote it; empty, as the method, where there was no request to be read."""
        self._calls.ended(self._name(host), method.decode(), str(status), seconds, received, sent)

    def _name(self, raw: bytes) -> str:
        if (known := self._names.get(raw)) is not None:
            return known
        try:
            host, _ = canonical_host(raw)
        except BadRequest:
            return OTHER
        wildcard = f"*.{host.partition('.')[2]}"
        name = host if host in self._hosts else wildcard if wildcard in self._hosts else OTHER
        if name is not OTHER and len(self._names) < _MOST_SPELLINGS:
            self._names[raw] = name
        return name
