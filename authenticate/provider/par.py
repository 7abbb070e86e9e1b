"""Pushed authorization request (PAR, RFC 9126): gate sends the parameters to the provider, the browser only a reference."""

from collections.abc import Mapping

from authenticate.provider.client_refusals import client_refusal
from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_http import ProviderResponse
from authenticate.provider.tokens.token_response import error_text
from foundation.errors import ProviderError

MAX_REQUEST_URI = 2048  # characters of a request_uri


async def push_params(client: ProviderClient, discovery: DiscoveryDocument, params: Mapping[str, str]) -> dict[str, str]:
    """Push `params` and return the parameters for the browser.

    Raises ProviderError: a request that can't be pushed is never sent through the browser instead.
    """
    answer = await push(client, discovery, params)
    if not is_accepted(answer):
        refusal = client_refusal(answer, params.get("redirect_uri", ""), is_pushed=True)
        advice = f". {refusal.advice}" if refusal is not None else ""
        raise ProviderError(
            f"the provider rejected the pushed authorization request (status {answer.status}): {error_text(answer)}{advice}"
        )
    uri = answer.json().get("request_uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= MAX_REQUEST_URI or not uri.isascii() or not uri.isprintable():
        raise ProviderError("the provider accepted the pushed authorization request without a request_uri")
    return {"client_id": client.client_id, "request_uri": uri}


async def push(client: ProviderClient, discovery: DiscoveryDocument, params: Mapping[str, str]) -> ProviderResponse:
    return await client.post_as_client(discovery.par_endpoint, {**params, "client_id": client.client_id}, discovery)


def is_accepted(answer: ProviderResponse) -> bool:
    """Return whether the request was accepted: RFC 9126 2.2 requires 201; some providers return 200."""
    return answer.status in (200, 201)
