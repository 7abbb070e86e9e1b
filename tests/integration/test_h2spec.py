"""Server requirements of RFC 9113, checked on `data_plane: envoy` by h2spec: gate passes every case that Envoy alone passes."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.children import ROOT
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

PROGRAM = ROOT / "tests" / "support" / "h2spec" / "built" / "h2spec"
CASE = re.compile(r'<testcase package="([^"]*)" classname="([^"]*)".*?(?=<testcase |</testsuite>)', re.DOTALL)
REQUESTED = 145
PARTS = ("generic", "hpack", *(f"http2/{chapter}" for chapter in range(3, 9)))
# Cases that an Envoy 1.40 which only forwards fails: it ends the connection without the expected frame, accepts PRIORITY frames whatever
# they say (RFC 9113 5.3.2 has done away with them), and ignores frames of streams that it has closed a moment ago, as it may for a while.
OF_BARE_ENVOY = {
    ("generic/3.8", "Sends a GOAWAY frame"),
    ("http2/7", "Sends a GOAWAY frame with unknown error code"),
    ("http2/5.1", "closed: Sends a DATA frame"),
    ("http2/5.1", "closed: Sends a DATA frame after sending RST_STREAM frame"),
    ("http2/5.1", "closed: Sends a HEADERS frame"),
    ("http2/5.1", "closed: Sends a HEADERS frame after sending RST_STREAM frame"),
    ("http2/5.1.1", "Sends stream identifier that is numerically smaller than previous"),
    ("http2/5.3.1", "Sends PRIORITY frame that depend on itself"),
    ("http2/6.3", "Sends a PRIORITY frame with 0x0 stream identifier"),
    ("http2/6.9.1", "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1"),
    ("http2/6.9.1", "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream"),
}


@pytest.fixture
def gate(upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    """Of routes that are open to everybody, by their address, as h2spec names what it asks.  At /drip gate itself carries, so that a
    request lasts whose end is still to come."""
    opened = {"to": upstream.url, "allow_public_unauthenticated_access": True}
    builder = GateBuilder("http://127.0.0.1:9").route("127.0.0.1", prefix="/drip", timeout="0s", **opened).route("127.0.0.1", **opened)
    with builder.setting(data_plane="envoy").start(tmp_path) as running:
        yield running


def failed(gate: RunningGate, directory: Path, what: str, patience: int = 3, path: str = "/") -> tuple[int, dict[tuple[str, str], str]]:
    """The number of cases, and those that gate failed, with h2spec's names. A case waits `patience` seconds for a response;
    Envoy takes two to close a connection."""
    report = directory / f"{what.replace('/', '-')}.xml"
    command = [PROGRAM, what, "-p", str(gate.port), "-t", "-k", "-o", str(patience), "-P", path, "-j", report]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert report.exists(), done.stdout + done.stderr
    count, found = Counter[str](), {}
    for case in CASE.finditer(report.read_text(errors="replace")):  # what it writes need not be XML: it holds bytes as they came
        section, title = case[1], case[2]
        count[section] += 1
        if "<failure" in case[0] or "<error" in case[0]:
            found[section, title] = f"{section}/{count[section]}"
    return count.total(), found


def test_required_server_behaviour_matches_envoy(gate: RunningGate, tmp_path: Path) -> None:
    with ThreadPoolExecutor(len(PARTS)) as pool:  # each does little but wait
        answers = list(pool.map(lambda part: failed(gate, tmp_path, part), PARTS))
    assert sum(requested for requested, _ in answers) == REQUESTED
    more = {case: name for _, found in answers for case, name in found.items() if case not in OF_BARE_ENVOY}
    # On a busy machine an answer may come late, or before the frame that was to disturb it, which is for a stream that has ended then: each
    # is asked for again with more patience, then about a stream that lasts.
    paths = ("/", "/drip")
    assert [case for case, name in more.items() if all(failed(gate, tmp_path, name, 10, path)[1] for path in paths)] == []
