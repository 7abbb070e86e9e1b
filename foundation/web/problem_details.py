"""Errors by status: their phrases and next steps, and problem documents (RFC 9457), the one form that every answer of the API has."""

import json
from http import HTTPStatus
from typing import Any

from foundation.web.message import Message

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


_BY_STATUS = {
    400: Message("Go back and try again. If a link led you here, open the application from its first page."),
    401: Message("Sign in, then try again."),
    403: Message("If you need access, contact your administrator."),
    404: Message("Check the address for a typo."),
    405: Message("Go back to the page that you came from, and use its links and buttons."),
    408: Message("Try again. A faster connection may help."),
    410: Message("Open the application from its first page."),
    411: Message("Use another browser or program."),
    413: Message("Send less at once."),
    414: Message("Open the application from its first page."),
    421: Message("Try again in a new window."),
    426: Message("Use a newer browser or program."),
    429: Message("Try again later."),
    431: Message("Delete the cookies of this site in your browser, then try again."),
    495: Message("Choose the certificate that you were given, or ask your administrator for one."),
    501: Message("Use another browser or program."),
    505: Message("Use another browser or program."),
}
_ELSE = Message("Try again in a moment.")


def next_step(status: int) -> Message:
    return _BY_STATUS.get(status, _ELSE)
