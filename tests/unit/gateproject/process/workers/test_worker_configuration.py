"""Transfer of a configuration to a worker."""

import pickle
from pathlib import Path

from config.config_watcher import ConfigWatcher
from foundation.crypto.signing_key import SigningKey
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from gateproject.process.workers.worker_configuration import WorkerConfiguration
from tests.support.options import make_options

ROUTES = [{"from": f"https://{name}.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["x"]} for name in "abc"]


def test_routes_that_stay_are_those_that_the_worker_has(tmp_path: Path) -> None:
    make_options(tmp_path, policy=ROUTES)
    source = ConfigWatcher(tmp_path / "config.yaml", {})
    before = source.load()
    make_options(tmp_path, policy=[ROUTES[2], {**ROUTES[1], "allowed_groups": ["y"]}, ROUTES[0]])
    after = source.load()
    assert after.providers, "cached values of the options are included"
    written = pickle.loads(
        pickle.dumps(
            WorkerConfiguration.serialize(
                after, before, ConfigurationStatus.from_watcher(source), ConfigProvenance(source.source_map), None
            )
        )
    )
    assert [type(route) for route in written.routes] == [int, bytes, int]
    read = written.deserialize(before)
    assert read == after
    assert type(read.policy) is type(after.policy)
    assert read.policy[0] is before.policy[2]
    assert written.status.checksum == source.checksum
    places = written.deserialize_provenance().source_map
    assert [places.route_location(index, "to") for index in range(3)] == [
        source.source_map.route_location(index, "to") for index in range(3)
    ]
    assert places.settings == source.source_map.settings
    assert written.key("ES256") is None


def test_a_key_that_was_made_is_the_same_in_all_and_one_that_is_configured_stays_where_it_is(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    key = SigningKey.from_options(options)
    status = ConfigurationStatus.from_watcher(ConfigWatcher(None, {}))
    other = WorkerConfiguration.serialize(options, options, status, ConfigProvenance(), key).key(key.algorithm)
    assert other is not None
    assert (other.kid, other.is_configured) == (key.kid, False)
    configured = SigningKey(key._private_key, key.algorithm, is_configured=True)
    assert WorkerConfiguration.serialize(options, options, status, ConfigProvenance(), configured).key(key.algorithm) is None
