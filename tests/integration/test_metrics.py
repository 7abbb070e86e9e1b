"""`/metrics` of requests of users, and of gate's own requests to the provider."""

from collections import Counter
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.children import free_port, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, GateBuilder, sign_in
from tests.support.upstream import SampleUpstream


def samples(address: str, name: str) -> dict[tuple[str, str, str], float]:
    """By host, method and status."""
    families = text_string_to_metric_families(httpx.get(f"http://{address}/metrics", trust_env=False).text)
    return {
        (each.labels["host"], each.labels["http_method"], each.labels["http_status"]): each.value
        for family in families
        for each in family.samples
        if each.name == name
    }


async def test_requests_are_counted_by_configured_host(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    builder = GateBuilder(provider.url).setting(metrics_address=address)
    builder.route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.route("*.open.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
    with builder.start(tmp_path) as gate:
        before = Counter(samples(address, "http_server_requests_total"))

        def grown() -> dict[tuple[str, str, str], float]:
            return dict(Counter(samples(address, "http_server_requests_total")) - before)

        async with gate.client() as client:
            await client.get(gate.url("app.localhost"), headers=HTML)
            for host in ("one.open.localhost", "two.open.localhost"):
                await client.post(gate.url(host, "/echo"), content=b"x" * 3000)
            await client.get(gate.url("somewhere.localhost"))
            await client.request("BREW", gate.url("one.open.localhost"))
            expected = {
                ("app.localhost", "GET", "302"): 1,
                ("*.open.localhost", "POST", "200"): 2,
                ("other", "GET", "404"): 1,
                ("*.open.localhost", "other", "501"): 1,
            }
            wait_until(lambda: sum(grown().values()) == 5, "each request is counted")
            assert grown() == expected
            received = samples(address, "http_server_request_size_bytes_sum")
            assert received["*.open.localhost", "POST", "200"] == 6000
            assert (await sign_in(client, gate.url("app.localhost"), "alice")).status_code == 200
        wait_until(lambda: grown().get(("authenticate.localhost", "GET", "302")), "the pages of gate are counted")
        idp = provider.url.removeprefix("http://")
        made = samples(address, "http_client_requests_total")
        assert made[idp, "POST", "200"] == 1  # the code is redeemed
        assert {host for host, _, _ in made} == {idp}


async def test_page_metrics_have_bounded_labels(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    builder = GateBuilder(provider.url).setting(metrics_address=address)
    builder.route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)

    def sent(name: str) -> dict[tuple[str, str], float]:
        families = text_string_to_metric_families(httpx.get(f"http://{address}/metrics", trust_env=False).text)
        found = [each for family in families for each in family.samples if each.name == name]
        assert all(each.labels["service"] == "gate" for each in found)
        return {(each.labels.get("view", ""), each.labels.get("method", "")): each.value for each in found}

    with builder.start(tmp_path) as gate:
        async with gate.client() as client:
            assert (await sign_in(client, gate.url("app.localhost"), "alice")).status_code == 200
            pages = sent("django_http_requests_before_middlewares_total")["", ""]
            for _ in range(3):
                assert (await client.get(gate.url("app.localhost", "/carried"))).status_code == 200
            await client.request("MADEUP", gate.url("app.localhost", "/.gate/"))
            await client.get(gate.url("app.localhost", "/.gate/made-up"))
        assert sent("django_http_requests_before_middlewares_total")["", ""] == pages + 2
        timed = sent("django_http_requests_latency_seconds_by_view_method_count")
        assert any("sign_in" in view and method == "GET" for view, method in timed)
        assert "MADEUP" not in str(timed)
        assert "made-up" not in str(timed)
