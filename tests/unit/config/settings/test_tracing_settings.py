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


@pytest.mark.parametrize("value", [0, 1, 0.0001, "0.5"])
def test_a_rate_is_a_number(tmp_path, value: object) -> None:
    assert float(make_options(tmp_path, tracing_sample_rate=value).tracing_sample_rate) == float(str(value))
