"""Well-known documents: keys and client metadata."""

import base64
import json
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.authenticate_site import ORIGIN, Site
from tests.support.fake_idp import EC_KEY


async def test_without_a_signing_key_there_is_no_key_set(site: Site) -> None:
    response = await site.browser().get("/.well-known/gate/jwks.json")
    assert response.status == 404
    assert json.loads(response.text)["status"] == 404


async def test_the_key_set_holds_the_public_key_only(tmp_path: Path, site: Site) -> None:
    pem = EC_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    signing = Site(tmp_path, site.idp, site._django_pages, signing_key=base64.b64encode(pem).decode())
    response = await signing.browser().get("/.well-known/gate/jwks.json")
    (key,) = json.loads(response.text)["keys"]
    assert (response.status, response.headers["content-type"]) == (200, "application/json")
    assert (key["kty"], key["alg"], key["kid"]) == ("EC", "ES256", signing.service.signing_key.kid)
    assert "d" not in key
    await signing.service.stop()


async def test_the_endpoints_are_named(site: Site) -> None:
    response = await site.browser().get("/.well-known/gate/")
    assert json.loads(response.text) == {
        "authentication_callback_endpoint": f"{ORIGIN}/oauth2/callback",
        "jwks_uri": f"{ORIGIN}/.well-known/gate/jwks.json",
        "backchannel_logout_supported": True,
        "backchannel_logout_session_supported": True,
        "backchannel_logout_uri": f"{ORIGIN}/.gate/backchannel_logout",
        "backchannel_logout_session_required": True,
        "frontchannel_logout_supported": True,
        "frontchannel_logout_session_supported": True,
        "frontchannel_logout_uri": f"{ORIGIN}/.gate/frontchannel_logout",
        "frontchannel_logout_session_required": True,
    }


async def test_provider_without_id_tokens_has_no_logout(tmp_path: Path, site: Site) -> None:
    github = Site(tmp_path, site.idp, site._django_pages, idp_provider="github")
    document = json.loads((await github.browser().get("/.well-known/gate/")).text)
    assert {name: value for name, value in document.items() if "logout" in name} == {
        f"{channel}_logout_{which}supported": False for channel in ("backchannel", "frontchannel") for which in ("", "session_")
    }
    await github.service.stop()


async def test_they_are_for_reading(site: Site) -> None:
    assert (await site.browser().post("/.well-known/gate/", {})).status == 405
