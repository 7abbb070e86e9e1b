"""Online checks of `checkconfig --online`: whether the configured servers respond as gate requires. They change nothing.

| checked                              | how                                                                                  |
|--------------------------------------|--------------------------------------------------------------------------------------|
| the provider                         | its discovery document and keys, as at sign-in; the addresses of its endpoints       |
| gate's client at the provider        | a token request with an invalid code; the error shows whether the client is accepted |
| the redirect URI at the provider     | a pushed authorization request if supported, which is never used                     |
| each upstream                        | DNS, a connection, and TLS with the route's settings                                 |
| the store, the split services        | one request each, with the credentials of the configuration                          |

No requests are sent to upstreams, because an application would process them.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

from authenticate.provider.client_refusals import ClientRefusal, client_refusal
from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.par import is_accepted, push
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_http import ProviderResponse
from authenticate.provider.tokens.token_response import error_text
from config.options import Options
from config.parsing.document import KeyPath
from config.provider_config import ProviderConfig
from config.settings.identity_providers import provider_key_path
from config.validation import Finding
from databroker.broker_client import BrokerClient
from foundation.connection_errors import ConnectFailure, classify_failure
from foundation.crypto.sealing import to_text
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn
from foundation.values import Url
from gateproject.management.broker_access import open_broker
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.upstream_client import FAMILIES

CONNECT_TIMEOUT = 5.0  # seconds per connection
TOTAL_TIMEOUT = 60.0  # for all connections
MAX_CONCURRENT = 64
# With TLS 1.3 a server requests a missing certificate only after the handshake (RFC 8446 4.4.2.4).
TLS13_ALERT_WAIT = 0.3


def answers(settings: Any) -> Iterator[Finding]:
    """Yield the problems of a configuration that is otherwise valid; a check of `check_configuration`."""
    if isinstance(settings, Options):
        yield from asyncio.run(findings(settings))


async def findings(options: Options) -> list[Finding]:
    checks: list[Coroutine[Any, Any, list[Finding]]] = []
    if options.services in ("all", "authenticate"):
        checks += [provider_findings(options, provider) for provider in options.providers.values()]
    if options.services in ("all", "proxy"):
        checks.append(_upstreams(options))
    checks += [_check_store(options), _authorizer(options)]
    return [finding for found in await asyncio.gather(*checks) for finding in found]


async def provider_findings(options: Options, provider: ProviderConfig) -> list[Finding]:
    """Yield the provider's problems: unreadable metadata, or a rejected client."""
    key = _place(options, provider, "url")
    client = ProviderClient(options, provider, time.time)
    try:
        async with asyncio.timeout(TOTAL_TIMEOUT):
            discovery = await client.discovery()
            if discovery.jwks_uri and not await client.key_set.keys(discovery.jwks_uri):
                return [(key, "the provider publishes no key for ID token signatures")]
            for endpoint in (discovery.userinfo_endpoint, discovery.revocation_endpoint, discovery.par_endpoint):
                if endpoint:
                    await client.http.check_address(endpoint)
            return [finding async for finding in _client_findings(client, options, provider)]
    except ProviderError as error:
        return [(key, str(error))]
    except TimeoutError:
        return [(key, f"the provider did not answer all requests within {TOTAL_TIMEOUT:.0f} s")]
    finally:
        await client.close()


def unverified_links(settings: Any) -> Iterator[Finding]:
    """Warn of entries with `link_by` whose provider never asserts `email_verified`, which link no accounts."""
    if isinstance(settings, Options) and settings.services in ("all", "authenticate"):
        yield from asyncio.run(link_findings(settings))


async def link_findings(options: Options) -> list[Finding]:
    linking = [each for each in options.providers.values() if each.links_by_email and not each.trusts_email]
    return [finding for found in await asyncio.gather(*(_provider_link_findings(options, each) for each in linking)) for finding in found]


async def _provider_link_findings(options: Options, provider: ProviderConfig) -> list[Finding]:
    client = ProviderClient(options, provider, time.time)
    try:
        async with asyncio.timeout(TOTAL_TIMEOUT):
            may_verify = client.provider.may_return_email_verified(await client.discovery())
    except (ProviderError, TimeoutError):
        return []  # an error of `answers`
    finally:
        await client.close()
    message = (
        "links none of its accounts for which it does not send email_verified, and its discovery document does not list that claim. "
        "Set trust_email: true if its administrators assign the addresses"
    )
    return [] if may_verify else [(_place(options, provider, "link_by"), message)]


async def _client_findings(client: ProviderClient, options: Options, provider: ProviderConfig) -> AsyncIterator[Finding]:
    """Return the client problem of a token error. Other errors do not concern the client: some providers check the code or redirect URI
    first.
    """
    discovery = await client.discovery()
    form = {
        "grant_type": "authorization_code",
        "code": f"checkconfig-{secrets.token_urlsafe(16)}",
        "redirect_uri": options.authenticate_service_url.origin + options.authenticate_callback_path,
        "code_verifier": secrets.token_urlsafe(48),
    }
    answer = await client.post_as_client(discovery.token_endpoint, form, discovery)
    refusal = client_refusal(answer, form["redirect_uri"])
    if refusal is not None:
        yield _place(options, provider, refusal.key), _refused("token endpoint", answer, refusal)
    elif answer.status >= 500:
        yield _place(options, provider, "provider"), f"the provider's token endpoint returned status {answer.status}"
    elif discovery.par_endpoint:
        answer = await push(client, discovery, _sign_in_params(client, discovery, form["redirect_uri"]))
        if not is_accepted(answer):
            refusal = client_refusal(answer, form["redirect_uri"], is_pushed=True)
            yield (
                _place(options, provider, refusal.key if refusal else "client_id"),
                _refused("pushed authorization endpoint", answer, refusal),
            )


def _refused(endpoint: str, answer: ProviderResponse, refusal: ClientRefusal | None) -> str:
    advice = refusal.advice if refusal is not None else "Check this client's settings at the provider"
    return f"rejected by the provider's {endpoint} with status {answer.status}: {error_text(answer)}. {advice}"


def _sign_in_params(client: ProviderClient, discovery: DiscoveryDocument, redirect_uri: str) -> dict[str, str]:
    """Return the parameters of a pushed authorization request, as at sign-in."""
    challenge = hashlib.sha256(secrets.token_bytes(32)).digest()
    return {
        **client.provider.request_params,
        "response_type": "code",
        "scope": " ".join(client.provider.requested_scopes(discovery)),
        "redirect_uri": redirect_uri,
        "state": secrets.token_urlsafe(32),
        "nonce": secrets.token_urlsafe(32),
        "code_challenge": to_text(challenge),
        "code_challenge_method": "S256",
    }


def _place(options: Options, provider: ProviderConfig, key: str) -> KeyPath:
    """Return the key path of a provider's setting."""
    return provider_key_path(options, list(options.providers).index(provider.id), key)


async def _upstreams(options: Options) -> list[Finding]:
    """Yield each upstream once, with the first route that uses it."""
    places: dict[tuple[Any, ...], tuple[KeyPath, Upstream, int]] = {}
    for index, route in enumerate(options.policy):
        for position in range(len(route.to)):
            upstream = Upstream.build(route, position)
            key = (upstream.host, upstream.port, id(upstream.ssl) if upstream.is_ssl() else None, upstream.server_hostname)
            place = ("policy", index, "to") if len(route.to) == 1 else ("policy", index, "to", position)
            first, _, others = places.setdefault(key, (place, upstream, -1))
            places[key] = (first, upstream, others + 1)
    at_once, family = asyncio.Semaphore(MAX_CONCURRENT), FAMILIES[options.dns_lookup_family]

    async def one(place: KeyPath, upstream: Upstream, others: int) -> Finding | None:
        async with at_once:
            trouble = await _probe_upstream(upstream, family)
        if trouble is None:
            return None
        also = f"; used by {others} more {'route' if others == 1 else 'routes'}" if others > 0 else ""
        return place, f"{upstream.host}:{upstream.port} {trouble}{also}"

    tasks = [spawn(one(*found), name="look at an upstream") for found in places.values()]
    done, late = await asyncio.wait(tasks, timeout=TOTAL_TIMEOUT) if tasks else (set(), set())
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    results = [found for task in tasks if task in done and (found := task.result()) is not None]
    return [*results, (("policy",), f"{len(late)} upstreams were not tested within {TOTAL_TIMEOUT:.0f} s")] if late else results


async def _probe_upstream(upstream: Upstream, family: int) -> ConnectFailure | None:
    context = upstream.ssl if upstream.is_ssl() else None
    name = (upstream.server_hostname or upstream.host) if context else None
    return await _tried(upstream.host, upstream.port or 0, family=family, ssl=context, server_hostname=name)


async def _tried(host: str, port: int, **how: Any) -> ConnectFailure | None:
    """Open and close a connection."""
    writer = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port, **how)
        if how.get("ssl"):
            try:
                async with asyncio.timeout(TLS13_ALERT_WAIT):
                    await reader.read(1)
            except TimeoutError:
                pass  # the server waits for a request, as it should
    except (OSError, TimeoutError, ValueError) as error:
        return classify_failure(error)
    finally:
        if writer is not None:
            writer.transport.abort()
    return None


async def _check_store(options: Options) -> list[Finding]:
    """Check the store: nothing for process memory, only the port for a database."""
    if options.databroker_service_url is not None and options.services != "databroker":
        # Check the port first, because gRPC keeps retrying and reports less.
        return await _probe_port(("databroker_service_url",), options.databroker_service_url) or await _probe(
            ("databroker_service_url",), lambda: _check_server_version(options)
        )
    if options.databroker_storage_type == "kvstore":
        return await _probe(("databroker_storage_connection_string",), lambda: _check_server_version(options))
    found: list[Finding] = []
    for server in options.database_url.hosts if options.services in ("all", "databroker") and options.database_url is not None else ():
        if trouble := await _tried(server.host.strip("[]"), server.port):
            found.append((("database_url",), f"{server.host}:{server.port} {trouble}"))
    return found


async def _check_server_version(options: Options) -> None:
    broker: BrokerClient
    async with open_broker(options) as broker:
        await broker.server_version()


async def _probe(place: KeyPath, question: Callable[[], Awaitable[None]]) -> list[Finding]:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await question()
    except BrokerError as error:
        trouble = classify_failure(error)
        return [(place, str(error) if trouble is ConnectFailure.UNKNOWN else f"{str(error).rstrip('.')}: it {trouble}")]
    except TimeoutError:
        return [(place, f"did not respond within {CONNECT_TIMEOUT:.0f} s")]
    return []


async def _authorizer(options: Options) -> list[Finding]:
    url = options.authorize_service_url
    return [] if url is None or options.services != "proxy" else await _probe_port(("authorize_service_url",), url)


async def _probe_port(place: KeyPath, url: Url) -> list[Finding]:
    port = url.port or (443 if url.scheme == "https" else 80)
    trouble = await _tried(url.host.strip("[]"), port)
    return [(place, f"{url.host}:{port} {trouble}")] if trouble else []
