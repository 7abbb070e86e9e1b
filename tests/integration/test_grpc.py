"""The data broker's gRPC service of a running gate, from another process: who knows the secret, and what they can do."""

import base64
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from databroker.records import SESSION
from databroker.rpc.remote_broker import RemoteBroker
from foundation.errors import BrokerError
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import Url
from tests.support.children import Child, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.options import make_options
from tests.support.upstream import SampleUpstream

HOST = "hello.localhost"


@pytest.fixture(scope="module")
def grpc_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory, grpc_port: int) -> Iterator[RunningGate]:
    with DevelopmentProvider() as provider, SampleUpstream() as upstream:
        builder = GateBuilder(provider.url).route(HOST, to=upstream.url, allow_any_authenticated_user=True)
        builder.setting(grpc_address=f"127.0.0.1:{grpc_port}", grpc_insecure=False)
        with builder.start(tmp_path_factory.mktemp("gate")) as running:
            yield running


def broker_of(gate: RunningGate, port: int, directory: Path, secret: str | None = None) -> RemoteBroker:
    """As another service of the same deployment would be configured."""
    options = make_options(
        directory,
        shared_secret=secret or gate.builder.settings["shared_secret"],
        grpc_insecure=False,
        certificate_file=str(gate.certificates.certificate),
        certificate_key_file=str(gate.certificates.key),
        certificate_authority_file=str(gate.certificates.authority),
        override_certificate_name=HOST,
        grpc_client_timeout="5s",
    )
    return RemoteBroker(RpcChannel(Url("https", "127.0.0.1", port), options, SharedSecret(options.shared_secret)))


async def test_a_session_that_another_service_deletes_has_ended_everywhere(gate, grpc_port, tmp_path):
    broker = broker_of(gate, grpc_port, tmp_path)
    async with gate.client() as client:
        page = await sign_in(client, gate.url(HOST, "/"), "alice")
        assert page.status_code == 200
        (session,) = [record for record in await broker.page(SESSION, "", 10) if record.data["user_id"] == "oidc/alice"]
        assert await broker.delete(SESSION, session.id)
        refused = await client.get(gate.url(HOST, "/"))
        assert refused.status_code == 401
    await broker.close()


async def test_another_secret_opens_nothing(gate, grpc_port, tmp_path):
    stranger = broker_of(gate, grpc_port, tmp_path, base64.b64encode(b"x" * 32).decode())
    with pytest.raises(BrokerError, match="unauthenticated"):
        await stranger.page(SESSION, "", 10)
    await stranger.close()
    entry = gate.wait_for_event("grpc call rejected")
    assert entry["method"] == "/databroker.DataBrokerService/GetAll"


async def test_plain_text_on_tls_port_is_refused(gate, grpc_port):
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=2)


def test_a_taken_grpc_port_starts_nothing(gate, grpc_port, tmp_path):
    path = tmp_path / "config.yaml"
    make_options(tmp_path, address=f"127.0.0.1:{free_port()}", grpc_address=f"127.0.0.1:{grpc_port}")
    # Started afresh: what gRPC's own library may say is settled when it is imported.
    with Child.python("manage.py", "rungate", "-config", path) as child:
        assert child.process.wait(30) == 1
    assert "grpc_address: can't listen on" in child.output
    assert "Traceback" not in child.output
    assert "add_port" not in child.output


async def test_a_second_gate_can_use_the_first_one_s_broker(gate, grpc_port, tmp_path):
    with SampleUpstream() as upstream:
        other = GateBuilder(gate.builder.settings["idp_provider_url"])
        other.route(HOST, to=upstream.url, allow_any_authenticated_user=True)
        other.setting(
            shared_secret=gate.builder.settings["shared_secret"],
            cookie_secret=gate.builder.settings["cookie_secret"],
            databroker_service_url=f"https://127.0.0.1:{grpc_port}",
            grpc_insecure=False,
            certificate_authority_file=str(gate.certificates.authority),
            override_certificate_name=HOST,
        )
        with other.start(tmp_path) as running:
            async with running.client() as client:
                page = await sign_in(client, running.url(HOST, "/"), "bob")
                assert page.status_code == 200
            broker = broker_of(gate, grpc_port, tmp_path)
            assert "oidc/bob" in [record.data["user_id"] for record in await broker.page(SESSION, "", 10)]
            await broker.close()
            assert running.stop() == 0
