"""Identity headers that a route defines by templates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from config.fields.header_template import ASSERTION, CLAIM, FINGERPRINT, REQUEST_ID, Variable
from config.routes.route import Route
from config.routes.route_identity_headers import header_templates, sends_assertion, sends_identity, uses_provider_token
from foundation.claim_values import ListedValues
from foundation.errors import NoIdentity
from foundation.web.message import Message

Headers = tuple[tuple[bytes, bytes], ...]
Parts = tuple[str | Variable, ...]
HeaderTemplates = tuple[tuple[bytes, Parts], ...]

_AUTHORIZATION = b"authorization"
_OF_REQUESTS = frozenset({REQUEST_ID, FINGERPRINT})


@dataclass(frozen=True, slots=True)
class IdentityVariables:
    """Variables of header templates: `claims` as in X-Gate-Claim-* headers, and an `assertion` signed for the route.

    For tokens of external issuers only the id and the assertion are available, because upstreams would mistake other claims for those of
    local users.
    """

    identity: Identity | None
    claims: Mapping[str, Any]
    assertion: str

    def value(self, name: str) -> Any:
        """Return the value of a variable, None if unknown."""
        identity = self.identity
        if identity is None:
            return None
        if name.startswith(CLAIM):
            return None if identity.is_external else self.claims.get(name.removeprefix(CLAIM))
        return {
            ASSERTION: self.assertion,
            "groups": self.claims.get("groups"),
            "session": identity.session_id,
            "subject": identity.unqualified_subject,
            "user": identity.principal_id,
        }[name]


@dataclass(frozen=True, slots=True)
class RouteTemplates:
    """Templates of one route by lower-case header name."""

    includes_identity: bool
    sends_assertion: bool
    templates: HeaderTemplates

    @classmethod
    def from_route(cls, route: Route) -> "RouteTemplates":
        named = ((name.lower().encode("ascii"), parts) for name, parts in header_templates(route).items() if not uses_provider_token(parts))
        return cls(sends_identity(route), sends_assertion(route), tuple(named))

    def render_user(self, facts: IdentityVariables) -> tuple[Headers, HeaderTemplates]:
        """Return (headers that are equal for all requests of a user, templates that still need the request).

        A header with an unknown value is omitted.  Raises NoIdentity if it is Authorization.
        """
        headers: list[tuple[bytes, bytes]] = []
        left: list[tuple[bytes, Parts]] = []
        for name, parts in self.templates:
            user_variables = {part.name for part in parts if isinstance(part, Variable)} - _OF_REQUESTS
            filled = _substitute(name, parts, {variable: facts.value(variable) for variable in user_variables})
            if filled is not None and all(isinstance(part, str) for part in filled):
                headers.append((name, "".join(map(str, filled)).encode("ascii")))
            elif filled is not None:
                left.append((name, filled))
        return tuple(headers), tuple(left)


def render_request(templates: HeaderTemplates, request: PolicyRequest, request_id: str) -> Headers:
    """Render the headers that depend on the request.  Raises NoIdentity as `RouteTemplates.render_user`."""
    certificate = request.client_certificate
    values = {REQUEST_ID: request_id, FINGERPRINT: certificate.fingerprint if certificate is not None else None}
    found = ((name, _substitute(name, parts, values)) for name, parts in templates)
    return tuple((name, "".join(map(str, filled)).encode("ascii")) for name, filled in found if filled is not None)


def _substitute(name: bytes, parts: Parts, values: Mapping[str, Any]) -> Parts | None:
    """Return the parts with variables replaced.  None if a value is unknown or empty."""
    filled: list[str | Variable] = []
    for part in parts:
        if isinstance(part, str) or part.name not in values:
            filled.append(part)
        elif (value := values[part.name]) is not None and (rendered := header_value(value)):
            filled.append(rendered.decode("ascii"))
        elif name == _AUTHORIZATION:
            # Without this header the upstream would treat the request as anonymous, or accept one that the client sent.
            raise NoIdentity(Message("it requires %(name)s, which your identity provider does not send for you", name=part.name))
        else:
            return None
    return tuple(filled)


_AT_ENDS = re.compile(r"\A +| +\Z")
_PRINTABLE_BUT_PERCENT = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def header_value(value: Any) -> bytes:
    """Return one line of printable ASCII.

    Other text is percent-encoded as UTF-8, including "%", so that no claim can end a header or start another.  A comma in a list element
    becomes "%2C", because a group "sales,admin" must not be parsed as two.  Spaces at either end, which parsers strip (RFC 9110 5.5),
    become "%20", because "admin " must not be parsed as "admin".
    """
    if isinstance(value, list | ListedValues):
        return b",".join(_element(item).replace(b",", b"%2C") for item in value)
    # A claim in another tuple is one text, such as "Doe, Jane".
    return _element(value[0] if isinstance(value, tuple) else value)


def _element(value: Any) -> bytes:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_PRINTABLE_BUT_PERCENT, errors="replace")
    return _AT_ENDS.sub(lambda blanks: "%20" * len(blanks[0]), text).encode("ascii")
