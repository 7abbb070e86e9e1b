"""Ids of OAuth clients: those with a client ID metadata document are the URL of the document."""

import re

MAX_URL_LENGTH = 512
_URL = re.compile(
    r"https://(?P<host>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*)(?::[1-9][0-9]{0,4})?/[!$&-;=@-Z_a-z~%]+",
    re.ASCII,
)
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)


def document_host(client_id: str) -> str:
    """Return the host of a metadata document's URL in the only spelling that gate accepts, without its port; "" for any other id."""
    if len(client_id) > MAX_URL_LENGTH or (found := _URL.fullmatch(client_id)) is None or _DOT_SEGMENT.search(client_id):
        return ""
    return found["host"]
