"""Client of a running gate's monitoring endpoints at `metrics_address`."""

import os
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from django.core.management.base import CommandError

PATIENCE = 3.0  # seconds


def page(address: str, path: str) -> tuple[int, str]:
    """Fetch a page; return its status and text, or 0 and a message if there is no response. Raise CommandError for an invalid address."""
    host, _, port = address.rpartition(":")
    try:
        with closing(HTTPConnection(host.strip("[]") or "localhost", int(port), timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
    except ValueError as error:
        raise CommandError(f"{address} is not HOST:PORT") from error
    except (OSError, HTTPException) as error:
        return 0, f"no response from {address}: {error or type(error).__name__}"


def metrics_address() -> str:
    """Return `metrics_address` from the environment, else from the configuration. Raise CommandError if neither has it."""
    environ = dict(os.environ)  # noqa: TID251 - an entry point
    if address := environ.get("METRICS_ADDRESS"):
        return address
    from config.loader import check_configuration, find_config

    checked = check_configuration(find_config(environ, Path.cwd()), environ)
    if checked.options is None or checked.options.metrics_address is None:
        raise CommandError("metrics_address, which serves /readyz and /metrics, is not configured. Set it, or use --at HOST:PORT")
    return str(checked.options.metrics_address)
