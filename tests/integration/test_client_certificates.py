"""Routes that want client certificates, on real TLS connections: every bad certificate, name and way round is refused with 495."""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.client_certificates import SERVER, Issued, authority
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient, RawResponse
from tests.support.upstream import SampleUpstream

DAY = timedelta(days=1)
ANNS, BOBS, OTHERS = authority("ann's"), authority("bob's"), authority("ann's")
ANN, BOB = ANNS.issue("ann"), BOBS.issue("bob")
MIDDLE = ANNS.issue("middle", is_authority=True, usages=())
LEAF = MIDDLE.issue("leaf")
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@dataclass
class Stage:
    gate: RunningGate
    directory: Path

    def context(self, *displayed: Issued, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = self.gate.certificates.client_context()
        context.check_hostname = False
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return displayed[0].present_in(context, self.directory, *displayed[1:]) if displayed else context

    def connect(self, server_name: str | None, *displayed: Issued, version: ssl.TLSVersion | None = None) -> RawClient:
        return RawClient(self.gate.port, tls=self.context(*displayed, version=version), server_name=server_name)

    def ask(self, host: str, *displayed: Issued, server_name: str | None = "", version: ssl.TLSVersion | None = None) -> RawResponse:
        """With the host as server name, unless another is given."""
        with self.connect(host if server_name == "" else server_name, *displayed, version=version) as client:
            return self.on(client, host)

    def on(self, client: RawClient, host: str, path: str = "/") -> RawResponse:
        return client.send(f"GET {path} HTTP/1.1\r\nHost: {host}:{self.gate.port}\r\n\r\n".encode()).response()


@pytest.fixture(scope="module")
def stage(upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("gate")
    (directory / "anns.pem").write_bytes(ANNS.pem)
    (directory / "bobs.pem").write_bytes(BOBS.pem)
    (directory / "changing.pem").write_bytes(ANNS.pem)
    public = {"to": upstream.url, "allow_public_unauthenticated_access": True}
    builder = (
        GateBuilder("http://127.0.0.1:9")
        .route("ann.localhost", **public, tls_downstream_client_ca_file="anns.pem")
        .route("bob.localhost", **public, tls_downstream_client_ca_file="bobs.pem")
        .route("changing.localhost", **public, tls_downstream_client_ca_file="changing.pem")
        .route("open.localhost", **public)
    )
    with builder.start(directory) as gate:
        yield Stage(gate, directory)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_valid_certificate_with_intermediates_is_accepted(stage: Stage, version: ssl.TLSVersion) -> None:
    assert stage.ask("ann.localhost", ANN, version=version).status == 200
    assert stage.ask("ann.localhost", LEAF, MIDDLE, version=version).status == 200
    assert stage.ask("bob.localhost", BOB, version=version).status == 200


BAD: dict[str, tuple[Issued, ...]] = {
    "none": (),
    "another route's": (BOB,),
    "an authority of the same name": (OTHERS.issue("ann"),),
    "expired": (ANNS.issue("ann", begins=-9 * DAY, ends=-DAY),),
    "not yet valid": (ANNS.issue("ann", begins=DAY, ends=9 * DAY),),
    "for servers": (ANNS.issue("ann", usages=(SERVER,)),),
    "for nothing": (ANNS.issue("ann", usages=()),),
    "self-signed": (authority("self"),),
    "the authority's own": (ANNS,),
    "without its intermediate": (LEAF,),
    "issued by a client": (ANN.issue("eve"), ANN),
    "with the right authority beside": (OTHERS.issue("ann"), ANNS),
    "with a good certificate beside": (BOB, ANN, ANNS),
}


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("kind", BAD)
def test_a_bad_certificate_is_refused_and_nothing_reaches_the_upstream(
    stage: Stage, upstream: SampleUpstream, kind: str, version: ssl.TLSVersion
) -> None:
    seen = upstream.hits
    response = stage.ask("ann.localhost", *BAD[kind], version=version)
    assert (response.status, response.announces_close) == (495, True)
    assert b"client certificate" in response.body
    assert upstream.hits == seen


@pytest.mark.parametrize("server_name", ["open.localhost", "bob.localhost", "unknown.localhost"])
def test_certificate_counts_for_its_sni_only(stage: Stage, server_name: str) -> None:
    assert stage.ask("ann.localhost", ANN, server_name=server_name).status == 495
    assert stage.ask("ann.localhost", ANN, MIDDLE, BOB, server_name=server_name).status == 495


@pytest.mark.parametrize("host", ["ANN.localhost", "ann.localhost.", "Ann.LocalHost"])
def test_no_spelling_of_the_host_is_a_way_round(stage: Stage, host: str) -> None:
    assert stage.ask(host, server_name="ann.localhost").status == 495
    assert stage.ask(host, server_name="open.localhost").status == 495
    assert stage.ask(host, ANN, server_name="ann.localhost").status == 200


def test_client_without_sni_is_verified_by_the_route(stage: Stage) -> None:
    assert stage.ask("ann.localhost", ANN, server_name=None).status == 200
    assert stage.ask("bob.localhost", ANN, server_name=None).status == 495
    assert stage.ask("ann.localhost", server_name=None).status == 495


def test_keep_alive_requests_use_their_host(stage: Stage) -> None:
    with stage.connect("ann.localhost", ANN) as client:
        assert stage.on(client, "ann.localhost").status == 200
        assert stage.on(client, "open.localhost").status == 200
        assert stage.on(client, "ann.localhost").status == 200
        assert stage.on(client, "bob.localhost").status == 495


def test_other_hosts_and_gate_pages_request_no_certificate(stage: Stage) -> None:
    assert stage.ask("open.localhost").status == 200
    with stage.connect("ann.localhost") as client:
        assert stage.on(client, "ann.localhost", "/ping").status == 200


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize(("first", "then"), [("ann", "bob"), ("ann", "ann"), ("open", "ann"), ("ann", "open")])
def test_no_tls_resumption_with_client_certificates(stage: Stage, first: str, then: str, version: ssl.TLSVersion) -> None:
    shows, shows_nothing = stage.context(ANN, version=version), stage.context(version=version)
    for context in (shows, shows_nothing):
        with RawClient(stage.gate.port, tls=context, server_name=f"{first}.localhost") as client:
            stage.on(client, f"{first}.localhost")
            session = client.socket.session
        with RawClient(stage.gate.port) as plain:
            wrapped = context.wrap_socket(plain.socket, server_hostname=f"{then}.localhost", session=session)
            assert not wrapped.session_reused
            plain.socket = wrapped
            expected = 200 if then == "open" or (then == "ann" and context is shows) else 495
            assert stage.on(plain, f"{then}.localhost").status == expected


def test_denial_reason_in_challenge_and_log(stage: Stage) -> None:
    with stage.connect("ann.localhost") as client:
        head = f"GET /x HTTP/1.1\r\nHost: ann.localhost:{stage.gate.port}\r\nAccept: application/json\r\n\r\n"
        response = client.send(head.encode()).response()
    assert b'"status": 495' in response.body
    assert b"no client certificate was sent" in response.body
    entry = stage.gate.wait_for_event("request", lambda entry: entry.get("path") == "/x")
    assert (entry["outcome"], entry["status"]) == ("client certificate", 495)


def test_a_replaced_authority_file_counts_without_a_restart(stage: Stage) -> None:
    assert stage.ask("changing.localhost", ANN).status == 200
    changing, unfinished = stage.directory / "changing.pem", stage.directory / "changing.new"
    with stage.connect("changing.localhost", ANN) as held_open:
        assert stage.on(held_open, "changing.localhost").status == 200
        unfinished.write_bytes(BOBS.pem)
        os.replace(unfinished, changing)
        stage.gate.child.wait_for(lambda: stage.ask("changing.localhost", BOB).status == 200, "the new authority counts")
        assert stage.on(held_open, "changing.localhost").status == 495
    assert stage.ask("changing.localhost", ANN).status == 495
    changing.unlink()
    stage.gate.wait_for_event("configuration rejected")
    assert stage.ask("changing.localhost", ANN).status == 495
