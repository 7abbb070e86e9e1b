"""Responses of a real CA; for responses that it does not give, see tests/unit/proxy/autocert/test_acme_client.py."""

from collections.abc import Iterator

import pytest

from foundation.values import SecretText
from tests.support.children import free_port
from tests.support.pebble import Pebble
from tests.unit.proxy.autocert.test_acme_client import authority, failure

MAC_KEY = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    """A CA whose validation requests reach no server; it requires external account binding."""
    keys = {"externalAccountBindingRequired": True, "externalAccountMACKeys": {"kid-1": MAC_KEY}}
    with Pebble(tmp_path_factory.mktemp("pebble"), tls_port=free_port(), nonces_refused=10, **keys) as running:
        yield running


BOUND = {"key_id": "kid-1", "mac_key": SecretText(MAC_KEY)}


def test_acme_account_is_stored_and_reused(pebble: Pebble) -> None:
    stored: list[dict] = []
    error = failure(authority(pebble.directory, trusted=pebble.trusted_ca, save=stored.append, email="a@example.com", **BOUND))
    assert "could not validate the host" in str(error)
    assert not error.is_global
    assert [bool(each["uri"]) for each in stored] == [False, True], "the key is kept before it is used"
    again: list[dict] = []
    failure(authority(pebble.directory, trusted=pebble.trusted_ca, account=stored[-1], save=again.append))
    assert again == []


def test_a_lost_url_is_found_by_the_key(pebble: Pebble) -> None:
    stored: list[dict] = []
    failure(authority(pebble.directory, trusted=pebble.trusted_ca, save=stored.append, **BOUND))
    again: list[dict] = []
    failure(authority(pebble.directory, trusted=pebble.trusted_ca, account={**stored[-1], "uri": None}, save=again.append, **BOUND))
    assert again[-1] == stored[-1]


def test_a_url_that_the_authority_does_not_know_is_forgotten(pebble: Pebble) -> None:
    stored: list[dict] = []
    failure(authority(pebble.directory, trusted=pebble.trusted_ca, save=stored.append, **BOUND))
    unknown = {**stored[-1], "uri": stored[-1]["uri"] + "0"}
    again: list[dict] = []
    error = failure(authority(pebble.directory, trusted=pebble.trusted_ca, account=unknown, save=again.append))
    assert error.is_global
    assert again == [{**stored[-1], "uri": None}]


def test_without_the_key_that_binds_it_there_is_no_account(pebble: Pebble) -> None:
    error = failure(authority(pebble.directory, trusted=pebble.trusted_ca))
    assert "externalAccountRequired" in str(error)
    assert error.is_global


@pytest.mark.parametrize("account", [{"key": "junk"}, {"key": {"kty": "EC"}}, {"uri": "https://x/1"}, {"key": None, "uri": 1}])
def test_a_broken_account_is_replaced(pebble: Pebble, account: dict) -> None:
    stored: list[dict] = []
    failure(authority(pebble.directory, trusted=pebble.trusted_ca, account=account, save=stored.append, **BOUND))
    assert stored[-1]["uri"]


def test_untrusted_acme_server_receives_nothing(pebble: Pebble) -> None:
    stored: list[dict] = []
    error = failure(authority(pebble.directory, save=stored.append, **BOUND))
    assert "SSLError" in str(error)
    assert error.is_global
    assert stored == []
