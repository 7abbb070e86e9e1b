import json

import pytest

from foundation.crypto.sealing import MAX_SEALED, SealedValueExpired, Sealer, derive_key, from_text, to_text
from foundation.errors import SealError

SECRET = bytes(range(32))
NOW = 1_800_000_000.0


def sealer(purpose: str = "test", secret: bytes = SECRET) -> Sealer:
    return Sealer((secret,), purpose)


def test_sealed_value_opens_for_the_same_audience() -> None:
    sealed = sealer().seal({"a": [1, "ü"]}, audience="app.example", expires_at=NOW + 1)
    assert sealer().open(sealed, audience="app.example", now=NOW) == {"a": [1, "ü"]}


def test_every_single_bit_flip_is_refused() -> None:
    box = from_text(sealer().seal({"sid": "x"}, audience="a", expires_at=NOW + 1))
    for position in range(len(box) * 8):
        flipped = bytearray(box)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(SealError):
            sealer().open(to_text(bytes(flipped)), audience="a", now=NOW)


def test_every_truncation_and_extension_is_refused() -> None:
    sealed = sealer().seal({"sid": "x"}, audience="a", expires_at=NOW + 1)
    for changed in [sealed[:length] for length in range(len(sealed))] + [sealed + "A", sealed + "=", " " + sealed, sealed + "\n"]:
        with pytest.raises(SealError):
            sealer().open(changed, audience="a", now=NOW)


@pytest.mark.parametrize(
    ("opener", "audience"),
    [
        pytest.param(sealer("other"), "a", id="another purpose"),
        pytest.param(sealer(secret=bytes(32)), "a", id="another secret"),
        pytest.param(sealer(), "b", id="another audience"),
        pytest.param(sealer(), "", id="no audience"),
    ],
)
def test_value_is_bound_to_its_purpose(opener: Sealer, audience: str) -> None:
    sealed = sealer().seal({}, audience="a", expires_at=NOW + 1)
    with pytest.raises(SealError):
        opener.open(sealed, audience=audience, now=NOW)


def test_the_first_secret_seals_and_all_of_them_open() -> None:
    old, new, strange = (Sealer((secret,), "test") for secret in (SECRET, bytes(32), b"x" * 32))
    rotating = Sealer((bytes(32), SECRET), "test")
    before = old.seal({"n": 1}, audience="a", expires_at=NOW + 1)
    after = rotating.seal({"n": 2}, audience="a", expires_at=NOW + 1)
    assert [rotating.open(value, audience="a", now=NOW)["n"] for value in (before, after)] == [1, 2]
    assert new.open(after, audience="a", now=NOW) == {"n": 2}
    for opener, value in ((old, after), (new, before), (strange, before), (rotating, strange.seal({}, audience="a", expires_at=NOW + 1))):
        with pytest.raises(SealError):
            opener.open(value, audience="a", now=NOW)


def test_expired_value_reports_only_its_age() -> None:
    sealed = sealer().seal({}, audience="a", expires_at=NOW)
    with pytest.raises(SealedValueExpired):
        sealer().open(sealed, audience="a", now=NOW)


def test_all_refusals_have_the_same_message() -> None:
    sealed = sealer().seal({}, audience="a", expires_at=NOW + 1)
    messages = set()
    for value, audience in [(sealed, "b"), ("", "a"), ("!" * 60, "a"), ("A" * 60, "a"), ("A" * 9000, "a"), ("é" * 60, "a")]:
        with pytest.raises(SealError) as refusal:
            sealer().open(value, audience=audience, now=NOW)
        messages.add(str(refusal.value))
    assert len(messages) == 1


def test_a_second_spelling_of_the_same_bytes_is_refused() -> None:
    """Base64 that leaves unused bits set, pads, or uses the other alphabet decodes to the same bytes elsewhere."""
    assert from_text("AA") == b"\0"
    for spelling in ("AB", "AA==", "A A", "AA\n"):
        with pytest.raises(ValueError, match=r"base64|spelling"):
            from_text(spelling)
    assert from_text("-_-_") == b"\xfb\xff\xbf"
    with pytest.raises(ValueError, match="spelling"):
        from_text("+/+/")


def test_nonces_never_repeat() -> None:
    one = sealer()
    nonces = {from_text(one.seal({}, audience="a", expires_at=NOW))[:12] for _ in range(2000)}
    assert len(nonces) == 2000


def test_each_purpose_has_a_key_of_its_own() -> None:
    keys = {derive_key(SECRET, purpose) for purpose in ("session cookie", "hand-over", "signed URL", "csrf cookie", "django")}
    assert len(keys) == 5
    assert all(len(key) == 32 for key in keys)


def test_a_sealer_never_shows_its_key() -> None:
    assert repr(sealer("session cookie")) == "<Sealer session cookie>"
    assert SECRET.hex() not in json.dumps(str(vars(sealer())))


def test_overlong_value_is_not_decrypted() -> None:
    """It would open; but what is this long is not from us, and hundreds of them in one request are work for nothing."""
    sealed = sealer().seal({"a": "x" * MAX_SEALED}, audience="a", expires_at=NOW + 1)
    with pytest.raises(SealError):
        sealer().open(sealed, audience="a", now=NOW)


def test_a_claim_that_another_release_did_not_seal_is_a_refusal() -> None:
    claims = sealer().open(sealer().seal({"sid": "x"}, audience="a", expires_at=NOW + 1), audience="a", now=NOW)
    assert claims["sid"] == "x"
    with pytest.raises(SealError, match="another release"):
        claims["acr"]
