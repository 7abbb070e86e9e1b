"""Errors by status: reason phrases, advice, and problem details (RFC 9457), the error format of the API."""

import json
from http import HTTPStatus
from typing import Any

from foundation.web.message import Message

PROBLEM = "application/problem+json"
API_PATH = "/.gate/api/"
# Not part of the API: the portal's list, which uses the browser's session, and programmatic login on route hosts.
_EXCLUDED = (f"{API_PATH}portal.json", f"{API_PATH}v1/")
# Phrases of RFC 9110 15.5, which Python has since 3.13, and nginx's 495.
_PHRASES = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    495: "Client Certificate Required",
}


def is_api_path(path: str) -> bool:
    """Return whether errors on this path are problem details regardless of the Accept header."""
    return path.startswith(API_PATH) and not path.startswith(_EXCLUDED)


def problem_document(status: int, detail: str, request_id: str, **members: Any) -> bytes:
    """Return a problem document. `members` are extensions (3.2). The type is about:blank, so the title is the reason phrase (4.2.1)."""
    document = {
        "type": "about:blank",
        "title": reason_phrase(status),
        "status": status,
        "detail": detail,
        "request_id": request_id,
        **members,
    }
    return json.dumps(document, ensure_ascii=True).encode() + b"\n"


def reason_phrase(status: int) -> str:
    try:
        phrase = _PHRASES.get(status) or HTTPStatus(status).phrase
    except ValueError:
        return "Error"
    return phrase


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
_FALLBACK_ADVICE = Message("Try again in a moment.")


def default_advice(status: int) -> Message:
    return _BY_STATUS.get(status, _FALLBACK_ADVICE)
