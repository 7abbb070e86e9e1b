"""The primary's handling of worker responses; with real processes: tests/integration/gateproject/process/workers."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from config.config_watcher import ConfigWatcher
from foundation.errors import ConfigError, Problem
from foundation.readiness import ReadinessReport
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from gateproject.process.workers.link import WorkerUnavailable
from gateproject.process.workers.primary import PrimaryPeers
from tests.support.options import make_options


class LinkOfATest:
    def __init__(self, number: int, **answers: Any):
        self.number, self.answers, self.is_killed = number, answers, False

    def kill(self) -> None:
        self.is_killed = True


class LinksOfATest:
    def __init__(self, *links: LinkOfATest):
        self.links, self.requests = links, []

    async def request_all(self, what: str, argument: object, seconds: float) -> dict[LinkOfATest, Any]:
        self.requests.append(what)
        return {link: link.answers.get(what) for link in self.links if not link.is_killed}


def peers_of(links: Any, count: int = 3) -> PrimaryPeers:
    peers = PrimaryPeers(SimpleNamespace(count=count))  # type: ignore[arg-type]
    peers._links = links
    return peers


async def prepare(tmp_path: Path, *links: LinkOfATest) -> list[str]:
    options = make_options(tmp_path)
    links_ = LinksOfATest(*links)
    peers = peers_of(links_)
    peers._runtime = SimpleNamespace(source=ConfigWatcher(None, {}), options=options)  # type: ignore[assignment]
    await peers.prepare(SimpleNamespace(options=options, signing_key=None), ConfigProvenance())  # type: ignore[arg-type]
    return links_.requests


async def test_where_all_have_built_it_the_first_may_swap(tmp_path: Path) -> None:
    assert await prepare(tmp_path, LinkOfATest(2, prepare=()), LinkOfATest(3, prepare=())) == ["here", "prepare"]


async def test_configuration_rejected_by_one_worker_is_applied_by_none_and_reported_once(tmp_path: Path) -> None:
    problem = Problem("policy[0].to", "can't be read")
    with pytest.raises(ConfigError) as refused:
        await prepare(tmp_path, LinkOfATest(2, prepare=()), LinkOfATest(3, prepare=[problem]), LinkOfATest(4, prepare=[problem]))
    assert refused.value.problems == (problem,) or list(refused.value.problems) == [problem]


@pytest.mark.parametrize("silent_at", ["here", "prepare"])
async def test_silent_worker_is_ended_and_blocks_no_policy(silent_at: str, tmp_path: Path) -> None:
    silent = LinkOfATest(3, **{"prepare": (), silent_at: WorkerUnavailable("worker 3 does not answer")})
    await prepare(tmp_path, LinkOfATest(2, prepare=()), silent)
    assert silent.is_killed


@pytest.mark.parametrize(("serving", "reason"), [(3, "workers: ok"), (1, "workers: degraded: 2 of 4 ")])
def test_one_process_is_enough_to_be_ready_and_the_others_are_missed(serving: int, reason: str) -> None:
    (workers,) = peers_of(SimpleNamespace(serving=dict.fromkeys(range(serving))), count=4).readiness()
    assert ReadinessReport((workers,)).is_ready
    assert str(workers).startswith(reason)


async def test_failed_reload_discards_prepared_parts_and_successful_one_does_not() -> None:
    links: Any = LinksOfATest()
    links.change = nullcontext
    peers = peers_of(links)
    with pytest.raises(ConfigError):
        async with peers.change():
            raise ConfigError([Problem("", "broken")])
    assert links.requests == ["forget"]
    async with peers.change():
        await peers.commit()
    await peers.report(ConfigurationStatus.from_watcher(ConfigWatcher(None, {})))
    assert links.requests == ["forget", "commit", "status"]
