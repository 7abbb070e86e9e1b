"""Lines of Envoy's access log about what it refused itself become the log events of gate's own listener."""

import pytest
import structlog

from foundation.telemetry.logs import BoundedLog
from proxy.envoy.envoy_rejection_log import log_envoy_rejection
from proxy.listener.http1 import rejection_log


@pytest.mark.parametrize(("peer", "client"), [("192.0.2.7:50112", "192.0.2.7"), ("[2001:db8::7]:50112", "2001:db8::7"), ("-", "")])
def test_a_refusal_by_envoy_is_logged_as_one_by_the_listener(peer: str, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection_log, "_LOG", BoundedLog("request rejected by listener", level="info"))
    with structlog.testing.capture_logs() as lines:
        log_envoy_rejection(f"{peer} 431 http1.headers_too_large 7-1795853723918223")
    assert lines == [
        {
            "event": "request rejected by listener",
            "log_level": "info",
            "client_address": client,
            "status": 431,
            "reason": "http1.headers_too_large",
            "request_id": "7-1795853723918223",
        }
    ]
