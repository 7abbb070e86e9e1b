"""TLS versions and groups that clients may negotiate, the HSTS header, and uncached /ping, on both data planes."""

from collections.abc import Iterator

import pytest
from OpenSSL import SSL

from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream

APP, AUTHENTICATE = "app.localhost", "authenticate.localhost"
VALID, NOT_OFFERED = ("X25519", "P-256", "P-384"), ("X448", "P-521")
# Requests that gate answers itself, at the authenticate host and at route hosts.
OWN = [
    (AUTHENTICATE, "/.gate/", 302),
    (AUTHENTICATE, "/ping", 200),
    (AUTHENTICATE, "/robots.txt", 200),
    (AUTHENTICATE, "/", 302),
    (AUTHENTICATE, "/nothing", 404),
    (AUTHENTICATE, "/%zz", 400),
    (APP, "/", 302),
    (APP, "/healthz", 200),
    (APP, "/.gate/nothing", 404),
    (APP, "/.gate", 301),
    ("unknown.localhost", "/", 404),
]


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    with DevelopmentProvider() as provider, SampleUpstream() as application:
        builder = GateBuilder(provider.url).setting(data_plane=request.param)
        builder.route(APP, prefix="/open/", to=application.url, allow_public_unauthenticated_access=True)
        builder.route(APP, to=application.url, allow_any_authenticated_user=True)
        with builder.start(tmp_path_factory.mktemp(request.param)) as running:
            yield running


def handshake(gate: RunningGate, *, groups: str = "", version: int | None = None) -> str:
    """The version that was negotiated; SSL.Error where none was."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    if version is not None:
        context.set_max_proto_version(version)
    if groups:
        assert SSL._lib.SSL_CTX_set1_curves_list(context._context, groups.encode()) == 1
    with RawClient(gate.port) as client:
        client.socket.settimeout(None)
        connection = SSL.Connection(context, client.socket)
        connection.set_tlsext_host_name(APP.encode())
        connection.set_connect_state()
        connection.do_handshake()
        return connection.get_protocol_version_name()


def test_offered_tls_groups(gate: RunningGate) -> None:
    for group in VALID:
        assert handshake(gate, groups=group) == "TLSv1.3"
    for group in NOT_OFFERED:
        with pytest.raises(SSL.Error):
            handshake(gate, groups=group)


def test_a_client_that_knows_the_hybrid_group_gets_it(gate: RunningGate) -> None:
    assert handshake(gate, groups="X25519MLKEM768", version=SSL.TLS1_3_VERSION) == "TLSv1.3"


def test_the_oldest_version_is_the_operators_to_choose(gate: RunningGate) -> None:
    assert handshake(gate, version=SSL.TLS1_2_VERSION) == "TLSv1.2"
    reload(gate, tls_min_version="1.3")
    with pytest.raises(SSL.Error):
        handshake(gate, version=SSL.TLS1_2_VERSION)
    assert handshake(gate) == "TLSv1.3"
    reload(gate, tls_min_version=1.2)  # as YAML reads it without quotes
    assert handshake(gate, version=SSL.TLS1_2_VERSION) == "TLSv1.2"


def get(gate: RunningGate, host: str, path: str, *lines: str):
    head = "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}:{gate.port}", *lines, "", ""])
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP) as client:
        return client.send(head.encode()).response()


@pytest.mark.parametrize(("host", "path", "status"), OWN)
def test_gate_responses_have_one_hsts_header(gate: RunningGate, host: str, path: str, status: int) -> None:
    answer = get(gate, host, path, "Accept: text/html")
    assert answer.status == status
    output = [value for name, value in answer.headers if name.lower() == "strict-transport-security"]
    assert output == ["max-age=31536000; includeSubDomains; preload"]


def test_application_response_has_one_hsts_header(gate: RunningGate) -> None:
    answer = get(gate, APP, "/open/x")
    assert len([value for name, value in answer.headers if name.lower() == "strict-transport-security"]) == 1


@pytest.mark.parametrize("path", ["/ping", "/healthz"])
def test_health_response_is_not_cached(gate: RunningGate, path: str) -> None:
    assert get(gate, AUTHENTICATE, path).header("cache-control") == "no-store"
