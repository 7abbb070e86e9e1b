"""Commands that serve gate's ASGI application: Daphne's in its ways, and servers that know nothing of gate.  With TLS, all of them."""

from pathlib import Path

from tests.support.certs import CertificateFiles

APPLICATION = "gateproject.asgi:application"


def daphne(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """TLS is the endpoint's."""
    endpoint = f"ssl:{port}:privateKey={certificates.key}:certKey={certificates.certificate}:interface=127.0.0.1"
    return ("-m", "daphne", "-e", endpoint, APPLICATION)


def daphne_with_configured_tls(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    return ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), APPLICATION)


# What `daphne` has in its configuration, and every other server: TLS ends elsewhere than in the configuration.
TLS_ELSEWHERE = {"insecure_server": True, "certificate_file": None, "certificate_key_file": None}
