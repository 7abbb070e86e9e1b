"""Latency of the portal with a thousand applications, and its effect on other requests.

    python -m bench.web.portal_page

1,000 routes of five kinds of policy, all open to one signed-in user, who requests the first page repeatedly. Goals: 60 kB, p99 of 60 ms,
and no event loop iteration longer than 20 ms. CPU time is shown next to wall time. It decides the exit status, because it is more
reliable on a busy machine.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import django
import structlog

from authenticate.portal.portal import PAGE_SIZE
from tests.support.fake_idp import FakeIdP

GOAL_SIZE = 60_000  # bytes
ROUTES, WARM_UP, PAGES = 1_000, 5, 300
GOAL_PAGE, GOAL_TURN = 60.0, 20.0  # milliseconds
POLICIES: tuple[dict[str, Any], ...] = (
    {"allow_any_authenticated_user": True},
    {"allowed_groups": ["engineering", "sales", "finance"]},
    {"allowed_domains": ["corp.example"], "allowed_users": ["nobody@example.org"]},
    {
        "policy": [
            {"allow": {"and": [{"domain": "corp.example"}, {"source_ip": "192.0.2.0/24"}]}},
            {"deny": {"email": {"starts_with": "x"}}},
        ]
    },
    {"policy": {"allow": {"and": [{"groups": ["engineering"]}, {"http_path": {"starts_with": "/"}}, {"day_of_week": "mon-sun"}]}}},
)


def route(number: int) -> dict[str, Any]:
    portal_settings = {"description": f"What team {number} works with", "category": f"Department {number % 20}"}
    return {"from": f"https://app-{number}.example.com", "to": "http://127.0.0.1:9", **POLICIES[number % len(POLICIES)], **portal_settings}


class Turns:
    """CPU seconds of each iteration of the event loop."""

    def __init__(self) -> None:
        self.took: list[float] = []

    async def watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.took.append(time.thread_time() - before)


async def measured(directory: Path) -> tuple[list[float], list[float], list[float], int]:
    """Return (wall and CPU seconds per page, CPU seconds per loop iteration, bytes of a page)."""
    from django.core.handlers.asgi import ASGIHandler

    from gateproject.process.gc_tuning import freeze_startup_heap
    from tests.support.authenticate_site import Site

    idp = await FakeIdP.started()
    site = Site(directory, idp, ASGIHandler(), policy=[route(number) for number in range(ROUTES)])
    browser = site.browser()
    await browser.sign_in(target="https://app-0.example.com/")
    turns, walls, processors = Turns(), [], []
    for number in range(WARM_UP + PAGES):
        if number == WARM_UP:
            freeze_startup_heap()  # as after a start
            watching = asyncio.ensure_future(turns.watch())
        wall, processor = time.perf_counter(), time.thread_time()
        page = await browser.get("/.gate/")
        walls.append(time.perf_counter() - wall)
        processors.append(time.thread_time() - processor)
        assert f"of {-(-ROUTES // PAGE_SIZE)}</span>" in page.text
    watching.cancel()
    await site.service.stop()
    await idp.stop()
    return walls[WARM_UP:], processors[WARM_UP:], turns.took, len(page.text)


def report(name: str, seconds: Sequence[float]) -> tuple[float, float]:
    """Return (p99, maximum) in milliseconds."""
    found = sorted(1e3 * each for each in seconds)
    middle, percentile, slowest = found[len(found) // 2], found[len(found) * 99 // 100], found[-1]
    print(f"{name:36}{middle:8.1f}{percentile:12.1f}{slowest:10.1f}")
    return percentile, slowest


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "gateproject.settings"
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    django.setup()
    from django.test import override_settings

    middleware = [f"gateproject.middleware.{name}Middleware" for name in ("TimeZone", "StoreUnavailable")]
    pages = override_settings(ROOT_URLCONF="authenticate.urls", MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"])
    with pages, tempfile.TemporaryDirectory() as directory:
        walls, processors, turns, size = asyncio.run(measured(Path(directory)))
    print(f"{'milliseconds':36}{'median':>8}{'99 of 100':>12}{'longest':>10}")
    report("a page of 1,000, the wall", walls)
    page, _ = report("a page of 1,000, the processor", processors)
    _, turn = report("a turn of the loop, the processor", turns)
    print(f"the page has {size / 1e3:.0f} kB")
    print(f"goals: {GOAL_SIZE / 1e3:.0f} kB, {GOAL_PAGE:.0f} ms for 99 of 100 pages, {GOAL_TURN:.0f} ms for every turn")
    return int(page > GOAL_PAGE or turn > GOAL_TURN or size > GOAL_SIZE)


if __name__ == "__main__":
    sys.exit(main())
