import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from proxy.listener.context import scope_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (IPv4Address("TCP", "192.0.2.1", 5), ["192.0.2.1", 5]),
        (IPv6Address("TCP", "2001:db8::1", 5), ["2001:db8::1", 5]),
        (IPv6Address("TCP", "fe80::1%eth0", 5), ["fe80::1%eth0", 5]),
        (IPv6Address("TCP", "::ffff:192.0.2.1", 5), ["192.0.2.1", 5]),
        (UNIXAddress(b"/tmp/socket"), None),
    ],
)
def test_addresses_are_what_policies_compare(address, expected):
    assert scope_address(address) == expected
