"""Private names of libraries that gate uses: each with the test that fails if its meaning changes.

A library without an upper bound in requirements.in could take one away from a running installation.
"""

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from aiohttp import TCPConnector
from aiohttp.streams import StreamReader

from proxy.upstreams.upstream_connection import UpstreamConnection
from tests.repo.test_layout import ROOT, trees

UPSTREAMS = "unit/proxy/upstreams/test_upstream_client.py"
READ_SLOWLY = f"{UPSTREAMS}::test_buffer_is_small_for_slow_client"
BROKE_OFF = f"{UPSTREAMS}::test_bytes_before_a_reset_are_read_first"
RESET = "unit/proxy/upstreams/test_upstream_connection.py::test_response_survives_reset_of_the_connection"
HALF_CLOSE = "unit/proxy/listener/test_tunnel_transport.py::test_data_after_close_notify_is_dropped"
TRANSPORT = "unit/proxy/listener/test_client_transport.py"
TURNS = "unit/proxy/listener/test_fair_selector.py::test_loop_uses_priorities_and_demotes_new_connections"
IDLE_LINES = "integration/databroker/store/test_redis_store.py::test_a_line_that_was_silent_is_used_again_at_once"
CLUSTER = "integration/databroker/store/test_redis_client.py::test_a_cluster_that_was_away_is_found_again"

# (library, None for Python's; file that uses it; name) -> its test.
USED = {
    ("aiohttp", "proxy/upstreams/upstream_client.py", "_family"): f"{UPSTREAMS}::test_only_addresses_of_the_chosen_family_are_used",
    ("aiohttp", "proxy/upstreams/upstream_client.py", "_factory"): f"{UPSTREAMS}::test_connections_are_reused",
    ("aiohttp", "proxy/upstreams/upstream_exchange.py", "_buffer"): BROKE_OFF,
    ("aiohttp", "proxy/upstreams/upstream_exchange.py", "_read_nowait"): BROKE_OFF,
    ("aiohttp", "proxy/upstreams/upstream_exchange.py", "_tail"): (f"{UPSTREAMS}::test_bytes_after_101_reach_the_new_protocol"),
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_loop"): READ_SLOWLY,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_payload"): READ_SLOWLY,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_low_water"): READ_SLOWLY,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_high_water"): READ_SLOWLY,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_high_water_chunks"): RESET,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_parser"): RESET,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_reading_paused"): RESET,
    ("aiohttp", "proxy/upstreams/upstream_connection.py", "_upgraded"): RESET,
    (None, "proxy/upstreams/upstream_connection.py", "_sock"): RESET,
    (None, "proxy/listener/fair_selector.py", "_selector"): TURNS,
    (None, "proxy/listener/client_transport.py", "_selector"): f"{TRANSPORT}::test_low_priority_connection_waits",
    ("twisted", "proxy/listener/client_transport.py", "_asyncioEventloop"): f"{TRANSPORT}::test_reading_resumes_after_pause",
    ("twisted", "proxy/listener/client_transport.py", "_readOrWrite"): f"{TRANSPORT}::test_last_write_arrives_before_close",
    ("twisted", "proxy/listener/event_loop.py", "_asyncioEventloop"): (
        "unit/proxy/listener/test_server.py::test_reactor_has_an_asyncio_loop"
    ),
    ("twisted", "proxy/listener/bounded_accept.py", "_fromListeningDescriptor"): (
        "unit/proxy/listener/test_server.py::test_the_reactors_loop_lets_slow_connections_stand_behind"
    ),
    ("twisted", "proxy/listener/tunnel_transport.py", "_tempDataBuffer"): (
        "integration/test_websockets.py::test_ping_pong_and_fragments_pass_as_they_are"
    ),
    ("twisted", "proxy/listener/half_close.py", "_flushSendBIO"): HALF_CLOSE,
    ("twisted", "proxy/listener/half_close.py", "_tlsConnection"): HALF_CLOSE,
    # pyOpenSSL, whose version the bound of Twisted limits.
    ("twisted", "proxy/listener/tls/server_certificates.py", "_lib"): (
        "unit/proxy/listener/tls/test_server_certificates.py::test_current_versions_are_spoken_with_forward_secrecy"
    ),
    ("redis", "databroker/store/redis_client.py", "_available_connections"): IDLE_LINES,
    ("redis", "databroker/store/redis_client.py", "_in_use_connections"): IDLE_LINES,
    ("redis", "databroker/store/redis_client.py", "_connections"): CLUSTER,
    ("redis", "databroker/store/redis_client.py", "_free"): CLUSTER,
    (
        "acme",
        "proxy/autocert/acme_client.py",
        "_post_once",
    ): "integration/proxy/autocert/test_acme_client.py::test_acme_account_is_stored_and_reused",
    ("django", "authorize/admin.py", "_get_obj_does_not_exist_redirect"): (
        "unit/authorize/test_admin.py::test_a_decision_s_page_is_its_explanation"
    ),
    (
        "django",
        "databroker/admin/session_admin.py",
        "_delete_view",
    ): "unit/databroker/admin/test_session_admin.py::test_deleting_a_session_ends_it_in_the_broker",
}
# Documented despite the underscore: enums, Django's models, named tuples.
DOCUMENTED = {"_value_", "_meta", "_replace"}


def test_each_private_name_of_others_has_its_test() -> None:
    used = {(str(source), name) for source, tree in trees().items() for name in _private_of_others(tree)}
    # A private name that another module of gate defines.
    own_files = {name for tree in trees().values() for name in _defined(tree)}
    listed = {(path, name) for _, path, name in USED}
    assert {each for each in used if each[1] not in own_files} - listed == set(), "lacks a row in USED"
    assert listed - used == set(), "is listed needlessly"


def test_the_tests_are_there() -> None:
    missing = [test for test in USED.values() if not _has_test(*test.split("::"))]
    assert missing == []


def test_each_library_has_an_upper_bound() -> None:
    requirements = (ROOT / "requirements.in").read_text()
    bounded = set(re.findall(r"^([\w-]+)(?:\[.*\])?>=[\d.]+,<", requirements, re.MULTILINE))
    assert {library for library, _, _ in USED if library} - bounded == set()


async def test_aiohttp_has_them_all() -> None:
    """Without one, a connection would hang instead of failing."""
    loop = asyncio.get_running_loop()
    protocol, connector = UpstreamConnection(loop), TCPConnector()
    owners = (protocol, connector, StreamReader(protocol, 1, loop=loop))
    await connector.close()
    assert [name for library, _, name in USED if library == "aiohttp" and not any(hasattr(owner, name) for owner in owners)] == []


def _private_of_others(tree: ast.Module) -> Iterator[str]:
    own = set(_defined(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if re.match(r"_[^_]", name) and name not in own | DOCUMENTED:
                yield name
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]) if re.match(r"_[^_]", name):
                yield name


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store())
            ):
                yield name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                yield name


def _has_test(path: str, name: str) -> bool:
    return re.search(rf"^(?:async )?def {name}\(", (Path(ROOT) / "tests" / path).read_text(), re.MULTILINE) is not None
