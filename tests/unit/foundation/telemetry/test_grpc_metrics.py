"""Each gRPC call counts once, under the specified metric names."""

import grpc
import pytest

from foundation.telemetry.grpc_metrics import GrpcMetrics
from foundation.telemetry.metrics import registry

METHOD = "/databroker.DataBrokerService/Get"
NAMES = {"grpc_method": "Get", "grpc_service": "databroker.DataBrokerService"}


def metric(name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(("side", "labels"), [("server", {"service": "one"}), ("client", {"service": "one", "host": "broker:5443"})])
def test_call_is_measured_by_method_and_status(side: str, labels: dict[str, str]) -> None:
    calls = GrpcMetrics.server("one") if side == "server" else GrpcMetrics.client("one", "broker:5443")
    calls.register_methods([METHOD])
    calls.observe(METHOD, grpc.StatusCode.OK, 0.004, 20, 700)
    calls.observe(METHOD, grpc.StatusCode.OK, 0.001, 4, 0)
    calls.observe(METHOD, grpc.StatusCode.NOT_FOUND, 0.001, 4, 0)
    ok = {**labels, **NAMES, f"grpc_{side}_status": "OK"}
    assert metric(f"grpc_{side}_requests_total", **ok) == 2
    assert metric(f"grpc_{side}_request_duration_ms_sum", **ok) == pytest.approx(5)
    assert metric(f"grpc_{side}_request_size_bytes_sum", **ok) == 24
    assert metric(f"grpc_{side}_response_size_bytes_sum", **ok) == 700
    assert metric(f"grpc_{side}_response_size_bytes_bucket", **ok, le="1024.0") == 2
    assert metric(f"grpc_{side}_requests_total", **{**ok, f"grpc_{side}_status": "NOT_FOUND"}) == 1


def test_names_that_callers_invent_make_no_series_of_their_own() -> None:
    calls = GrpcMetrics.server("two")
    for number in range(50):
        calls.observe(f"/invented.Service/{number}", grpc.StatusCode.UNAUTHENTICATED, 0.0, 0, 0)
    (family,) = (family for family in registry.collect() if family.name == "grpc_server_requests")
    mine = [sample for sample in family.samples if sample.labels["service"] == "two" and sample.name.endswith("_total")]
    assert [(sample.labels["grpc_method"], sample.value) for sample in mine] == [("unknown", 50)]
