"""Metrics aggregator: merges the metrics of all processes."""

from collections.abc import Mapping

from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText

# Per-process metrics, which cannot be added up.
_PER_PROCESS = ("process_", "python_")
# Gauges that are summed; any other gauge is reported per process.
_SUMMED_GAUGES = ("envoy_cluster_", "gate_tunnels")
_COUNTED = ("counter", "histogram", "summary")


class MetricsAggregator:
    """Sum over the processes, by their numbers. Counters never decrease, because those of exited processes stay in the sum."""

    def __init__(self) -> None:
        self._last: dict[int, MetricFamilies] = {}
        self._retired: dict[str, dict[str, float]] = {}

    def aggregate(self, reported: Mapping[int, MetricFamilies]) -> MetricFamilies:
        """Return the families of all processes, with the last counters of a process that did not respond."""
        self._last |= reported
        names = dict.fromkeys(name for families in self._last.values() for name in families)
        return {name: self._family(name, reported) for name in names}

    def retire(self, number: int) -> None:
        """Retain the counters of an exited process, because its successor starts at zero."""
        for name, family in self._last.pop(number, {}).items():
            if _is_counted(name, family):
                _add(self._retired.setdefault(name, {}), family)

    def _family(self, name: str, reported: Mapping[int, MetricFamilies]) -> MetricFamilyText:
        of_each = {number: families[name] for number, families in self._last.items() if name in families}
        first = next(iter(of_each.values()))
        if _is_counted(name, first):
            sums = dict(self._retired.get(name, {}))
        elif name.startswith(_SUMMED_GAUGES):
            sums, of_each = {}, {number: family for number, family in of_each.items() if number in reported}
        else:
            lines = [_labelled(line, number) for number, family in sorted(of_each.items()) if number in reported for line in family.lines]
            return first._replace(lines=lines)
        for _, family in sorted(of_each.items()):
            _add(sums, family)
        return first._replace(lines=[f"{series} {_number(value)}" for series, value in sums.items()])


def _is_counted(name: str, family: MetricFamilyText) -> bool:
    return family.kind in _COUNTED and not name.startswith(_PER_PROCESS)


def _add(sums: dict[str, float], family: MetricFamilyText) -> None:
    for line in family.lines:
        series, _, value = line.rpartition(" ")
        sums[series] = sums.get(series, 0.0) + float(value)


def _labelled(line: str, number: int) -> str:
    name, _, rest = line.partition("{")
    return f'{name}{{worker="{number}",{rest}'


def _number(value: float) -> str:
    return repr(value)
