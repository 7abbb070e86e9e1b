"""Commands that serve gate's ASGI application with TLS: Daphne in several ways, and other servers."""

from collections.abc import Callable
from pathlib import Path

from tests.support.certs import CertificateFiles

APPLICATION = "gateproject.asgi:application"


def daphne(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """Return the command of Daphne with a TLS endpoint."""
    endpoint = f"ssl:{port}:privateKey={certificates.key}:certKey={certificates.certificate}:interface=127.0.0.1"
    return ("-m", "daphne", "-e", endpoint, APPLICATION)


def daphne_with_configured_tls(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    return ("-m", "daphne", "-b", "127.0.0.1", "-p", str(port), APPLICATION)


# Settings for all these servers: TLS is terminated outside of the configuration.
TLS_ELSEWHERE = {"insecure_server": True, "certificate_file": None, "certificate_key_file": None}


def uvicorn(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """Return the command of uvicorn with its defaults, so that it trusts forwarded headers from loopback."""
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


def daphne_server_class(port: int, certificates: CertificateFiles) -> tuple[str | Path, ...]:
    """Return a command that starts Daphne's server class with its connection classes: its parser, no lifespan, WebSocket by autobahn."""
    return _with_daphnes_classes(f"ssl:{port}:privateKey={certificates.key}:certKey={certificates.certificate}:interface=127.0.0.1")


def _with_daphnes_classes(endpoint: str, **options: str) -> tuple[str, ...]:
    start = "from daphne.server import Server; from gateproject.asgi import application"
    return ("-c", f"{start}; Server(application, endpoints=[{endpoint!r}], **{options!r}).run()")


OTHERS = {"uvicorn": uvicorn, "hypercorn": hypercorn, "Daphne's own classes": daphne_server_class}

# The same servers at a unix socket of this name, without TLS. The first is gate's command.
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
