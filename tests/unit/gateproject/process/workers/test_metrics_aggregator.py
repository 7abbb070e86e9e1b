"""Metrics of several processes are merged into those of one gate."""

import pytest

from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText
from gateproject.process.workers.metrics_aggregator import MetricsAggregator


def metric_families(name: str, kind: str, *lines: str) -> MetricFamilies:
    return {name: MetricFamilyText(kind, "Help.", list(lines))}


@pytest.mark.parametrize(
    ("name", "kind", "of_first", "of_second", "expected"),
    [
        ("a_total", "counter", ["{x} 1.0"], ["{x} 2.0", "{y} 4.0"], {"{x} 3.0", "{y} 4.0"}),
        ("d", "histogram", ["_bucket{x} 2", "_count{} 2"], ["_bucket{x} 1", "_count{} 5"], {"_bucket{x} 3.0", "_count{} 7.0"}),
        ("g", "gauge", ["{x} 1.0"], ["{x} 0.0"], {'{worker="1",x} 1.0', '{worker="2",x} 0.0'}),
        ("gate_tunnels", "gauge", ["{x} 1"], ["{x} 2"], {"{x} 3.0"}),
        ("process_cpu_seconds_total", "counter", ["{x} 1"], ["{x} 2"], {'{worker="1",x} 1', '{worker="2",x} 2'}),
    ],
)
def test_counters_are_summed_and_gauges_labelled(
    name: str, kind: str, of_first: list[str], of_second: list[str], expected: set[str]
) -> None:
    first, second = ([name + line for line in lines] for lines in (of_first, of_second))
    (family,) = MetricsAggregator().aggregate({1: metric_families(name, kind, *first), 2: metric_families(name, kind, *second)}).values()
    assert set(family.lines) == {name + line for line in expected}


def test_counters_never_go_backwards() -> None:
    summed = MetricsAggregator()

    def total(**of_each: float) -> float:
        families = summed.aggregate(
            {int(number[1:]): metric_families("a_total", "counter", f"a_total{{}} {value}") for number, value in of_each.items()}
        )
        (line,) = families["a_total"].lines
        return float(line.rpartition(" ")[2])

    assert total(_1=1, _2=10) == 11
    assert total(_1=2) == 12, "one is silent"
    summed.retire(2)
    assert total(_1=2) == 12, "it has ended"
    assert total(_1=2, _2=3) == 15, "the next of its number begins with nothing"
    summed.retire(2)
    assert total(_1=2, _2=1) == 16
