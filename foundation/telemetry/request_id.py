"""Request id, which ties a person's error page, the log lines and the upstream's log together."""

import secrets


def new_request_id() -> str:
    """128 random bits as 32 hex digits; never taken from a client, so that nobody can forge another's trail."""
    return secrets.token_hex(16)
