"""Pushed authorization request (RFC 9126): the provider gets the parameters from us, the browser carries only their name."""

from collections.abc import Mapping

from authenticate.provider.client_refusals import client_refusal
from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_http import ProviderResponse
from authenticate.provider.token_response import error_text
from foundation.errors import ProviderError

LONGEST = 2048  # characters of a request_uri


async def pushed(client: ProviderClient, discovery: DiscoveryDocument, params: Mapping[str, str]) -> dict[str, str]:
    """The parameters for the browser instead of `params`.  ProviderError: a request that can't be pushed is not sent in the open
    instead.
    """
    answer = await push(client, discovery, params)
    if not is_accepted(answer):
        refusal = client_refusal(answer, params.get("redirect_uri", ""), is_pushed=True)
        advice = f". {refusal.advice}" if refusal is not None else ""
        raise ProviderError(
            f"the provider rejected the pushed authorization request (status {answer.status}): {error_text(answer)}{advice}"
        )
    uri = answer.json().get("request_uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= LONGEST or not uri.isascii() or not uri.isprintable():
        raise ProviderError("the provider accepted the pushed authorization request without a request_uri")
    return {"client_id": client.client_id, "request_uri": uri}


async def push(client: ProviderClient, discovery: DiscoveryDocument, params: Mapping[str, str]) -> ProviderResponse:
    return await client.post_as_client(discovery.pushed_request_endpoint, {**params, "client_id": client.client_id}, discovery)


def is_accepted(answer: ProviderResponse) -> bool:
    """RFC 9126 2.2 requires 201; some providers answer 200."""
    return answer.status in (200, 201)
