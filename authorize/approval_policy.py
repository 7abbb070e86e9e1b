"""Approval policy: which routes accept access requests, and which identities may approve them or use break-glass access."""

import math
from collections.abc import Iterable
from dataclasses import replace

from authorize.policy.compiled_route import approval_blocks
from authorize.policy.criterion import Evaluation, EvaluationContext
from authorize.policy.decision import Decision, Outcome, evaluate_route
from authorize.policy.identity import GrantPeriod, Identity
from authorize.policy.language.expression_compiler import compile_block
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.truth import TRUE
from config.routes.policy.policy_language import ENFORCE, Combination, Comparison
from config.routes.route import Route
from config.routes.route_access_requests import is_tool_name, tool_grant_key
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER

# Approvers are matched by identity only, so the request has no content.
_EMPTY_REQUEST = PolicyRequest(method="GET", host="", port=None, path="/")


def may_request(route: Route, identity: Identity) -> bool:
    """Return whether this user may request access to a route.

    `identity_providers` excludes users of other providers, even with an approval.
    """
    return route.access_requests is not None and _is_accepted_user(route, identity)


# enforcement-point: Authorization: Tools that may be requested
def requestable_tool(decision: Decision) -> str:
    """Return the tool that a denied call needs and that its user may request, "" if temporary access would not allow the call."""
    context, route = decision.context, decision.compiled_route
    if decision.outcome is not Outcome.FORBIDDEN or context is None or route is None or route.route.access_requests is None:
        return ""
    identity, message = context.identity, context.request.mcp
    if identity is None or message is None or not message.tool or not is_tool_name(message.tool):
        return ""
    if not route.route.access_requests.tools or not route.route.access_requests.accepts(message.tool):
        return ""
    if not may_request(route.route, identity):
        return ""
    grants = {**identity.grants, tool_grant_key(route.route.grant_key, message.tool): GrantPeriod(-math.inf, math.inf)}
    outcome = evaluate_route(context.request, replace(identity, grants=grants), route, context.now).outcome
    return message.tool if outcome in (Outcome.ALLOWED, Outcome.STEP_UP) else ""


def _is_accepted_user(route: Route, identity: Identity) -> bool:
    """Return whether a provider that the route accepts signed this user in.  Service accounts and bearer tokens are not users.

    The user of an agent is one, who opens the page to request access in a browser.
    """
    if not identity.is_provider_user or (identity.has_oauth_token and not identity.client_id):
        return False
    return not route.identity_providers or identity.provider in route.identity_providers


# enforcement-point: Authorization: Approvers of access requests
class ApprovalPolicy:
    """Approval policy of the routes of one configuration."""

    def __init__(self, routes: Iterable[Route]):
        # If two routes share a key, requests match only the first.
        self._routes: dict[str, Route] = {}
        for route in routes:
            if route.access_requests is not None and route.mode == ENFORCE:
                self._routes.setdefault(route.grant_key, route)
        self._compiled: dict[str, dict[str, Evaluation]] = {}

    def __bool__(self) -> bool:
        return bool(self._routes)

    @property
    def routes(self) -> tuple[Route, ...]:
        return tuple(self._routes.values())

    def route(self, access_key: str) -> Route | None:
        return self._routes.get(access_key)

    def may_approve(self, access_key: str, identity: Identity, now: float) -> bool:
        """Return whether the identity may approve access to a route."""
        if identity.provider == PROVIDER:
            return self._lists_account(access_key, identity.user_id)
        return self._matches(access_key, "access_requests.approvers", identity, now)

    def may_break_glass(self, access_key: str, identity: Identity, now: float) -> bool:
        """Return whether the user may use break-glass access to a route."""
        return self._matches(access_key, "access_requests.break_glass.allowed", identity, now)

    def _lists_account(self, access_key: str, user_id: str) -> bool:
        """Return whether a top-level alternative lists this service account by id.

        Membership in a group does not count, because an administrator of service accounts chooses their groups.
        """
        route = self._routes.get(access_key)
        approvers = None if route is None or route.access_requests is None else route.access_requests.approvers
        if not isinstance(approvers, Combination) or approvers.operator != "or":
            return False
        return any(
            isinstance(part, Comparison) and part.criterion == "user" and not part.is_negated and user_id in part.operand
            for part in approvers.parts
        )

    def _matches(self, access_key: str, rule: str, identity: Identity, now: float) -> bool:
        """Return whether the identity is a user of an accepted provider, and the rule evaluates to TRUE for it."""
        route = self._routes.get(access_key)
        if route is None or route.access_requests is None or not _is_accepted_user(route, identity):
            return False
        if access_key not in self._compiled:
            self._compiled[access_key] = {block.key: compile_block(block) for block in approval_blocks(route.access_requests)}
        evaluate = self._compiled[access_key].get(rule)
        return evaluate is not None and evaluate(EvaluationContext(_EMPTY_REQUEST, identity, now, route), []) == TRUE
