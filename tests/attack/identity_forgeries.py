"""ID tokens that a careless reader would believe: unsigned, signed with the wrong key or kind of key, or of a bent shape."""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.fake_idp import ABSENT, EC_KEY, OTHER_RSA_KEY, RSA_KEY, encoded, public_jwk, signed

Claims = dict[str, Any]
Make = Callable[[Claims, Claims], str]  # (header, claims) as they should be -> the token
MEBIBYTE = 1 << 20


def _segments(header: Claims, claims: Claims) -> str:
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"


def _unsigned(alg: Any, signature: str) -> Make:
    return lambda header, claims: f"{_segments(without_absent({**header, 'alg': alg}), claims)}.{signature}"


def _hmac_with(alg: str, key: bytes) -> Make:
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[alg]

    def make(header: Claims, claims: Claims) -> str:
        text = _segments({**header, "alg": alg}, claims)
        return f"{text}.{encoded(hmac.new(key, text.encode(), digest).digest())}"

    return make


def _public_keys() -> Iterator[tuple[str, bytes]]:
    """The provider's public key in every spelling that a confused reader might take for a shared secret."""
    public = RSA_KEY.public_key()
    for name, encoding, form in (
        ("PEM", Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        ("DER", Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        ("PKCS1 PEM", Encoding.PEM, PublicFormat.PKCS1),
        ("PKCS1 DER", Encoding.DER, PublicFormat.PKCS1),
        ("SSH", Encoding.OpenSSH, PublicFormat.OpenSSH),
    ):
        key = public.public_bytes(encoding, form)
        yield name, key
        yield f"{name} without its end", key.strip()
    jwk = public_jwk(RSA_KEY, "RS256", "key-1")
    yield "JWK", json.dumps(jwk).encode()
    yield "JWK without spaces", json.dumps(jwk, separators=(",", ":")).encode()
    yield "modulus as text", jwk["n"].encode()
    yield "modulus", public.public_numbers().n.to_bytes(256, "big")
    yield "client secret", b"client-secret"
    yield "nothing", b""


def forgeries() -> Iterator[tuple[str, Make]]:
    for alg in (
        "none",
        "None",
        "NONE",
        "nOnE",
        " none",
        "none\x00",
        "",
        None,
        ABSENT,
        [],
        ["RS256"],
        {"alg": "RS256"},
        256,
        True,
        "RS256 ",
        "rs256",
        "RS257",
    ):
        for label, signature in (("no signature", ""), ("a made-up signature", "AAAA"), ("a dot", ".")):
            yield f"alg {alg!r} with {label}", _unsigned(alg, signature)
    for spelling, key in _public_keys():
        for alg in ("HS256", "HS384", "HS512"):
            yield f"{alg} with the key's {spelling}", _hmac_with(alg, key)
    yield "RS256 without a signature", _unsigned("RS256", "")
    yield "RS256 with 256 zeros", _unsigned("RS256", encoded(bytes(256)))
    yield "RS256 with a signature of one", _unsigned("RS256", encoded(bytes(255) + b"\x01"))
    yield "ES256 with r = s = 0", _unsigned("ES256", encoded(bytes(64)))
    yield "ES256 of an unpublished key", lambda header, claims: signed({**header, "alg": "ES256"}, claims, EC_KEY, "ES256")
    yield "another key, same kid", lambda header, claims: signed(header, claims, OTHER_RSA_KEY, "RS256")
    yield "another key, no kid", lambda header, claims: signed(without_absent({**header, "kid": ABSENT}), claims, OTHER_RSA_KEY, "RS256")
    yield (
        "another key in the header",
        lambda header, claims: signed({**header, "jwk": public_jwk(OTHER_RSA_KEY, "RS256", "key-1")}, claims, OTHER_RSA_KEY, "RS256"),
    )
    for name in ("jku", "x5u"):
        yield f"another key by {name}", _signed_by_another({name: "http://127.0.0.1:9/keys"})
    yield "another key by x5c", _signed_by_another({"x5c": ["MIIB"]})
    for kid in (
        "../../dev/null",
        "/dev/null",
        "key-1\x00",
        "' OR 1=1 --",
        "http://evil.example/jwks",
        "key-1/../key-2",
        "key-2",
        "",
        "KEY-1",
        "a" * 9000,
    ):
        yield f"another key with kid {kid[:30]!r}", _signed_by_another({"kid": kid})
        yield f"the right key with kid {kid[:30]!r}", partial(_kid, kid)
    yield "PS256 with the RS256 key", lambda header, claims: signed({**header, "alg": "RS256"}, claims, RSA_KEY, "PS256")
    yield from _shapes()


def _signed_by_another(more: Claims) -> Make:
    return lambda header, claims: signed({**header, **more}, claims, OTHER_RSA_KEY, "RS256")


def _kid(kid: str, header: Claims, claims: Claims) -> str:
    return signed({**header, "kid": kid}, claims, RSA_KEY, "RS256")


def _shapes() -> Iterator[tuple[str, Make]]:
    """Tokens whose text is bent; where the signature covers the bend, it is a right one."""
    bends: dict[str, Callable[[str], str]] = {
        "a bit of the signature flipped": lambda token: token[:-10] + ("A" if token[-10] != "A" else "B") + token[-9:],
        "a shortened signature": lambda token: token[:-8],
        "a longer signature": lambda token: token + "AAAA",
        "a signature of another token": lambda token: token.rpartition(".")[0] + "." + encoded(secrets.token_bytes(256)),
        "padding": lambda token: token + "==",
        "a newline at the end": lambda token: token + "\n",
        "a space before": lambda token: " " + token,
        "a newline within": lambda token: token[:30] + "\n" + token[30:],
        "a dot at the end": lambda token: token + ".",
        "a dot before": lambda token: "." + token,
        "five segments": lambda token: token + ".AAAA.AAAA",
        "two segments": lambda token: token.rpartition(".")[0],
        "one segment": lambda token: token.partition(".")[0],
        "three dots": lambda token: "...",
        "standard base64": lambda token: token.replace("-", "+").replace("_", "/") + "+/",
        "Bearer before it": lambda token: "Bearer " + token,
        "a second token after it": lambda token: f"{token} {token}",
        "no text at all": lambda token: " ",
        "letters outside ASCII": lambda token: token[:-1] + "é",
        "a mebibyte of signature": lambda token: token + "A" * MEBIBYTE,
    }
    for label, bend in bends.items():
        yield label, partial(_bent, bend)
    for label, payload in (
        ("sub", '"sub":"bob",'),
        ("nonce", '"nonce":"x",'),
        ("iss", '"iss":"https://evil.example",'),
        ("aud", '"aud":"x",'),
    ):
        yield f"{label} twice, the right one last", partial(_raw_payload, lambda text, first=payload: "{" + first + text[1:])
        yield f"{label} twice, the right one first", partial(_raw_payload, lambda text, last=payload: text[:-1] + "," + last[:-1] + "}")
    yield "alg twice", lambda header, claims: _signed_raw('{"alg":"none",' + json.dumps(header)[1:], json.dumps(claims))
    for label, payload in (
        ("a list", "[]"),
        ("null", "null"),
        ("text", '"x"'),
        ("nothing", ""),
        ("no JSON", "{"),
        ("NaN", '{"exp":NaN}'),
        ("deep", "[" * 9999),
    ):
        yield f"claims that are {label}", lambda header, claims, payload=payload: _signed_raw(json.dumps(header), payload)
        yield f"a header that is {label}", lambda header, claims, payload=payload: _signed_raw(payload, json.dumps(claims))
    yield "claims in UTF-16", lambda header, claims: _signed_bytes(json.dumps(header).encode(), json.dumps(claims).encode("utf-16"))
    yield (
        "claims with a byte order mark",
        lambda header, claims: _signed_bytes(json.dumps(header).encode(), b"\xef\xbb\xbf" + json.dumps(claims).encode()),
    )
    yield "a lone surrogate", lambda header, claims: _signed_raw(json.dumps(header), json.dumps({**claims, "name": "\ud800"}))
    yield "a mebibyte of claims", lambda header, claims: signed(header, {**claims, "x": "A" * MEBIBYTE}, RSA_KEY, "RS256")
    yield (
        "a token in a token",
        lambda header, claims: signed({**header, "cty": "JWT"}, {"jwt": signed(header, claims, RSA_KEY, "RS256")}, RSA_KEY, "RS256"),
    )


def _bent(bend: Callable[[str], str], header: Claims, claims: Claims) -> str:
    return bend(signed(header, claims, RSA_KEY, "RS256"))


def _raw_payload(bend: Callable[[str], str], header: Claims, claims: Claims) -> str:
    return _signed_raw(json.dumps(header), bend(json.dumps(claims)))


def _signed_raw(header: str, claims: str) -> str:
    return _signed_bytes(header.encode(), claims.encode())


def _signed_bytes(header: bytes, claims: bytes) -> str:
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{base64.urlsafe_b64encode(RSA_KEY.sign(text.encode(), PKCS1v15(), SHA256())).rstrip(b'=').decode()}"


def without_absent(members: Claims) -> Claims:
    return {name: value for name, value in members.items() if value is not ABSENT}
