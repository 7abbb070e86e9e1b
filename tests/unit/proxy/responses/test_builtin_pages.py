from pathlib import Path

import pytest

from proxy.reserved_paths import RequestHandler
from proxy.responses import builtin_pages
from tests.support.asgi import Answer, incoming_from
from tests.support.options import make_options


async def answer_to(owner: RequestHandler, path: str, directory: Path, method: str = "GET") -> Answer:
    answer = Answer()
    await builtin_pages.respond(owner, incoming_from(f"https://a.example{path}", method=method), make_options(directory), answer.send)
    return answer


@pytest.mark.parametrize("path", ["/ping", "/healthz"])
async def test_health_returns_ok(path: str, tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.HEALTH, path, tmp_path)
    assert (answer.status, answer.body, answer.header("content-type")) == (200, b"OK\n", "text/plain")
    assert (await answer_to(RequestHandler.HEALTH, path, tmp_path, "HEAD")).body == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
async def test_other_methods_get_the_allowed_ones(method: str, tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.HEALTH, "/ping", tmp_path, method)
    assert (answer.status, answer.header("allow")) == (405, "GET, HEAD")


async def test_crawlers_are_excluded(tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.ROBOTS, "/robots.txt", tmp_path)
    assert answer.body == b"User-agent: *\nDisallow: /"


async def test_the_missing_slash_is_added(tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.SLASH_REDIRECT, "/.gate", tmp_path)
    assert (answer.status, answer.header("location")) == (301, "/.gate/")


async def test_root_of_authenticate_host_leads_to_dashboard(tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.PORTAL_REDIRECT, "/", tmp_path)
    assert (answer.status, answer.header("location")) == (302, "https://auth.example.com/.gate/")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
async def test_an_unknown_host_learns_nothing(method: str, tmp_path: Path) -> None:
    answer = await answer_to(RequestHandler.NOT_FOUND, "/", tmp_path, method)
    assert answer.status == 404
    assert b"auth.example.com" not in answer.body
