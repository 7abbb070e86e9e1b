"""Refusals by Envoy itself, which neither gate nor an upstream has seen: the same log event as for refusals of gate's own listener."""

from proxy.envoy.resources.internal_headers import address_of
from proxy.listener.http1.rejection_log import log_rejection


def note_envoy_refusal(line: str) -> None:
    """Log one by a line of Envoy's access log: the client's address, status, response code details, request id."""
    client, status, details, request_id = line.split(" ")
    peer = address_of(client)
    log_rejection(peer[0] if peer is not None else "", int(status), details, request_id)
