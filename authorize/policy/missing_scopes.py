"""Scopes that a denied access token lacks: those with which the same request would be allowed."""

from dataclasses import replace

from authorize.policy.decision import Decision, Outcome, evaluate_route


def missing_scopes(decision: Decision) -> tuple[str, ...]:
    """Return the scopes of the MCP server that the token lacks, and with which the request would be allowed.

    Empty if no rule evaluated a scope, or if another rule denies the request as well.  The policy itself decides it, because a scope may
    be required by a deny rule, by one of several allow rules, or together with others.
    """
    context, route = decision.context, decision.compiled_route
    if decision.outcome is not Outcome.FORBIDDEN or context is None or route is None or route.route.mcp is None:
        return ()
    identity = context.identity
    if identity is None or not identity.client_id or not any(step.rule.endswith(".scope") for step in decision.trace):
        return ()

    def is_allowed_with(scopes: list[str]) -> bool:
        extended = replace(identity, scopes=identity.scopes.union(scopes))
        return evaluate_route(context.request, extended, route, context.now).is_allowed

    needed = [scope for scope in route.route.mcp.scopes if scope not in identity.scopes]
    if not is_allowed_with(needed):
        return ()
    for scope in list(needed):
        others = [other for other in needed if other != scope]
        if is_allowed_with(others):
            needed = others
    return tuple(needed)
