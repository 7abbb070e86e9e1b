"""Secret names are independent of issuance, and each certificate has its own staple."""

import asyncio
import base64
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from structlog.testing import capture_logs

from foundation.values import CertificatePair, SecretBytes
from proxy.envoy.resources import certificate_secrets
from proxy.envoy.resources.certificate_secrets import EnvoyCertificates, StapledCertificate, certificate_names, secrets_for
from proxy.listener.tls.acme_state import AcmeState
from tests.support.certs import certificate_files
from tests.support.eventually import eventually
from tests.support.options import make_options

APP = "app.example.com"
NO_CLIENT = CertificatePair(b"placeholder", SecretBytes(b"key"), "")


def pair_for(directory: Path, host: str) -> CertificatePair:
    directory.mkdir()
    files = certificate_files(directory, host)
    return CertificatePair(files.certificate.read_bytes(), SecretBytes(files.key.read_bytes()), "")


def fingerprint(pair: CertificatePair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).fingerprint(hashes.SHA256())


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"autocert": True}, ("obtained-auth.example.com",)),
        ({"autocert": True, "authenticate_service_url": "https://auth.localhost"}, ("placeholder",)),
        ({"insecure_server": True}, ()),
    ],
)
def test_names_follow_from_the_configuration(tmp_path: Path, settings: dict[str, object], names: tuple[str, ...]) -> None:
    options = make_options(tmp_path, data_plane="envoy", **{"insecure_server": None, **settings})
    assert certificate_names(options) == names
    assert set(secrets_for(options, AcmeState(), NO_CLIENT)) == set(names)


def test_configured_secrets_come_first_and_missing_ones_have_placeholders(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "auth.example.com")
    route = {"from": f"https://{APP}", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
    pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    options = make_options(tmp_path, data_plane="envoy", insecure_server=None, autocert=True, policy=[route], **pair)
    acme_state = AcmeState()
    assert certificate_names(options) == ("configured-0", f"obtained-{APP}")
    before = secrets_for(options, acme_state, NO_CLIENT)
    assert (before["configured-0"].pair, before[f"obtained-{APP}"].pair) == (options.certificate_pairs[0], NO_CLIENT)
    mine = pair_for(tmp_path / "app", APP)
    acme_state.pairs = {APP: mine, "other.example.com": NO_CLIENT}
    acme_state.staples = {fingerprint(mine): b"of app", fingerprint(options.certificate_pairs[0]): b"of auth"}
    after = secrets_for(options, acme_state, NO_CLIENT)
    assert after == {
        "configured-0": StapledCertificate(options.certificate_pairs[0], b"of auth"),
        f"obtained-{APP}": StapledCertificate(mine, b"of app"),
    }


async def test_new_secret_is_published_once_and_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_secrets, "SYNC_INTERVAL", 0.01)
    acme_state, published = AcmeState(), []

    def publish(certificates: Mapping[str, StapledCertificate]) -> None:
        published.append(certificates)
        if len(published) == 1:
            raise OSError(28, "No space left on device")

    with capture_logs() as log, socket.socket(socket.AF_UNIX) as listener:
        made = EnvoyCertificates(acme_state, listener)
        (before,) = made.reconfigure(make_options(tmp_path, data_plane="envoy", insecure_server=None, autocert=True)).values()
        following = asyncio.ensure_future(made.sync(publish))
        pair = pair_for(tmp_path / "auth", "auth.example.com")
        acme_state.pairs = {"auth.example.com": pair}
        await eventually(lambda: len(published) >= 2)
        await asyncio.sleep(0.1)
        following.cancel()
    assert before.pair != pair
    assert published == [{"obtained-auth.example.com": StapledCertificate(pair)}] * 2
    assert [entry["reason"] for entry in log] == ["No space left on device"]


def test_a_secret_has_the_key_and_the_staple_if_there_is_one() -> None:
    pair = CertificatePair(b"chain", SecretBytes(b"key"), "")
    secret = StapledCertificate(pair, b"staple").secret("a")
    assert secret["name"] == "a"
    assert secret["tls_certificate"] == {
        "certificate_chain": {"inline_string": "chain"},
        "private_key": {"inline_string": "key"},
        "ocsp_staple": {"inline_bytes": base64.b64encode(b"staple").decode()},
    }
    assert "ocsp_staple" not in StapledCertificate(pair).secret("a")["tls_certificate"]
