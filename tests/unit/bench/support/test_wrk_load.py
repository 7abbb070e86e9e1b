import pytest

from bench.support.wrk_load import Failed, Figure, Report, Sample, valid_samples

OUTPUT = """Running 2s test @ http://127.0.0.1:8000/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     7.99ms    2.10ms  40.55ms   88.10%
    Req/Sec     4.04k   313.50     4.48k    75.00%
  Latency Distribution
     50%    7.60ms
     75%    8.44ms
     90%    9.77ms
     99%    1.25s
  8065 requests in 2.00s, 9.93MB read
Requests/sec:   4029.61
Transfer/sec:      4.96MB
"""


def sample(others: float, rate: float = 100.0) -> Sample:
    return Sample(rate, p50=1.0, p99=2.0, microseconds=300.0, transfer=1.0, microseconds_each_mebibyte=1.0, others=others)


def test_a_report_is_read_with_its_units() -> None:
    assert Report.read(OUTPUT) == Report(requests=8065, rate=4029.61, p50=7.6, p99=1250.0, transfer=4.96)
    assert Report.read(OUTPUT.replace("4.96MB", "2.00GB")).transfer == 2048.0
    assert Report.read(OUTPUT.replace("7.60ms", "760.00us")).p50 == pytest.approx(0.76)


@pytest.mark.parametrize(
    "output",
    [
        OUTPUT + "  Non-2xx or 3xx responses: 12\n",
        OUTPUT + "  Socket errors: connect 0, read 3, write 0, timeout 0\n",
        OUTPUT.replace("99%", "98%"),
        "unable to connect to 127.0.0.1:8000 Connection refused\n",
    ],
)
def test_failed_request_is_no_sample(output: str) -> None:
    with pytest.raises(Failed):
        Report.read(output)


def test_only_quiet_samples_count() -> None:
    quiet = [sample(0.0), sample(0.05), sample(0.07)]
    assert valid_samples([sample(0.08), quiet[0], sample(0.5), *quiet[1:]]) == (quiet, True)


def test_quietest_runs_substitute_and_are_marked_where_too_few_are_quiet() -> None:
    samples = [sample(0.9), sample(0.01), sample(0.5), sample(0.3)]
    assert valid_samples(samples) == ([sample(0.01), sample(0.3), sample(0.5)], False)
    assert valid_samples([]) == ([], False)


def test_a_figure_is_the_median_with_its_spread() -> None:
    assert Figure.from_values([5.0, 1.0, 3.0]) == Figure(3.0, 1.0, 5.0)
