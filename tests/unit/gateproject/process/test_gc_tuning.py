"""Objects built in the background are frozen, and the collector's state is restored.

Objects that tests/conftest.py has frozen stay frozen, because each collection here would scan them otherwise.
"""

import gc
import json
import sys
import weakref
from pathlib import Path

import pytest
import yaml

from authenticate.service import AuthenticateService
from authorize.config_checks import CONFIG_CHECKS
from authorize.policy.language.criterion_registry import FACTORIES
from authorize.policy.route_table import RouteTable
from authorize.service import AuthorizeService
from config.config_watcher import ConfigWatcher
from config.routes.policy.policy_language import iter_comparisons
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from gateproject.process.gc_tuning import GC_THRESHOLDS, SWITCH_INTERVAL_SECONDS, background_build, freeze_startup_heap
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.service import ProxyService
from tests.support.options import make_options
from tests.support.policy_cases import Cases
from tests.unit.authorize.builders import make_route

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "regex": "/a.*", "allowed_users": ["ann"]}


def test_garbage_collector_waits_and_skips_built_objects() -> None:
    turn, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with background_build():
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_SECONDS)
        made = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(turn)
    assert gc.get_freeze_count() > frozen + len(made)


def test_unbuilt_parts_are_not_retained() -> None:
    frozen = gc.get_freeze_count()
    with pytest.raises(ValueError, match="broken"), background_build():
        raise ValueError("broken")
    assert gc.isenabled()
    assert gc.get_freeze_count() <= frozen


def test_startup_objects_are_not_scanned_again():
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    made = [[number] for number in range(1000)]
    try:
        freeze_startup_heap()
        assert gc.get_freeze_count() >= frozen + len(made)
        assert gc.get_threshold() == GC_THRESHOLDS
    finally:
        gc.set_threshold(*before)


def test_configuration_results_are_freed_without_the_collector(tmp_path: Path) -> None:
    """Frozen circles would stay for ever."""
    options = make_options(tmp_path, policy=[ROUTE])
    broker, resources, key = MemoryStore(), SharedResources(), SigningKey.from_options(options)
    replica = Replica(broker)
    gc.disable()
    try:
        authorize = AuthorizeService(options, replica, key)
        proxy = ProxyService(options, AuthorizationPipeline(options, authorize, resources, lambda: 0.0), resources)
        authenticate = AuthenticateService(options, broker, key, lambda: 0.0)
        gone = [weakref.ref(each) for each in (authorize, authorize.routes, authorize.routes.routes()[0].route, proxy, proxy.data_plane)]
        gone.append(weakref.ref(authenticate))
        del options, authorize, proxy, authenticate
        assert [reference() for reference in gone] == [None] * len(gone)
    finally:
        gc.enable()


def test_rules_of_every_kind_go_without_the_collector() -> None:
    cases = Cases(1)
    message = [{"mcp_method": "ping"}, {"mcp_tool": "delete"}, {"mcp_prompt": "review"}, {"mcp_resource": {"starts_with": "file:"}}]
    deny = {"or": [*message, {"client": {"matches": "a.*"}}, {"scope": "read"}]}
    routes = [*(make_route(**cases.route()) for _ in range(300)), make_route(mcp={"scopes": {"read": "Read"}}, policy={"deny": deny})]
    criteria = {comparison.criterion for route in routes for comparison in iter_comparisons(route.blocks)}
    assert criteria == FACTORIES.keys() - {"provider", "other_provider", "redirect", "sign_in_age", "trusted_certificate"}

    def compile_all() -> None:
        for compiled in RouteTable.build(routes, client_ca=b"authority").routes():
            assert [compiled.id, compiled.allow_rules, compiled.skips_anonymous_evaluation]  # built on first access

    compile_all()
    gc.collect()
    gc.disable()
    try:
        compile_all()
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
def test_reading_a_configuration_leaves_no_garbage(name: str, tmp_path: Path) -> None:
    make_options(tmp_path, policy=[ROUTE] * 50)
    path = tmp_path / name
    path.write_text(json.dumps(yaml.safe_load((tmp_path / "config.yaml").read_text())))
    source = ConfigWatcher(path, {}, CONFIG_CHECKS)
    source.load()
    gc.collect()
    gc.disable()
    try:
        source.load()
        assert gc.collect() < 50
    finally:
        gc.enable()
