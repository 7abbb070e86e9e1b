"""A real certificate authority for tests (Let's Encrypt's pebble), which validates hosts on configured ports."""

import json
import shutil
import ssl
from pathlib import Path
from typing import Any, Self

import httpx

from tests.support.certs import certificate_files
from tests.support.children import Child, clean_environment, free_ports

PROGRAM = shutil.which("pebble") or "pebble"
RESOLVER = shutil.which("pebble-challtestsrv") or "pebble-challtestsrv"


class Pebble:
    """The server. It resolves every host to 127.0.0.1: TLS-ALPN-01 at `tls_port`, HTTP-01 at `http_port`.

    `nonces_refused` is the percentage of valid nonces that it rejects; `settings` are added to its configuration file.
    """

    def __init__(self, directory: Path, *, tls_port: int, http_port: int | None = None, nonces_refused: int = 5, **settings: Any):
        directory.mkdir(parents=True, exist_ok=True)
        self._files = certificate_files(directory, "localhost", "127.0.0.1")
        self.port, self._management, self._dns, self._dns_management, nobodys = free_ports(5)
        self._config = directory / "pebble.json"
        config = {
            "listenAddress": f"127.0.0.1:{self.port}",
            "managementListenAddress": f"127.0.0.1:{self._management}",
            "certificate": str(self._files.certificate),
            "privateKey": str(self._files.key),
            "tlsPort": tls_port,
            "httpPort": http_port or nobodys,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": False,
            **settings,
        }
        self._config.write_text(json.dumps({"pebble": config}))
        self._environment = clean_environment(PEBBLE_VA_NOSLEEP="1", PEBBLE_WFE_NONCEREJECT=str(nonces_refused), PEBBLE_AUTHZREUSE="0")
        dns = ("-dns01", f"127.0.0.1:{self._dns}", "-management", f"127.0.0.1:{self._dns_management}")
        others = ("-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "")
        self._resolver = Child(RESOLVER, *dns, *others)
        self.child: Child | None = None
        try:
            self._resolver.wait_for_line("Starting management server")
            self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self) -> None:
        """Start it, also after `stop`: then it has no accounts and new roots."""
        self.child = Child(PROGRAM, "-config", self._config, "-dnsserver", f"127.0.0.1:{self._dns}", environment=self._environment)
        self.child.wait_for_line("ACME directory available at")
        self.child.wait_for(self._answers, "pebble answers")

    def stop(self) -> None:
        if self.child is not None:
            self.child.__exit__()
            self.child = None

    def _answers(self) -> bool:
        try:
            return self._get(self.port, "/dir").status_code == 200
        except httpx.TransportError:
            return False

    def _get(self, port: int, path: str) -> httpx.Response:
        with httpx.Client(verify=self._files.client_context(), trust_env=False, timeout=5) as client:
            return client.get(f"https://127.0.0.1:{port}{path}")

    @property
    def settings(self) -> dict[str, Any]:
        """Return gate's settings for this authority."""
        return {"autocert": True, "autocert_ca": self.directory, "autocert_trusted_ca_file": str(self._files.authority)}

    @property
    def directory(self) -> str:
        return f"https://127.0.0.1:{self.port}/dir"

    @property
    def trusted_ca(self) -> Path:
        return self._files.authority

    @property
    def roots(self) -> str:
        """Return the roots (PEM)."""
        return self._get(self._management, "/roots/0").text

    def client_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts this authority."""
        return ssl.create_default_context(cadata=self.roots)

    def issuer(self) -> tuple[str, str]:
        """Return the issuing certificate and its key (PEM), to sign OCSP responses in its name."""
        return self._get(self._management, "/intermediates/0").text, self._get(self._management, "/intermediate-keys/0").text

    def resolve(self, host: str, address: str) -> None:
        """Set the address of this host."""
        body = {"host": host, "addresses": [address]}
        httpx.post(f"http://127.0.0.1:{self._dns_management}/add-a", json=body, trust_env=False).raise_for_status()

    @property
    def log(self) -> str:
        return "" if self.child is None else self.child.output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._resolver.__exit__()
