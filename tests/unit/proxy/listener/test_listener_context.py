from pathlib import Path

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from proxy.listener.listener_context import ListenerContext, ListenerSettings, default_settings, scope_address
from tests.support.certs import certificate_files
from tests.support.options import make_options


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
def test_scope_address(address, expected):
    assert scope_address(address) == expected


def with_certificate(directory: Path) -> dict[str, object]:
    files = certificate_files(directory, "a.example.com")
    return {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}


def test_limits_are_those_of_the_options(tmp_path: Path) -> None:
    state = ListenerSettings.build(make_options(tmp_path, timeout_read="7s", timeout_idle="9s"))
    assert (state.limits.read_timeout, state.limits.idle_timeout) == (7.0, 9.0)
    assert state.certificates is None


def test_unchanged_pair_keeps_its_tls_contexts(tmp_path: Path) -> None:
    settings = with_certificate(tmp_path)
    old = ListenerSettings.build(make_options(tmp_path, **settings))
    new = ListenerSettings.build(make_options(tmp_path, **settings, timeout_read="1s"), old)
    assert new.certificates is old.certificates
    assert new.limits.read_timeout == 1.0


def test_changed_pair_gets_new_contexts(tmp_path: Path) -> None:
    old = ListenerSettings.build(make_options(tmp_path, **with_certificate(tmp_path)))
    new = ListenerSettings.build(make_options(tmp_path, **with_certificate(tmp_path)), old)
    assert new.certificates is not old.certificates


def test_where_something_in_front_ends_tls_pairs_are_not_used(tmp_path: Path) -> None:
    assert ListenerSettings.build(make_options(tmp_path, **{**with_certificate(tmp_path), "insecure_server": True})).certificates is None


def test_rejection_is_reported_with_status_only() -> None:
    reported: list[tuple[object, ...]] = []
    ListenerContext(None, default_settings, lambda *facts: reported.append(facts)).count_rejection(400)
    assert reported == [(b"", b"", 400, 0.0, 0, 0)]
