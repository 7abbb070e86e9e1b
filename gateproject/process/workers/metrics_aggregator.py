"""Metrics sum: what several processes tell as what one gate tells."""

from collections.abc import Mapping

from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText

# What a process tells of itself, and a number of one can't be added to that of another.
_OF_A_PROCESS = ("process_", "python_")
# Numbers of what there is now: added up they say how much there is in all; any other is told of each process by itself.
_ADDED = ("envoy_cluster_", "gate_tunnels")
_COUNTED = ("counter", "histogram", "summary")


class MetricsSum:
    """Sum over the processes, by their numbers.  Counters never go backwards: those of a process that has ended stay in the sum."""

    def __init__(self) -> None:
        self._last: dict[int, MetricFamilies] = {}
        self._gone: dict[str, dict[str, float]] = {}

    def of(self, told: Mapping[int, MetricFamilies]) -> MetricFamilies:
        """Families of all; of a process that was silent this time, its counters as it told them last."""
        self._last |= told
        names = dict.fromkeys(name for families in self._last.values() for name in families)
        return {name: self._family(name, told) for name in names}

    def keep(self, number: int) -> None:
        """A process has ended, and the next of its number counts from nothing."""
        for name, family in self._last.pop(number, {}).items():
            if _is_counted(name, family):
                _add(self._gone.setdefault(name, {}), family)

    def _family(self, name: str, told: Mapping[int, MetricFamilies]) -> MetricFamilyText:
        of_each = {number: families[name] for number, families in self._last.items() if name in families}
        first = next(iter(of_each.values()))
        if _is_counted(name, first):
            sums = dict(self._gone.get(name, {}))
        elif name.startswith(_ADDED):
            sums, of_each = {}, {number: family for number, family in of_each.items() if number in told}
        else:
            lines = [_labelled(line, number) for number, family in sorted(of_each.items()) if number in told for line in family.lines]
            return first._replace(lines=lines)
        for _, family in sorted(of_each.items()):
            _add(sums, family)
        return first._replace(lines=[f"{series} {_number(value)}" for series, value in sums.items()])


def _is_counted(name: str, family: MetricFamilyText) -> bool:
    return family.kind in _COUNTED and not name.startswith(_OF_A_PROCESS)


def _add(sums: dict[str, float], family: MetricFamilyText) -> None:
    for line in family.lines:
        series, _, value = line.rpartition(" ")
        sums[series] = sums.get(series, 0.0) + float(value)


def _labelled(line: str, number: int) -> str:
    name, _, rest = line.partition("{")
    return f'{name}{{worker="{number}",{rest}'


def _number(value: float) -> str:
    return repr(value)
