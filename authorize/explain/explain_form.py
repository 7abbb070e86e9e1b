"""Explain form: the fields of the admin's page, and of the JSON endpoint's query, and the user that they name."""

import time
from collections.abc import Mapping

from asgiref.sync import async_to_sync

from authorize.authorizer import AuthorizePageContext
from authorize.explain.explanation import Explanation, explain, explain_logged
from authorize.explain.recorded_user import ACCOUNT_PREFIX, RecordedUser, recorded_user
from authorize.explain.simulation import (
    SimulatedUser,
    add_client,
    parse_address,
    parse_header,
    parse_time,
    simulate_identity,
    simulate_message,
    simulate_request,
)
from authorize.models import LoggedDecision
from authorize.route_settings import default_ports
from databroker.admin.directory_run_admin import describe_last_success
from databroker.models import Session, User
from foundation.errors import BrokerError

MAX_FIELD_LENGTH = 4096


class DecisionNotLogged(ValueError):
    """The decision log has no decision with this request id."""


class ExplainForm:
    """Fields of the explain form.

    `request` is the id of a logged request.  The other fields describe a simulated request.  Errors are ValueErrors.
    """

    FIELDS = (
        *("request", "url", "user", "client", "scopes", "method", "address", "headers", "at"),
        *("mcp_method", "mcp_tool", "mcp_prompt", "mcp_resource"),
    )

    def __init__(self, query: Mapping[str, str] | None = None):
        self._fields = {name: (query or {}).get(name, "").strip() for name in self.FIELDS}

    def __getattr__(self, name: str) -> str:
        if name not in self.FIELDS:
            raise AttributeError(name)
        return self._fields[name]

    @property
    def is_submitted(self) -> bool:
        return bool(self.request or self.url)

    def explain(self, page: AuthorizePageContext) -> Explanation:
        """Return the explanation of the logged or simulated request."""
        if too_long := [name for name, value in self._fields.items() if len(value) > MAX_FIELD_LENGTH]:
            raise ValueError(f"{too_long[0]} is longer than {MAX_FIELD_LENGTH} characters")
        if self.request:
            return self._explain_logged(page)
        if not self.url:
            raise ValueError("enter the id of a request, or a URL")
        return self._explain_simulated(page)

    def _explain_logged(self, page: AuthorizePageContext) -> Explanation:
        row = LoggedDecision.objects.filter(request_id=self.request).order_by("pk").last()
        if row is None:
            raise DecisionNotLogged("This request is not in the decision log: not yet, no longer, or allowed and not sampled.")
        directory = describe_last_success(row.decided_at.timestamp(), page.options.record_id_prefix_for(row.user_id))
        return {**explain_logged(row, page.options, page.configuration.checksum), "directory": directory}

    def _explain_simulated(self, page: AuthorizePageContext) -> Explanation:
        now = parse_time(self.at) if self.at else time.time()
        headers = [parse_header(line) for line in self.headers.splitlines() if line.strip()]
        ports, source_ip = default_ports(page.options), parse_address(self.address)
        message = simulate_message(self.mcp_method, self.mcp_tool, self.mcp_prompt, self.mcp_resource)
        request = simulate_request(self.url, self.method or "GET", ports, headers, source_ip=source_ip, mcp=message)
        found = resolve_user(self.user, page)
        identity = add_client(found.identity, self.client, self.scopes.split())
        explanation = explain(request, identity, page.options, page.authorize.routes, now)
        note = " ".join(filter(None, (found.note, explanation["note"])))
        prefix = page.options.record_id_prefix_for(found.identity.user_id) if found.identity is not None else ""
        return {**explanation, "directory": describe_last_success(now, prefix), "note": note}


NO_ACCOUNT = "Service account not found, or expired."
NO_USER = "Unknown user: evaluated with this identifier only."


def resolve_user(written: str, page: AuthorizePageContext) -> RecordedUser:
    """Return the user with an e-mail address, `provider/subject`, subject or `service_account/name`.  "" is an anonymous caller.

    Raises ValueError if several users match, or the records cannot be read.
    """
    if not written:
        return RecordedUser(None)
    ids = _ids(written, page.options.first_provider.id)
    sessions = list(Session.objects.filter(user_id__in=ids).values_list("pk", flat=True))
    try:
        user = async_to_sync(recorded_user)(ids, page.broker, page.options, time.time(), sessions)
    except BrokerError as error:
        raise ValueError(f"The user's records cannot be read: {error}. Try again.") from error
    if user is not None:
        return user
    note = NO_ACCOUNT if written.startswith(ACCOUNT_PREFIX) else NO_USER
    return RecordedUser(simulate_identity(SimulatedUser(written), page.options), note)


def _ids(written: str, provider: str) -> list[str]:
    """Return the ids that an entry of `allowed_users` matches, and no other: an address is no part of an id, nor the other way round."""
    if "/" in written:
        return [written]
    if "@" in written:
        return list(User.objects.filter(email__iexact=written).values_list("pk", flat=True))
    return [f"{provider}/{written}"]
