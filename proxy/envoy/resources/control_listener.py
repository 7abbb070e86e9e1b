"""Control listener in Envoy, through which gate resets or closes client connections (control_listener.lua)."""

from collections.abc import Iterable
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_pton

from proxy.envoy.resources.bootstrap import TYPE, Json
from proxy.envoy.resources.internal_headers import Address
from proxy.envoy.resources.lua_scripts import LUA, quoted_bytes, render_script

RECORD_BYTES = 18
_SCRIPT = Path(__file__).with_name("control_listener.lua")
_NOT_FOUND: Json = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}
_IPV4_MAPPED = b"\0" * 10 + b"\xff\xff"  # RFC 4291 2.5.5.2


def records_for(peers: Iterable[Address]) -> bytes:
    """Return one record per peer: IPv6 address and port in network byte order. Raises OSError for an invalid address."""
    records = []
    for address, port in peers:
        address = address.partition("%")[0]  # the zone of a link-local address
        packed = inet_pton(AF_INET6, address) if ":" in address else _IPV4_MAPPED + inet_pton(AF_INET, address)
        records.append(packed + port.to_bytes(2, "big"))
    return b"".join(records)


def control_listener(path: Path, port: int) -> Json:
    """Return the listener resource, on a Unix socket that only this user can open. Clients connect to `port`."""
    source = render_script(_SCRIPT, {"PORT": quoted_bytes(port.to_bytes(2, "big"))})
    manager: Json = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "cuts",
        # gate keeps its connection open, because Envoy may have no file descriptor for a new one.
        "common_http_protocol_options": {"idle_timeout": "0s"},
        "http_filters": [
            {"name": "cuts", "typed_config": {"@type": LUA, "default_source_code": {"inline_string": source}}},
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPE}extensions.filters.http.router.v3.Router"}},
        ],
        "route_config": {"virtual_hosts": [{"name": "cuts", "domains": ["*"], "routes": [_NOT_FOUND]}]},
    }
    return {
        "name": "cuts",
        "address": {"pipe": {"path": str(path), "mode": 0o600}},
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }
