"""How do Python programs reach `https://hello.localhost:8443`, a name that not every resolver knows?"""

import ssl
from pathlib import Path

import httpx


class LoopbackTransport(httpx.AsyncHTTPTransport):
    """Dials 127.0.0.1 for every `*.localhost` URL; the Host header, the TLS name and the certificate check keep the real name."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.host
        if self.is_on_loopback(name):
            request.extensions = {**request.extensions, "sni_hostname": name}
            request = httpx.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1"),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        return await super().handle_async_request(request)

    def is_on_loopback(self, name: str) -> bool:
        return name == "localhost" or name.endswith(".localhost")


def client(ca_file: Path, **options) -> httpx.AsyncClient:
    """An HTTP client that trusts this authority alone and ignores proxies that the environment names."""
    context = ssl.create_default_context(cafile=str(ca_file))
    return httpx.AsyncClient(transport=LoopbackTransport(verify=context, trust_env=False), trust_env=False, **options)
