"""The settings of tracing."""

import pytest

from foundation.values import HostPort
from tests.support.options import make_options


@pytest.mark.parametrize("provider", ["thrift", "jaeger", "span", "zipkin", "otlp"])
def test_a_provider_needs_to_be_somewhere(problems, provider: str) -> None:
    found = problems(tracing_provider=provider)
    assert found.keys() == {"tracing_provider"}
    assert f"{provider} needs tracing_" in found["tracing_provider"]


@pytest.mark.parametrize("provider", ["monitor", "datadog"])
def test_the_agent_of_monitor_has_a_usual_place(tmp_path, provider: str) -> None:
    assert make_options(tmp_path, tracing_provider=provider).tracing_monitor_address == HostPort("localhost", 8126)


@pytest.mark.parametrize("key", ["tracing_monitor_address", "tracing_thrift_agent_endpoint"])
@pytest.mark.parametrize("value", [":8126", "localhost:0", "localhost", "http://localhost:8126", ""])
def test_an_agent_has_a_host_and_a_port(problems, key: str, value: str) -> None:
    assert problems(tracing_provider="monitor", **{key: value}).keys() == {key}


@pytest.mark.parametrize("value", [1.5, -1, "often", "nan", True])
def test_a_rate_is_from_0_to_1(problems, value: object) -> None:
    assert problems(tracing_sample_rate=value).keys() == {"tracing_sample_rate"}


@pytest.mark.parametrize("value", [0, 1, 0.0001, "0.5"])
def test_a_rate_is_a_number(tmp_path, value: object) -> None:
    assert float(make_options(tmp_path, tracing_sample_rate=value).tracing_sample_rate) == float(str(value))


@pytest.mark.parametrize("key", ["tracing_span_endpoint", "tracing_thrift_collector_endpoint"])
def test_an_endpoint_is_an_absolute_http_url(problems, key: str) -> None:
    for value in ("/api/v2/spans", "ftp://a/b", "localhost:9411"):
        assert key in problems(tracing_provider="span", **{key: value})
