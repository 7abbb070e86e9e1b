from dataclasses import replace

from bench.peers import BARE_ENVOY, COLUMNS, EMBEDDED, FORWARDER, WORKERS, Row, goals, table
from bench.support.candidate import Candidate
from bench.support.wrk_load import Sample


def row(name: str, *, rate: float = 100.0, microseconds: float = 300.0, others: float = 0.0, downloads: int = 0) -> Row:
    one = Sample(rate, p50=1.0, p99=2.0, microseconds=microseconds, transfer=500.0, microseconds_each_mebibyte=700.0, others=others)
    candidate = Candidate(name, process=1, port=1, scheme="http", cores=frozenset({0, 1}))
    candidate.samples += [replace(one, rate=rate - 10), one, replace(one, rate=rate + 20)]
    candidate.downloads += [one] * downloads
    return Row.from_candidate(candidate, memory=64.0)


def test_the_table_has_medians_their_spread_and_ratios_to_both_baselines() -> None:
    header, line, *rows = table(
        [row(BARE_ENVOY, rate=1000, microseconds=50, downloads=3), row(EMBEDDED, rate=250), row("other", rate=500, microseconds=150)]
    )
    assert header == f"| | {' | '.join(COLUMNS)} |"
    assert line.count("|") == header.count("|")
    assert rows == [
        "| bare Envoy | 50 (50-50) | 1.00 | 0.17 | 1,000 (990-1,020) | 1.00 | 4.00 | 1.0 | 2.0 | 64 | 500 (500-500) | 700 (700-700) | 0% |",
        "| gate embedded | 300 (300-300) | 6.00 | 1.00 | 250 (240-270) | 0.25 | 1.00 | 1.0 | 2.0 | 64 |  |  | 0% |",
        "| other | 150 (150-150) | 3.00 | 0.50 | 500 (490-520) | 0.50 | 2.00 | 1.0 | 2.0 | 64 |  |  | 0% |",
    ]


def test_a_disturbed_row_is_marked_and_ratios_without_a_baseline_are_left_out() -> None:
    *_, line = table([row("other", others=0.4)])
    assert line == "| other | 300 (300-300) ~ |  |  | 100 (90-120) ~ |  |  | 1.0 | 2.0 | 64 |  |  | 40% |"


def test_goals_are_evaluated_where_both_were_measured() -> None:
    texts = list(goals([row(EMBEDDED, rate=70), row(FORWARDER, rate=100), row(WORKERS, microseconds=310)]))
    assert texts == [
        ("gate embedded: 0.70 of bare Daphne + aiohttp's requests/s (goal: 0.75)", True),
        ("gate workers: 2: 0.97 of gate embedded's requests in a second of processor time (goal: 0.85)", False),
    ]


def test_background_load_does_not_fail_a_goal() -> None:
    ((text, is_missed),) = goals([row(EMBEDDED, rate=70, others=0.3), row(FORWARDER, rate=100)])
    assert text.endswith("(goal: 0.75, not judged)")
    assert not is_missed
