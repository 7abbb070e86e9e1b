"""Problem documents (RFC 9457): errors for programs, in the one form that every answer of the API has."""

import json
from http import HTTPStatus
from typing import Any

PROBLEM = "application/problem+json"
API_PATH = "/.gate/api/"
# Older than the API: the portal's own list, which a browser's session opens, and the programs' sign-in of route hosts.
_BESIDE = (f"{API_PATH}portal.json", f"{API_PATH}v1/")
# As RFC 9110 names them (15.5), which Python does since 3.13; and nginx's own.
_PHRASES = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    495: "Client Certificate Required",
}


def is_api(path: str) -> bool:
    """Whether errors below this path are for programs, whatever they accept."""
    return path.startswith(API_PATH) and not path.startswith(_BESIDE)


def problem_document(status: int, detail: str, request_id: str, **members: Any) -> bytes:
    """`members` are extensions (3.2).  No type has a page of its own, so the title is the status's (4.2.1)."""
    said = {"type": "about:blank", "title": phrase(status), "status": status, "detail": detail, "request_id": request_id, **members}
    return json.dumps(said, ensure_ascii=True).encode() + b"\n"


def phrase(status: int) -> str:
    try:
        return _PHRASES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return "Error"
