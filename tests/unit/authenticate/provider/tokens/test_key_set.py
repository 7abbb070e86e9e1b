"""Keys come from the issuer's `jwks_uri`, and no flood of bad tokens makes us ask for them again and again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from authenticate.provider.address_scope import AddressScope
from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.tokens.key_set import ALGORITHMS, KeySet, parse, select_key
from foundation.errors import ProviderError
from tests.support.authenticate_site import Clock, Site
from tests.support.fake_idp import ABSENT, OTHER_RSA_KEY, Answer, FakeIdP
from tests.support.options import make_options


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def key_set(tmp_path: Path, clock: Clock) -> AsyncIterator[KeySet]:
    http = ProviderHttp(make_options(tmp_path), AddressScope(None))
    yield KeySet(http, clock)
    await http.close()


async def test_keys_are_fetched_once_an_hour(key_set: KeySet, idp: FakeIdP, clock: Clock) -> None:
    for _ in range(3):
        assert len(await key_set.keys(f"{idp.issuer}/jwks")) == 1
    assert idp.count("/jwks") == 1
    clock.ahead = 3601
    await key_set.keys(f"{idp.issuer}/jwks")
    assert idp.count("/jwks") == 2


async def test_newer_keys_are_fetched_at_intervals_of_ten_seconds(key_set: KeySet, idp: FakeIdP, clock: Clock) -> None:
    await key_set.keys(f"{idp.issuer}/jwks")
    for fetches in (2, 3):
        clock.ahead += 11
        for _ in range(50):
            await key_set.refetched_keys(f"{idp.issuer}/jwks")
        assert idp.count("/jwks") == fetches


async def test_keys_that_were_just_fetched_are_fetched_again_for_a_key_that_is_not_among_them(key_set: KeySet, idp: FakeIdP) -> None:
    await key_set.keys(f"{idp.issuer}/jwks")
    await asyncio.gather(*(key_set.refetched_keys(f"{idp.issuer}/jwks") for _ in range(50)))
    assert idp.count("/jwks") == 2


async def test_a_failed_renewal_leaves_the_known_keys_in_force(key_set: KeySet, idp: FakeIdP, clock: Clock) -> None:
    await key_set.keys(f"{idp.issuer}/jwks")
    idp.bend.answers["/jwks"] = Answer(500)
    clock.ahead = 11
    with pytest.raises(ProviderError):
        await key_set.refetched_keys(f"{idp.issuer}/jwks")
    assert len(await key_set.keys(f"{idp.issuer}/jwks")) == 1


@pytest.mark.parametrize("document", [{}, {"keys": None}, {"keys": {}}, {"keys": [{}] * 101}, {"keys": "x"}])
def test_invalid_key_set_is_refused(document: dict) -> None:
    with pytest.raises(ProviderError):
        parse(document)


async def test_a_rotated_key_is_found_at_once(site: Site) -> None:
    await site.browser().sign_in()
    site.idp.signing_key, site.idp.kid = OTHER_RSA_KEY, "key-2"
    assert (await site.browser().sign_in()).status == 302
    assert site.idp.count("/jwks") == 2


async def test_a_key_changed_under_the_same_id_is_found_too(site: Site) -> None:
    await site.browser().sign_in()
    site.idp.signing_key = OTHER_RSA_KEY
    assert (await site.browser().sign_in()).status == 302


async def test_a_flood_of_unknown_keys_costs_one_fetch(site: Site) -> None:
    await site.browser().sign_in()
    site.idp.bend.header = {"kid": "unknown"}
    for _ in range(5):
        assert (await site.browser().sign_in()).status == 503
    assert site.idp.count("/jwks") == 2


async def test_a_token_without_key_id_is_fine_where_one_key_fits(site: Site) -> None:
    site.idp.bend.header = {"kid": ABSENT}
    assert (await site.browser().sign_in()).status == 302


async def test_keys_at_another_location_are_never_fetched(site: Site) -> None:
    site.idp.bend.header = {"jku": f"{site.idp.issuer}/evil", "x5u": f"{site.idp.issuer}/evil"}
    assert (await site.browser().sign_in()).status == 302
    assert site.idp.count("/evil") == 0


RSA_KEY = rsa.generate_private_key(65537, 2048)
PRIVATE = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSA_KEY),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def published(algorithm: str) -> dict:
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(PRIVATE[algorithm].public_key(), as_dict=True), "kid": "1"}


def test_there_is_a_key_for_each_algorithm() -> None:
    assert PRIVATE.keys() == ALGORITHMS.keys()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_is_verified_by_the_key_of_its_algorithm(algorithm: str) -> None:
    token = jwt.encode({"sub": "a"}, PRIVATE[algorithm], algorithm)
    key = select_key((published(algorithm),), algorithm, "1")
    assert key is not None
    assert jwt.decode(token, key, algorithms=[algorithm]) == {"sub": "a"}


@pytest.mark.parametrize(
    ("algorithm", "other"), [("ES256", "ES384"), ("ES384", "ES512"), ("ES512", "ES256"), ("ES384", "RS384"), ("RS512", "ES512")]
)
def test_a_key_of_another_kind_or_curve_does_not_fit(algorithm: str, other: str) -> None:
    assert select_key((published(other),), algorithm, "1") is None


def without_id(key: dict) -> dict:
    return {name: value for name, value in key.items() if name != "kid"}


KEY, OTHER = published("ES256"), {**published("RS256"), "alg": "ES256"}
SECOND = jwt.get_algorithm_by_name("ES256").to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)


@pytest.mark.parametrize(
    ("keys", "kid", "is_found"),
    [
        ([without_id(KEY)], "2", True),
        ([without_id(KEY), without_id(KEY)], "2", True),  # published twice
        ([without_id(KEY), OTHER], "2", True),  # the other one is no key of this algorithm
        ([without_id(KEY), SECOND], "2", False),
        ([without_id(KEY), {**SECOND, "kid": "1"}], "2", False),
        ([without_id(KEY), {**SECOND, "kid": "2"}], "2", True),
        ([KEY], "2", False),
        ([{**KEY, "kid": None}], "2", False),
        ([KEY], "", False),
        ([], "2", False),
        ([without_id(KEY), {**SECOND, "kid": "1"}], None, False),
    ],
)
def test_a_key_without_an_id_fits_where_it_is_the_only_one(keys: list[dict], kid: str | None, is_found: bool) -> None:
    assert (select_key(tuple(keys), "ES256", kid) is not None) == is_found


async def test_a_token_with_key_id_is_fine_where_the_only_key_has_none(site: Site) -> None:
    site.idp.bend.answers["/jwks"] = Answer.json({"keys": [without_id(site.idp.jwks()["keys"][0])]})
    assert (await site.browser().sign_in()).status == 302
    site.idp.signing_key = OTHER_RSA_KEY
    assert (await site.browser().sign_in()).status == 503


@pytest.mark.parametrize("kid", ["1", None])
def test_duplicate_key_counts_once_and_two_keys_do_not(kid: str | None) -> None:
    key, other = published("ES256"), {**published("ES256"), "use": "sig"}
    assert select_key((key, dict(key)), "ES256", kid) is not None
    assert select_key((key, other), "ES256", kid) is None
