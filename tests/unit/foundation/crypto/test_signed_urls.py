from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from foundation.crypto.signed_urls import LEEWAY, LIFETIME, UrlExpired, UrlSigner
from foundation.errors import SealError
from tests.support.options import SHARED_SECRET, make_options

NOW = 1_800_000_000.0
URL = "https://auth.example.com/.gate/sign_in"
PARAMS = {"gate_redirect_uri": "https://app.example.com/a b?x=1&y=ü#", "gate_attempt": "abc"}


@pytest.fixture
def signer(tmp_path: Path) -> UrlSigner:
    return UrlSigner(make_options(tmp_path))


def test_a_signed_url_gives_its_params_back(signer: UrlSigner) -> None:
    assert signer.verify(signer.sign(URL, PARAMS, NOW), NOW) == PARAMS


def test_the_query_is_sorted_and_names_its_times(signer: UrlSigner) -> None:
    keys = [key for key, _ in parse_qsl(urlsplit(signer.sign(URL, PARAMS, NOW)).query)]
    assert keys == ["gate_attempt", "gate_expiry", "gate_issued", "gate_redirect_uri", "gate_signature"]


def test_every_changed_character_is_noticed(signer: UrlSigner) -> None:
    url = signer.sign(URL, PARAMS, NOW)
    for position in range(len("https://"), len(url)):
        changed = url[:position] + ("x" if url[position] != "x" else "y") + url[position + 1 :]
        with pytest.raises(SealError):
            signer.verify(changed, NOW)


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("/.gate/sign_in", "/.gate/signout/"),
        lambda url: url.replace("auth.example.com", "auth.example.com:8443"),
        lambda url: url.replace("https://auth", "http://auth"),
        lambda url: url + "&gate_redirect_uri=https%3A%2F%2Fevil.example",
        lambda url: url.replace("?", "?gate_redirect_uri=https%3A%2F%2Fevil.example&"),
        lambda url: url + "&extra=1",
        lambda url: url.split("&gate_signature")[0],
        lambda url: url.split("gate_signature=")[0] + "gate_signature=",
        lambda url: url.split("?")[0],
        lambda url: url + "&" * 50,
    ],
)
def test_added_removed_or_doubled_parts_are_refused(signer: UrlSigner, change) -> None:
    with pytest.raises(SealError) as refusal:
        signer.verify(change(signer.sign(URL, PARAMS, NOW)), NOW)
    assert not isinstance(refusal.value, UrlExpired)


def test_the_window_is_five_minutes_and_one_of_leeway(signer: UrlSigner) -> None:
    url = signer.sign(URL, PARAMS, NOW)
    assert signer.verify(url, NOW + LIFETIME + LEEWAY) == PARAMS
    assert signer.verify(url, NOW - LEEWAY) == PARAMS
    for moment in (NOW + LIFETIME + LEEWAY + 1, NOW - LEEWAY - 1):
        with pytest.raises(UrlExpired) as refusal:
            signer.verify(url, moment)
        assert (str(refusal.value), refusal.value.params) == ("this link has expired", PARAMS)


def test_another_secret_signs_differently(signer: UrlSigner, tmp_path: Path) -> None:
    other = UrlSigner(make_options(tmp_path, shared_secret=SHARED_SECRET.replace("I", "J", 1)))
    with pytest.raises(SealError):
        other.verify(signer.sign(URL, PARAMS, NOW), NOW)


def test_while_a_secret_is_replaced_the_first_signs_and_both_verify(signer: UrlSigner, tmp_path: Path) -> None:
    new = SHARED_SECRET.replace("I", "J", 1)
    rotating = UrlSigner(make_options(tmp_path, shared_secret=[new, SHARED_SECRET]))
    assert rotating.verify(signer.sign(URL, PARAMS, NOW), NOW) == PARAMS
    assert UrlSigner(make_options(tmp_path, shared_secret=new)).verify(rotating.sign(URL, PARAMS, NOW), NOW) == PARAMS
    with pytest.raises(SealError):
        signer.verify(rotating.sign(URL, PARAMS, NOW), NOW)
