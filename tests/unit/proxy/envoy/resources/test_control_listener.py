"""How gate names connections to Envoy."""

import re
from pathlib import Path

import pytest

from proxy.envoy.resources.control_listener import control_listener, records_for


@pytest.mark.parametrize(
    ("peer", "record"),
    [
        (("127.0.0.1", 258), "00000000000000000000ffff7f0000010102"),
        (("2001:db8::1", 80), "20010db80000000000000000000000010050"),
        (("fe80::1%2", 80), "fe8000000000000000000000000000010050"),
        (("::1", 1), "000000000000000000000000000000010001"),
    ],
)
def test_a_connection_is_an_address_and_a_port(peer: tuple[str, int], record: str) -> None:
    assert records_for([peer]).hex() == record


def test_refuses_invalid_peer_address() -> None:
    with pytest.raises(OSError, match="illegal IP address"):
        records_for([("gate", 1)])


def test_control_socket_is_private(tmp_path: Path) -> None:
    made = control_listener(tmp_path / "cuts", 8443)
    assert made["address"] == {"pipe": {"path": str(tmp_path / "cuts"), "mode": 0o600}}
    assert not re.search(r"\$[A-Z]", str(made))
