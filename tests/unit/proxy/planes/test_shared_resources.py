"""Resources that outlive a configuration and follow the next one."""

import socket
from pathlib import Path

import pytest

from authorize.policy.route_table import RouteTable
from proxy.planes.shared_resources import SharedResources
from proxy.route_forwarding import ForwardingTable
from tests.support.options import make_options

CHECKED = {
    "from": "https://app.example.com",
    "to": "http://127.0.0.1:9",
    "allow_any_authenticated_user": True,
    "health_checks": [{"timeout": "1s", "interval": "1h", "unhealthy_threshold": 1, "healthy_threshold": 1, "tcp_health_check": {}}],
}


@pytest.mark.parametrize(("services", "is_checked"), [("all", True), ("authenticate", False)])
async def test_upstreams_are_checked_by_the_data_plane(tmp_path: Path, services: str, is_checked: bool) -> None:
    options = make_options(tmp_path, policy=[CHECKED], dns_lookup_family="V4_ONLY").model_copy(update={"services": services})
    state = ForwardingTable(RouteTable.build(options.policy, client_ca=None).routes(), options)
    resources = SharedResources()
    try:
        resources.reconfigure(options, state)
        assert resources.upstream_client.family == socket.AF_INET
        assert bool(resources.health._running) is is_checked
        assert resources.active_forwarding_table is state, "the next one takes from it what is the same"
        resources.reconfigure(options, None)
        assert not resources.health._running
    finally:
        await resources.close()
