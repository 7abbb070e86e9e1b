"""Is a record that can't be read told of once, without what is in it?"""

from structlog.testing import capture_logs

from databroker.store.unreadable import unreadable
from foundation.telemetry.metrics import registry


def test_it_is_counted_and_named() -> None:
    before = registry.get_sample_value("gate_unreadable_records_total", {"type": "user"}) or 0.0
    with capture_logs() as logs:
        unreadable("user", "oidc/1", "why")
    assert registry.get_sample_value("gate_unreadable_records_total", {"type": "user"}) == before + 1
    assert [(line["log_level"], line["type"], line["id"], line["reason"]) for line in logs] == [("error", "user", "oidc/1", "why")]
