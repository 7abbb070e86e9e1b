"""One host only, at its pace, and never pages."""

import pytest

from authenticate.directory.snapshot import DirectoryError, TimeBudget
from authenticate.directory.vendors import directory_api as api_module
from authenticate.directory.vendors.directory_api import DirectoryApi, RateLimiter, parse_page
from authenticate.directory.vendors.vendor_credentials import StaticHeaders
from authenticate.provider.provider_http import ProviderResponse
from foundation.errors import ProviderError

BASE = "https://api.example.com/v1"


class Http:
    """Fake that returns responses from a list, and records the requests."""

    def __init__(self, *answers: ProviderResponse | ProviderError):
        self.answers = list(answers)
        self.calls: list[tuple[str, dict[str, str]]] = []

    async def send(self, method: str, url: str, headers: dict[str, str], content: bytes = b"") -> ProviderResponse:
        self.calls.append((url, dict(headers)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ProviderError):
            raise answer
        return answer


def ok(body: bytes = b"{}") -> ProviderResponse:
    return ProviderResponse(200, "application/json", body)


class Stage:
    def __init__(self, *answers: ProviderResponse | ProviderError, left: float = 100.0, attempts: int = 6):
        self.http = Http(*answers)
        self.slept: list[float] = []
        self.budget = TimeBudget(deadline=left, attempts=attempts, now=lambda: 0.0)
        credentials = StaticHeaders({"Authorization": "secret"})
        self.api = DirectoryApi(
            BASE,
            self.http,
            credentials,
            self.budget,
            pace=RateLimiter(None),
            sleep=self.sleep,
            clock=lambda: 0.0,
            jitter=lambda: 1.0,  # type: ignore[arg-type]
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def pages(self, next_page) -> list[object]:
        return [page async for _, page in self.api.iter_pages("/x", None, next_page)]


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/v1/x",
        "http://api.example.com/v1/x",
        "https://api.example.com:8443/v1/x",
        "https://api.example.com@evil.example/x",
        "https://user@api.example.com/x",
        "//evil.example/x",
        "https://api.example.com.evil.example/x",
        "https:/\\evil.example/x",
        "https://api.example.com\\.evil.example/x",
        "https://api.example.com\n.evil.example/x",
        "https://[::1/x",
        "ftp://api.example.com/x",
        "javascript:1",
    ],
)
async def test_only_the_directory_host_is_contacted(address: str) -> None:
    stage = Stage(ok())
    with pytest.raises(DirectoryError, match="another host"):
        await stage.api.get(address)
    with pytest.raises(DirectoryError, match="another host"):
        await stage.pages(lambda answer, page: address)
    assert [url for url, _ in stage.http.calls] == [f"{BASE}/x"]


@pytest.mark.parametrize("address", ["https://api.example.com/v1/x?after=2", "https://API.example.com:443/other"])
async def test_its_own_host_is(address: str) -> None:
    stage = Stage(ok())
    await stage.api.get(address)
    assert stage.http.calls == [(address, {"Authorization": "secret"})]


async def test_token_endpoint_does_not_receive_the_token() -> None:
    stage = Stage(ok())
    await stage.api.token("https://login.example.com/token", {"a": "b"})
    assert "Authorization" not in stage.http.calls[0][1]


async def test_a_listing_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "MAX_PAGES", 10)
    stage = Stage(ok())
    numbers = iter(range(1000))
    with pytest.raises(DirectoryError, match="pages"):
        await stage.pages(lambda answer, page: f"/x?after={next(numbers)}")
    assert len(stage.http.calls) == 10


async def test_page_linking_to_itself_is_requested_once() -> None:
    stage, again = Stage(ok()), iter(["/x"] * 20)
    with pytest.raises(DirectoryError, match="pages"):
        await stage.pages(lambda answer, page: next(again, None))
    assert len(stage.http.calls) == 1


async def test_transient_failures_are_retried_with_backoff_and_a_limit() -> None:
    stage = Stage(ProviderError("away"), attempts=4)
    with pytest.raises(DirectoryError, match="away"):
        await stage.api.get("/x")
    assert stage.slept == [1, 2, 4]
    assert stage.budget.requests == 4


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 410])
async def test_permanent_failure_is_not_retried(status: int) -> None:
    stage = Stage(ProviderResponse(status, "", b""))
    with pytest.raises(DirectoryError, match=f"status {status}"):
        await stage.api.get("/x")
    assert len(stage.http.calls) == 1


async def test_waits_no_longer_than_the_time_left() -> None:
    stage = Stage(ProviderResponse(429, "", b"", {"retry-after": "99"}), left=99.0)
    with pytest.raises(DirectoryError, match="idp_refresh_directory_timeout"):
        await stage.api.get("/x")
    assert stage.slept == []


async def test_error_omits_query() -> None:
    with pytest.raises(DirectoryError) as raised:
        await Stage(ProviderResponse(400, "", b"")).api.get("/x", {"cursor": "hunter2"})
    assert "hunter2" not in str(raised.value)
    assert "api.example.com/v1/x" in str(raised.value)


async def test_a_pace_is_shared_by_all() -> None:
    now, slept = 0.0, []

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))

    pace = RateLimiter(10, now=lambda: now, sleep=sleep)
    for _ in range(4):
        await pace.acquire()
    assert slept == [0.1, 0.2, 0.3]
    now = 100.0
    await pace.acquire()
    assert len(slept) == 3


def test_a_page_is_an_object_or_a_list() -> None:
    assert parse_page(ok(b' {"a": 1}'), BASE) == {"a": 1}
    assert parse_page(ok(b"[1]"), BASE) == [1]
    for body in (b"", b"1", b"<html>", b'{"a": NaN}', b'{"a": 1, "a": 2}'):
        with pytest.raises(DirectoryError):
            parse_page(ok(body), BASE)
