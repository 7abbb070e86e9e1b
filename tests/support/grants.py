"""Temporary access at a running gate, by the command and by the buttons of its page."""

import re
from pathlib import Path

import httpx

from tests.support.fork_server import run
from tests.support.gate import HTML


def command(config: Path, *arguments: str) -> str:
    done = run("manage.py", "grants", *arguments, "-config", config)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def give(config: Path, route: str, lifetime: str) -> str:
    return command(config, "create", "--user", "alice@example.com", "--route", route, "--for", lifetime, "--reason", "a test").partition(
        ":"
    )[0]


async def press(client: httpx.AsyncClient, page: str, do: str, **fields: str) -> httpx.Response:
    form = await client.get(page, headers=HTML)
    (token, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', form.text)
    requests = re.findall(r'name="request" value="([^"]+)"', form.text)
    sent = {"_gate_csrf": token, "do": do, "request": requests[0] if requests else "", **fields}
    return await client.post(page.partition("?")[0], data=sent, headers=HTML)
