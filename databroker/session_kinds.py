"""Kinds of sessions: of a browser, or of an OAuth client (an agent), as lists of sessions show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SessionKind(StrEnum):
    BROWSER = "browser"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SessionClient:
    """Client of a session: a browser, or the OAuth client with the resource and the scopes of its tokens."""

    kind: SessionKind = SessionKind.BROWSER
    client_id: str = ""
    resource: str = ""
    scopes: tuple[str, ...] = ()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "SessionClient":
        """Return the client in the data of a session record.  Malformed values are left out, because the session is listed anyway."""
        if (agent := data.get("agent")) is None:
            return cls()
        fields = agent if isinstance(agent, Mapping) else {}
        scopes = fields.get("scopes")
        listed = scopes if isinstance(scopes, list | tuple) else ()
        client_id, resource = (str(fields.get(name) or "") for name in ("client_id", "resource"))
        return cls(SessionKind.AGENT, client_id, resource, tuple(map(str, listed)))
