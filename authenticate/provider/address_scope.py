"""Network destinations of one provider's URLs: a provider document must not make gate send requests into its internal network (SSRF).

The check is made on the address that is dialled, after name resolution, so DNS rebinding has no effect.

| the URL leads to                            | it is dialled                                                              |
|---------------------------------------------|----------------------------------------------------------------------------|
| the origin that the operator has configured | always                                                                     |
| a public address                            | always                                                                     |
| any other address                           | if the configured origin has responded from an address of the same kinds   |
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterable

import httpcore
import httpx

_ATTEMPT_TIMEOUT = 1.0  # seconds for each address but the last, so that a network without IPv6 leaves time for IPv4

LOOPBACK, LINK_LOCAL, PRIVATE, SPECIAL, THIS_MACHINE = "a loopback", "a link-local", "a private", "a special-purpose", "this machine's own"
_PRIVATE_NETWORKS = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"))
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(Exception):
    """A URL of the provider's documents resolves to an address outside the provider's scope."""

    def __init__(self, kind: str, address: Address):
        self.kind, self.address = kind, str(address)
        super().__init__(f"{kind} address ({address})")


# enforcement-point: Sign-in and sign-out: Network destinations of provider URLs
class AddressScope:
    """The addresses that one provider's URLs may resolve to. `home` is its configured URL; None if the operator configures all URLs."""

    def __init__(self, home: str | None):
        url = httpx.URL(home or "")
        self.host = url.host
        self._home = _endpoint(url) if home is not None else None
        self._kinds: frozenset[str] = frozenset()  # of the last address from which the home responded

    @classmethod
    def public(cls) -> "AddressScope":
        """Return the scope of URLs that any client can choose: public addresses only, whichever responds."""
        return cls("")  # no URL has an empty host, so none is the home

    def learn_from(self, response: httpx.Response) -> None:
        """Record the address kinds of the configured origin. Its TLS is verified, so another server at its name can't widen the scope."""
        stream = response.extensions.get("network_stream")
        peer = stream.get_extra_info("server_addr") if stream is not None else None
        if peer and _endpoint(response.request.url) == self._home:
            self._kinds = address_kinds(ipaddress.ip_address(peer[0]))

    async def addresses(self, url: str) -> list[Address]:
        """Return the addresses that a request to the URL would dial. Raises AddressRefused or httpcore.ConnectError."""
        host, port = _endpoint(httpx.URL(url))
        return self.check(host, port, await resolve(host, port))

    def check(self, host: str, port: int, addresses: list[Address]) -> list[Address]:
        """Return the addresses of an endpoint that may be dialled. Raises AddressRefused if there is none."""
        if self._home is None or (host, port) == self._home:
            return addresses
        allowed = [address for address in addresses if address_kinds(address) <= self._kinds]
        if not allowed:
            raise AddressRefused(min(address_kinds(addresses[0]) - self._kinds), addresses[0])
        return allowed


class ScopedTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 transport that dials only addresses in the provider's scope, because httpx's transport has no resolver hook.

    Its errors are httpcore's.
    """

    def __init__(self, scope: AddressScope, verify: ssl.SSLContext):
        backend = _ScopedBackend(scope)
        self._connections = httpcore.AsyncConnectionPool(verify, max_connections=100, keepalive_expiry=5.0, network_backend=backend)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(scheme=request.url.raw_scheme, host=request.url.raw_host, port=request.url.port, target=request.url.raw_path)
        sent = httpcore.Request(request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions)
        answer = await self._connections.handle_async_request(sent)
        return httpx.Response(answer.status, headers=answer.headers, stream=_ResponseBody(answer), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._connections.aclose()


class _ResponseBody(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response):
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class _ScopedBackend(httpcore.AsyncNetworkBackend):
    """Combined resolver and dialler, so that exactly the checked addresses are dialled."""

    def __init__(self, scope: AddressScope):
        self._scope = scope
        self._dialler = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = self._scope.check(host, port, await resolve(host, port))
        for address in others:
            try:
                return await self._dialler.connect_tcp(str(address), port, _ATTEMPT_TIMEOUT, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._dialler.connect_tcp(str(last), port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host in the resolver's order, without duplicates. Raises httpcore.ConnectError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from error
    return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


def address_kinds(address: Address) -> frozenset[str]:
    """Return the reasons why an address is not public; empty for a public one. Embedded IPv4 addresses are examined."""
    address = _embedded(address)
    if address.is_loopback:
        kind = LOOPBACK
    elif address.is_link_local:
        kind = LINK_LOCAL
    elif any(address in network for network in _PRIVATE_NETWORKS):
        kind = PRIVATE
    elif not address.is_global or address.is_multicast or address.is_unspecified or address.is_reserved:
        kind = SPECIAL
    else:
        kind = ""
    return frozenset(filter(None, (kind, THIS_MACHINE if _is_local_address(address) else "")))


def _embedded(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address: mapped, compatible, 6to4, Teredo, NAT64."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def _is_local_address(address: Address) -> bool:
    """Return whether the address belongs to this machine: the kernel then uses it as the source of packets to it."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))  # nothing is sent
            return ipaddress.ip_address(probe.getsockname()[0]) == address
        except OSError:
            return False


def _endpoint(url: httpx.URL) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
