"""The whole product gets its certificates from a real CA, which connects to validate the control of the hosts."""

import http.server
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509 import ocsp
from prometheus_client.parser import text_string_to_metric_families

from config.loader import load_options
from proxy.autocert.certificate_renewal import CertificateRenewal, RequestedCertificates
from proxy.autocert.certificate_storage import CertificateStorage
from proxy.listener.tls.acme_state import AcmeState
from tests.support.children import Child, free_port, free_ports, wait_until
from tests.support.fork_server import manage
from tests.support.gate import GateBuilder
from tests.support.pebble import Pebble
from tests.support.reloading import rewrite
from tests.support.upstream import SampleUpstream

AUTHENTICATE, APP, HTTP_ONLY, LATER, ELSEWHERE = (f"{name}.gate.test" for name in ("auth", "app", "http", "later", "elsewhere"))
YEAR = 365 * 24 * 3600


@dataclass
class Stage:
    builder: GateBuilder
    pebble: Pebble
    child: Child
    config: Path
    storage: CertificateStorage
    metrics: str
    http_port: int

    def handshake(self, host: str | None, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.builder.port), 10)
        return (context or self.pebble.client_context()).wrap_socket(plain, server_hostname=host)

    def certificate(self, host: str) -> bytes:
        """The certificate in DER that a client receives; it trusts only the CA."""
        with self.handshake(host) as client:
            displayed = client.getpeercert(binary_form=True)
        assert displayed is not None
        return displayed

    def wait_for_certificate(self, host: str) -> None:
        """Wait until it is obtained and shown, which by Envoy is a moment later."""

        def is_displayed() -> bool:
            try:
                return bool(self.certificate(host))
            except ssl.SSLCertVerificationError:
                return False

        self.wait_for("certificate obtained", host)
        wait_until(is_displayed, f"the certificate of {host} is shown")

    def wait_for(self, event: str, host: str, count: int = 1) -> dict:
        def found() -> list[dict]:
            return [entry for entry in self.child.events if entry.get("event") == event and entry.get("host") == host]

        self.child.wait_for(lambda: len(found()) >= count, f"{event} for {host}")
        return found()[-1]


def configure(directory: Path, ca: Pebble | None = None, **settings: object) -> tuple[GateBuilder, Path]:
    builder = GateBuilder("https://idp.example.com", authenticate_host=AUTHENTICATE)
    if ca is not None:
        settings = {**ca.settings, **settings}
    builder.setting(autocert_dir=str(directory / "certificates"), **settings)
    return builder, directory / "config.yaml"


def write(builder: GateBuilder, path: Path) -> Path:
    settings = {"data_dir": str(path.parent / "data"), **builder.settings, "policy": builder.policy}
    path.write_text(yaml.safe_dump({key: value for key, value in settings.items() if value is not None}))
    return path


def public(builder: GateBuilder, host: str, upstream: SampleUpstream) -> None:
    builder.route(host, to=upstream.url, allow_public_unauthenticated_access=True)


PLANES = ("embedded", "envoy")


@pytest.fixture(scope="module", params=PLANES)
def stage(request: pytest.FixtureRequest, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two hosts have worked by TLS before, one by HTTP."""
    directory = tmp_path_factory.mktemp("autocert")
    http_port, metrics_port = free_ports(2)
    metrics = f"127.0.0.1:{metrics_port}"
    builder, path = configure(directory, http_redirect_addr=f"127.0.0.1:{http_port}", metrics_address=metrics, data_plane=request.param)
    for host in (APP, HTTP_ONLY):
        public(builder, host, upstream)
    with Pebble(directory / "ca", tls_port=builder.port, http_port=http_port, nonces_refused=10) as pebble:
        pebble.resolve(ELSEWHERE, "127.0.0.9")  # no server listens there
        builder.setting(**pebble.settings)
        storage = CertificateStorage(directory / "certificates", pebble.directory)
        storage.open()
        storage.save_attempts({HTTP_ONLY: {"failures": 0, "not_before": 0, "worked": "http-01"}})
        with manage("rungate", "-config", write(builder, path)) as child:
            running = Stage(builder, pebble, child, path, storage, metrics, http_port)
            for host in (AUTHENTICATE, APP, HTTP_ONLY):
                running.wait_for_certificate(host)
            yield running


def test_every_host_has_a_certificate_that_the_authority_vouches_for(stage: Stage) -> None:
    for host in (AUTHENTICATE, APP, HTTP_ONLY):
        displayed = x509.load_der_x509_certificate(stage.certificate(host))
        assert displayed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName) == [host]
    requested = {entry["host"]: entry["challenge"] for entry in stage.child.events if entry.get("event") == "requesting certificate"}
    assert requested[APP] == "tls-alpn-01"
    assert requested[HTTP_ONLY] == "http-01"
    assert "PEBBLE_VA_ALWAYS_VALID" not in stage.pebble.log


def test_requests_are_served_with_them(stage: Stage) -> None:
    with stage.handshake(APP) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: {APP}:{stage.builder.port}\r\nConnection: close\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")


def test_nothing_secret_is_logged(stage: Stage) -> None:
    account = json.loads((stage.storage.directory / "account.json").read_text())
    keys = [path.read_text().splitlines()[1] for path in (stage.storage.directory / "certificates").iterdir()]
    assert len(keys) >= 3
    for secret in (account["key"]["d"], *keys, "PRIVATE KEY"):
        assert secret not in stage.child.output


def test_metrics_have_certificate_expiry(stage: Stage) -> None:
    answer = httpx.get(f"http://{stage.metrics}/metrics", trust_env=False)
    samples = {
        (sample.name, sample.labels.get("name") or sample.labels.get("result")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    ends = x509.load_der_x509_certificate(stage.certificate(APP)).not_valid_after_utc
    assert samples["gate_certificate_expiry_timestamp", APP] == ends.timestamp()
    assert samples["gate_autocert_orders_total", "obtained"] >= 3


def only_acme() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["acme-tls/1"])
    return context


@pytest.mark.parametrize("host", [APP, "unknown.gate.test", None])
def test_acme_alpn_without_challenge_is_refused(stage: Stage, host: str | None) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        stage.handshake(host, only_acme())


def test_a_browser_that_offers_it_as_well_is_a_browser(stage: Stage) -> None:
    """Behind Envoy, which sorts connections by what they offer, it is none."""
    context = stage.pebble.client_context()
    if stage.builder.settings["data_plane"] == "envoy":
        test_acme_alpn_without_challenge_is_refused(stage, APP)
        return
    context.set_alpn_protocols(["acme-tls/1", "http/1.1"])
    with stage.handshake(APP, context) as client:
        assert client.selected_alpn_protocol() == "http/1.1"


def test_a_challenge_path_without_a_challenge_is_led_to_https_like_every_other(stage: Stage) -> None:
    answer = httpx.get(f"http://127.0.0.1:{stage.http_port}/.well-known/acme-challenge/{'a' * 43}", headers={"Host": APP}, trust_env=False)
    assert (answer.status_code, answer.headers["location"]) == (301, f"https://{APP}/.well-known/acme-challenge/{'a' * 43}")


def test_reload_passes_new_values_and_keeps_connections(stage: Stage, upstream: SampleUpstream) -> None:
    before = stage.certificate(APP)
    with stage.handshake(APP) as open_before:
        for host in (ELSEWHERE, LATER):
            public(stage.builder, host, upstream)
        rewrite(stage.config, policy=stage.builder.policy)
        stage.wait_for_certificate(LATER)
        refused = stage.wait_for("certificate request failed", ELSEWHERE)
        open_before.sendall(f"GET / HTTP/1.1\r\nHost: {APP}:{stage.builder.port}\r\nConnection: close\r\n\r\n".encode())
        assert open_before.recv(100).startswith(b"HTTP/1.1 200")
    assert stage.certificate(APP) == before, "what is good is not asked for again"
    assert "could not validate the host" in refused["reason"]
    assert refused["level"] == "error"
    assert refused["retry_at"]
    with pytest.raises(ssl.SSLCertVerificationError):
        stage.certificate(ELSEWHERE)


def test_another_process_renews_and_this_one_shows_it_while_connections_go_on(stage: Stage) -> None:
    """The other one's clock is ahead; the authority reaches this one, which answers for it out of their directory."""
    options = load_options(stage.config, {})
    wanted = RequestedCertificates.from_options(options)
    before = {host: stage.certificate(host) for host in (APP, HTTP_ONLY)}
    with stage.handshake(APP) as open_before:
        other = CertificateRenewal(
            RequestedCertificates(
                hosts=(APP, HTTP_ONLY),
                acme_settings=wanted.acme_settings,
                trusted_ca=wanted.trusted_ca,
                storage=wanted.storage,
                must_staple=False,
                has_http=True,
                configured=(),
            ),
            AcmeState(),
            lambda: time.time() + 4 * YEAR,
        )
        files = {host: wanted.storage.certificate(host) for host in before}

        def is_renewed() -> bool:
            other.run_once()
            return all(wanted.storage.certificate(host) != files[host] for host in before)

        other.open()
        wait_until(is_renewed, "renewed")
        other.close()
        wait_until(lambda: all(stage.certificate(host) != before[host] for host in before), "the new ones are shown")
        open_before.sendall(f"GET / HTTP/1.1\r\nHost: {APP}:{stage.builder.port}\r\nConnection: close\r\n\r\n".encode())
        assert open_before.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("plane", PLANES)
def test_an_authority_that_is_away_stops_no_start(plane: str, tmp_path: Path, upstream: SampleUpstream) -> None:
    builder, path = configure(tmp_path, data_plane=plane, autocert=True, autocert_ca=f"https://127.0.0.1:{free_port()}/dir")
    public(builder, APP, upstream)
    with manage("rungate", "-config", write(builder, path)) as child:
        child.wait_for(lambda: any(entry["event"] == "certificate request failed" for entry in child.events), "the failure is logged")
        (received,) = (entry for entry in child.events if entry["event"] == "certificate request failed")
        assert "the CA is unavailable" in received["reason"]
        assert "Traceback" not in child.output
        any_user = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        any_user.check_hostname, any_user.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", builder.port), 10) as plain, any_user.wrap_socket(plain, server_hostname=APP) as client:
            displayed = client.getpeercert(binary_form=True)
            assert displayed is not None
            assert "no certificate" in x509.load_der_x509_certificate(displayed).subject.rfc4514_string()
            client.sendall(f"GET /ping HTTP/1.1\r\nHost: {APP}:{builder.port}\r\nConnection: close\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200")


class Responder:
    """OCSP responder that returns `status` for every certificate on behalf of pebble's issuer, which has no responder."""

    def __init__(self, port: int):
        self.port = port
        self.issuer: tuple[x509.Certificate, Any] | None = None
        self.status = ocsp.OCSPCertStatus.GOOD

    def answer(self, request: bytes) -> bytes:
        assert self.issuer is not None
        requested, (certificate, key) = ocsp.load_der_ocsp_request(request), self.issuer
        now = datetime.now(UTC).replace(microsecond=0)
        builder = ocsp.OCSPResponseBuilder().add_response_by_hash(
            issuer_name_hash=requested.issuer_name_hash,
            issuer_key_hash=requested.issuer_key_hash,
            serial_number=requested.serial_number,
            algorithm=requested.hash_algorithm,
            cert_status=self.status,
            this_update=now,
            next_update=now + timedelta(days=4),
            revocation_time=None,
            revocation_reason=None,
        )
        return builder.responder_id(ocsp.OCSPResponderEncoding.NAME, certificate).sign(key, hashes.SHA256()).public_bytes(Encoding.DER)

    @contextmanager
    def serving(self) -> Iterator[None]:
        responder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = responder.answer(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


@pytest.mark.parametrize("plane", PLANES)
def test_openssl_accepts_must_staple_certificate(plane: str, tmp_path: Path, upstream: SampleUpstream) -> None:
    responder = Responder(free_port())
    builder, path = configure(tmp_path, data_plane=plane, autocert_must_staple=True)
    with (
        Pebble(tmp_path / "ca", tls_port=builder.port, ocspResponderURL=f"http://127.0.0.1:{responder.port}") as pebble,
        responder.serving(),
    ):
        certificate, key = pebble.issuer()
        responder.issuer = x509.load_pem_x509_certificate(certificate.encode()), load_pem_private_key(key.encode(), None)
        builder.setting(**pebble.settings)
        with manage("rungate", "-config", write(builder, path)) as child:
            child.wait_for_line("OCSP response obtained")
            (tmp_path / "roots.pem").write_text(pebble.roots)
            command = ["openssl", "s_client", "-connect", f"127.0.0.1:{builder.port}", "-servername", AUTHENTICATE, "-status"]
            command += ["-CAfile", str(tmp_path / "roots.pem"), "-verify_return_error"]

            def displayed() -> str:
                return subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL).stdout

            wait_until(lambda: "OCSP Response Status: successful" in displayed(), "the certificate with its OCSP response is served")
            received = displayed()
            assert "Cert Status: good" in received
            assert "Verify return code: 0 (ok)" in received
