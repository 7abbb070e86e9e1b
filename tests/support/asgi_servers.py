"""Commands that serve gate's ASGI application: Daphne's in its ways, and servers that know nothing of gate.  With TLS, all of them."""

from collections.abc import Callable
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


def uvicorn(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """As it is by default, so it believes what a peer on loopback says of a client."""
    tls = ("--ssl-keyfile", certificates.key, "--ssl-certfile", certificates.certificate)
    return ("-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port), *tls, APPLICATION)


def hypercorn(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    return (
        "-m",
        "hypercorn",
        "--bind",
        f"127.0.0.1:{port}",
        "--keyfile",
        certificates.key,
        "--certfile",
        certificates.certificate,
        APPLICATION,
    )


def daphnes_own_classes(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """Daphne's server as other programs start it, with its own connections: its parser, no lifespan, websockets by autobahn."""
    return _with_daphnes_classes(f"ssl:{port}:privateKey={certificates.key}:certKey={certificates.certificate}:interface=127.0.0.1")


def _with_daphnes_classes(endpoint: str, **options: str) -> tuple[str, ...]:
    start = "from daphne.server import Server; from gateproject.asgi import application"
    return ("-c", f"{start}; Server(application, endpoints=[{endpoint!r}], **{options!r}).run()")


OTHERS = {"uvicorn": uvicorn, "hypercorn": hypercorn, "Daphne's own classes": daphnes_own_classes}

# The same at a unix socket, of this name, without TLS.  The first is ours.
AT_A_SOCKET: dict[str, Callable[[str], tuple[str, ...]]] = {
    "daphne": lambda name: ("-m", "daphne", "-u", name, APPLICATION),
    "uvicorn": lambda name: ("-m", "uvicorn", "--uds", name, APPLICATION),
    "uvicorn that believes everybody": lambda name: ("-m", "uvicorn", "--forwarded-allow-ips", "*", "--uds", name, APPLICATION),
    "hypercorn": lambda name: ("-m", "hypercorn", "--bind", f"unix:{name}", APPLICATION),
    "Daphne's own classes": lambda name: _with_daphnes_classes(f"unix:{name}"),
    "Daphne's own classes that believe everybody": lambda name: _with_daphnes_classes(
        f"unix:{name}", proxy_forwarded_address_header="X-Forwarded-For", proxy_forwarded_port_header="X-Forwarded-Port"
    ),
}
