"""Log of requests that Envoy rejects itself, with the same log event as rejections by gate's listener."""

from proxy.envoy.resources.internal_headers import parse_address
from proxy.listener.http1.rejection_log import log_rejection


def log_envoy_rejection(line: str) -> None:
    """Log a rejection from an access log line: client address, status, response code details, request id."""
    client, status, details, request_id = line.split(" ")
    peer = parse_address(client)
    log_rejection(peer[0] if peer is not None else "", int(status), details, request_id)
