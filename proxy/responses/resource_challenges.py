"""Challenges of routes with `mcp`: where a client learns which authorization server issues tokens for them (RFC 9728 5.1)."""

from collections.abc import Collection

from authorize.authorizer import AuthorizationResult, WithheldCredentials
from authorize.policy.compiled_route import CompiledRoute
from authorize.protected_resources import mcp_server_for
from foundation import auth_challenges


# enforcement-point: Authorization server: Challenge of a protected resource
def resource_challenge(route: CompiledRoute | None, host_port: str, *, error: str = "", scopes: Collection[str] | None = None) -> str:
    """Return the WWW-Authenticate value of a route with `mcp` at this host, "" for any other route.

    Without `scopes`, it has all scopes of the resource, so that the client asks its user once.
    """
    resource = mcp_server_for(route.route, host_port) if route is not None else None
    if resource is None:
        return ""
    named = [scope for scope in resource.scopes if scopes is None or scope in scopes]
    return auth_challenges.challenge(error=error, scope=" ".join(named), resource_metadata=resource.metadata_url)


def denied_token_challenge(authorization: AuthorizationResult, host_port: str) -> str:
    """Return the challenge for a token whose user or scopes the policy denies, "" for a browser.

    A token of gate whose missing scopes would allow the request may be replaced with one that has them (RFC 6750 3.1).  The challenge
    also has the token's own scopes, because clients ask for exactly what a challenge names.
    """
    identity, route = authorization.identity, authorization.decision.compiled_route
    if identity is None or not identity.client_id or route is None:
        return auth_challenges.INSUFFICIENT_SCOPE if authorization.withheld_credentials is WithheldCredentials.AUTHORIZATION else ""
    if not authorization.missing_scopes:
        return ""
    return resource_challenge(route, host_port, error="insufficient_scope", scopes=identity.scopes.union(authorization.missing_scopes))
