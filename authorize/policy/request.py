"""What is judged: the request, reduced to one canonical reading of its host and path."""

import re
from dataclasses import dataclass

from authorize.policy.canonical import canonical_host, canonical_path
from gateproject.errors import BadRequest

_REFUSED_IN_QUERY = re.compile(rb"[\x00-\x20\x7f#]")


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """`host` is lower-case, without port or trailing dot; `port` is None where it is the scheme's default.

    `method` is empty where nobody trustworthy said it (forward auth): a rule about it can't be known to hold, so it must refuse.
    `path` is the canonical path (percent-encoded ASCII, dot segments resolved) that is matched, decided on and forwarded.
    """

    method: str
    host: str
    port: int | None
    path: str
    query: str = ""
    origin: str = ""
    access_control_request_method: str = ""

    @property
    def host_port(self) -> str:
        """`host`, or `host:port` for a port that is not the default: the form of `aud` and of cookie audiences."""
        return self.host if self.port is None else f"{self.host}:{self.port}"


def access_request(
    method: str,
    host: bytes,
    raw_path: bytes,
    query: bytes,
    default_ports: frozenset[int],
    *,
    origin: bytes = b"",
    access_control_request_method: bytes = b"",
) -> AccessRequest:
    """The one door from bytes of a request to what is judged; BadRequest where they have no single reading.

    `query` keeps each byte as one character (latin-1), so that it can be forwarded unchanged.
    """
    if _REFUSED_IN_QUERY.search(query):
        raise BadRequest("the query holds a character that must be percent-encoded")
    name, port = canonical_host(host)
    return AccessRequest(
        method=method,
        host=name,
        port=None if port in default_ports else port,
        path=canonical_path(raw_path),
        query=query.decode("latin-1"),
        origin=origin.decode("latin-1"),
        access_control_request_method=access_control_request_method.decode("latin-1"),
    )
