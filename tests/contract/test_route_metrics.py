"""`/metrics` of each route over both data planes: real requests give exactly these counts."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.support.children import free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient
from tests.support.reloading import reload
from tests.support.websockets import CLOSE, RawWebSocket, SocketUpstream

PUBLIC = {"allow_public_unauthenticated_access": True}
ANSWER = b"HTTP/1.1 %b Said\r\nContent-Length: 2\r\n\r\nok"
PREFIX = "envoy_cluster_"
SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class LineUpstream:
    """An upstream that answers by the path: `/<status>`, `/stale` closes the connection after its first answer, `/late` says nothing."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        answered = False
        with connection, contextlib.suppress(OSError):
            while head := connection.recv(65536):
                while b"\r\n\r\n" not in head or (head.startswith(b"POST") and not head.endswith(b"abc")):
                    head += connection.recv(65536)
                path = head.split(b" ")[1]
                if path == b"/late":
                    connection.recv(1)
                    return
                if path == b"/stale" and answered:
                    return
                status = path[1:] if path[1:].isdigit() else b"200"
                connection.sendall(ANSWER % status)
                answered = True

    def close(self) -> None:
        self._server.close()


@dataclass(frozen=True)
class Case:
    """`ask` makes the requests at a host. `received` are the changed samples by name and labels without the route's."""

    name: str
    ask: Callable[[RunningGate, str], None]
    received: dict[str, float]
    route: dict[str, object] = field(default_factory=dict)
    planes: tuple[str, ...] = ("embedded", "envoy")


def get(*paths: str) -> Callable[[RunningGate, str], None]:
    def ask(gate: RunningGate, host: str) -> None:
        for path in paths:
            with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
                client.send(f"GET {path} HTTP/1.1\r\nHost: {host}:{gate.port}\r\n\r\n".encode()).response()

    return ask


def ejected(gate: RunningGate, host: str) -> None:
    """Wait for the ejection: gate learns of responses that Envoy forwards a moment later."""
    get("/500")(gate, host)
    gate.wait_for_event("upstream ejected")
    get("/200")(gate, host)


def post(gate: RunningGate, host: str) -> None:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
        client.send(f"POST /201 HTTP/1.1\r\nHost: {host}:{gate.port}\r\nContent-Length: 3\r\n\r\nabc".encode()).response("POST")


def websocket(gate: RunningGate, host: str) -> None:
    with RawWebSocket(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
        assert client.open(f"{host}:{gate.port}", "/hold").status == 101
        client.send_frame(CLOSE, b"\x03\xe8")


def answers(*codes: int, **more: float) -> dict[str, float]:
    """Samples of requests that were answered so."""
    received: dict[str, float] = {"upstream_rq_total": len(codes)}
    for code in codes:
        for name, value in (("upstream_rq", code), ("upstream_rq_xx", code // 100)):
            received[f"{name} {value}"] = received.get(f"{name} {value}", 0) + 1
    if timed := sum(code != 101 for code in codes):
        received["upstream_rq_time_count"] = received["upstream_rq_time_bucket +Inf"] = timed
    return received | more


DEAD = f"http://127.0.0.1:{free_port()}"
CASES = (
    Case("200", get("/200", "/200"), answers(200, 200)),
    Case("404 of the upstream", get("/404"), answers(404)),
    Case("503 of the upstream", get("/503", "/200"), answers(503, 200)),
    Case("a body", post, answers(201)),
    Case("refused", get("/"), answers(502, upstream_cx_connect_fail=1), {"to": DEAD}),
    Case("timeout", get("/late"), answers(504, upstream_rq_timeout=1), {"timeout": "300ms"}),
    Case("retry elsewhere", get("/200", "/200"), answers(200, 200, upstream_rq_total=3, upstream_rq_retry=1, upstream_cx_connect_fail=1)),
    Case("stale", get("/stale", "/stale"), answers(200, 200, upstream_rq_total=3, upstream_rq_retry=1), planes=("embedded",)),
    Case("websocket", websocket, answers(101), {"allow_websockets": True}),
    Case("redirected to sign in", get("/200"), {}, {"allow_any_authenticated_user": True}),
    Case(
        "ejected",
        ejected,
        answers(500, 503, upstream_cx_none_healthy=1)
        | {"outlier_detection_ejections_enforced_total": 1, "outlier_detection_ejections_enforced_consecutive_5xx": 1}
        | {
            "outlier_detection_ejections_active": 1,
            "membership_healthy": -1,
            "upstream_rq_time_count": 1,
            "upstream_rq_time_bucket +Inf": 1,
        },
        {"outlier_detection": {"consecutive_5xx": 1}},
    ),
)


@pytest.fixture(scope="module")
def upstream() -> Iterator[LineUpstream]:
    with contextlib.closing(LineUpstream()) as running:
        yield running


@pytest.fixture(scope="module")
def lonely() -> Iterator[LineUpstream]:
    """No other route has left a connection to it."""
    with contextlib.closing(LineUpstream()) as running:
        yield running


def host_of(case: Case) -> str:
    return f"{case.name.replace(' ', '-')}.localhost"


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(
    request: pytest.FixtureRequest,
    provider: DevelopmentProvider,
    upstream: LineUpstream,
    lonely: LineUpstream,
    sockets: SocketUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGate]:
    builder = GateBuilder(provider.url).setting(data_plane=request.param, metrics_address=f"127.0.0.1:{free_port()}")
    for case in CASES:
        to: object = (
            sockets.url
            if case.ask is websocket
            else {"retry elsewhere": [DEAD, upstream.url], "stale": lonely.url}.get(case.name, upstream.url)
        )
        access = {} if "allow_any_authenticated_user" in case.route else PUBLIC
        builder.route(host_of(case), **{"name": f'the "{case.name}".', "to": to, **access, **case.route})
    builder.route("nameless.localhost", to=upstream.url, **PUBLIC)
    with builder.start(tmp_path_factory.mktemp(request.param)) as running:
        yield running


def page(gate: RunningGate) -> str:
    return httpx.get(f"http://{gate.builder.settings['metrics_address']}/metrics", trust_env=False, timeout=30).text


def scraped(gate: RunningGate) -> Samples:
    """The samples under their exposed names: the library's parser would append `_total` to every counter's name."""
    found: Samples = {}
    for line in page(gate).splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            key = name, tuple(sorted((label, output.replace('\\"', '"')) for label, output in LABEL.findall(labels)))
            assert key not in found, f"{key} is told twice"
            found[key] = float(value)
    return found


def of_route(samples: Samples, label: str) -> dict[str, float]:
    """A route's samples by name and remaining labels, summed over Envoy and gate: each request, connection and byte is counted once."""
    received: dict[str, float] = {}
    for (name, pairs), value in samples.items():
        labels = dict(pairs)
        if name.startswith(PREFIX) and labels.get("envoy_cluster_name") == label:
            assert labels["service"] == "gate"
            others = [labels[key] for key in ("envoy_response_code", "envoy_response_code_class", "le") if key in labels]
            key = " ".join([name.removeprefix(PREFIX), *others])
            received[key] = received.get(key, 0) + value
    return received


# Metrics that depend on how bytes are split, on time, or on which connection was idle.
UNSAID = (
    *("upstream_cx_rx_bytes_total", "upstream_cx_tx_bytes_total", "upstream_rq_time_sum", "upstream_rq_time_bucket", "upstream_cx_"),
    *("upstream_rq_pending", "update_", "upstream_flow_control", "ssl_"),
)


def changes(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    output = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    stored = ("upstream_cx_connect_fail", "upstream_cx_none_healthy", "upstream_rq_time_bucket +Inf")
    return {key: value for key, value in output.items() if key in stored or not key.startswith(UNSAID)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_requests_give_exactly_these_counts(gate: RunningGate, case: Case) -> None:
    if gate.builder.settings["data_plane"] not in case.planes:
        pytest.skip("Envoy keeps its idle connections itself, and asks no second time")
    label = f'the "{case.name}".'
    before = of_route(scraped(gate), label)
    case.ask(gate, host_of(case))
    with contextlib.suppress(AssertionError):  # the comparison says more
        wait_until(lambda: changes(before, of_route(scraped(gate), label)) == case.received, "each request is counted")
    assert changes(before, of_route(scraped(gate), label)) == case.received
    assert of_route(scraped(gate), label)["upstream_rq_active"] == 0


def test_bytes_and_connections_are_counted(gate: RunningGate) -> None:
    label = f'the "{CASES[0].name}".'
    before = of_route(scraped(gate), label)
    get("/200")(gate, host_of(CASES[0]))

    def grown() -> dict[str, float]:
        after = of_route(scraped(gate), label)
        return {key: after[key] - before.get(key, 0) for key in after}

    wait_until(lambda: grown()["upstream_cx_rx_bytes_total"] == len(ANSWER % b"200"), "its bytes are counted")
    assert grown()["upstream_cx_tx_bytes_total"] > 100
    assert gate.wait_for_event("request", lambda entry: entry["host"].startswith(host_of(CASES[0])))["route_name"] == label

    def connections() -> float:
        return sum(value for (name, _), value in scraped(gate).items() if name == f"{PREFIX}upstream_cx_total")

    known = connections()
    (upgraded,) = (case for case in CASES if case.name == "websocket")
    websocket(gate, host_of(upgraded))  # always a new connection, while a request may reuse an open one
    wait_until(lambda: connections() > known, "its connection is counted")


def test_each_family_has_one_type_and_each_sample_its_service(gate: RunningGate) -> None:
    text = page(gate)
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(types) == len(set(types))
    assert [key for key in scraped(gate) if not dict(key[1]).get("service", "").startswith("gate")] == []


def test_envoy_metrics_on_envoy_plane(gate: RunningGate) -> None:
    is_envoy = gate.builder.settings["data_plane"] == "envoy"
    samples = scraped(gate)
    names = {name for name, pairs in samples if dict(pairs).get("plane") == "envoy"}
    assert ("envoy_server_uptime" in names, "envoy_http_downstream_rq_total" in names) == (is_envoy, is_envoy)
    assert ("gate_envoy_up", (("service", "gate"),)) in samples
    assert samples["gate_envoy_up", (("service", "gate"),)] == is_envoy
    received = {dict(pairs)["envoy_cluster_name"] for _, pairs in samples if "envoy_cluster_name" in dict(pairs)}
    nameless = received - {f'the "{case.name}".' for case in CASES}
    assert [len(label) for label in nameless] == [16]  # its id


def test_metrics_of_removed_route_end(gate: RunningGate) -> None:
    policy = gate.builder.policy
    stays, goes = f'the "{CASES[0].name}".', f'the "{CASES[1].name}".'
    get("/200")(gate, host_of(CASES[0]))
    wait_until(lambda: of_route(scraped(gate), stays)["upstream_rq_active"] == 0, "it has ended")
    before = of_route(scraped(gate), stays)["upstream_rq_total"]
    try:
        reload(gate, policy=[{**route, "name": "another"} if route.get("name") == goes else route for route in policy])
        samples = scraped(gate)
        assert of_route(samples, goes) == {}
        assert of_route(samples, "another")["upstream_rq_total"] == 0
        assert of_route(samples, stays)["upstream_rq_total"] == before >= 1
        reload(gate, metrics_per_route=False)
        assert of_route(scraped(gate), stays) == {}
        assert "per-route metrics disabled" in {entry["event"] for entry in gate.log}
    finally:
        reload(gate, policy=policy, metrics_per_route=None)


def test_separate_proxy_has_route_metrics(tmp_path: Path) -> None:
    elsewhere = {name: f"http://127.0.0.1:{free_port()}" for name in ("authorize_service_url", "databroker_service_url")}
    without = {"idp_client_id": None, "idp_client_secret": None, "idp_scopes": None}
    builder = GateBuilder("http://127.0.0.1:9").setting(services="proxy", grpc_insecure=True, data_plane="embedded", **elsewhere, **without)
    builder.setting(metrics_address=f"127.0.0.1:{free_port()}").route("app.localhost", name="app", to="http://127.0.0.1:9", **PUBLIC)
    with builder.start(tmp_path) as gate:
        received = ("envoy_cluster_upstream_rq_total", (("envoy_cluster_name", "app"), ("service", "gate-proxy")))
        wait_until(lambda: received in scraped(gate), "its route is exported")
        assert {dict(labels)["service"] for _, labels in scraped(gate)} == {"gate-proxy"}
