"""The identity provider goes away: nobody new gets in, nobody who is in notices."""

from pathlib import Path

from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, follow, sign_in
from tests.support.sample_upstream import SampleUpstream

HTML = {"Accept": "text/html"}


async def test_without_the_provider_sign_in_is_a_clear_503_and_running_sessions_go_on(tmp_path: Path, upstream: SampleUpstream) -> None:
    with DevelopmentProvider() as provider:
        builder = GateBuilder(provider.url).route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
        with builder.start(tmp_path) as gate:
            async with gate.client() as alice, gate.client() as bob:
                assert (await sign_in(alice, gate.url("app.localhost"), "alice")).status_code == 200
                # A second start of gate would have nothing cached; what matters is that the provider is gone when it is needed.
                callback = await follow(bob, await bob.get(gate.url("app.localhost"), headers=HTML))
                provider.stop()
                assert (await alice.get(gate.url("app.localhost"), headers=HTML)).status_code == 200
                page = await bob.get(
                    gate.url("authenticate.localhost", "/oauth2/callback"),
                    params={"code": "any", "state": callback.url.params["state"]},
                    headers=HTML,
                )
            assert page.status_code == 503
            assert "nothing changes for you" in page.text
            assert "Traceback" not in page.text
            gate.wait_for_event("sign-in failed at the identity provider")


async def test_a_gate_that_starts_without_its_provider_says_so_at_sign_in(tmp_path: Path, upstream: SampleUpstream) -> None:
    builder = GateBuilder("http://127.0.0.1:9").route("app.localhost", to=upstream.url, allow_any_authenticated_user=True)
    builder.route("public.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
    with builder.start(tmp_path) as gate:
        async with gate.client() as client:
            page = await follow(client, await client.get(gate.url("app.localhost"), headers=HTML))
            public = await client.get(gate.url("public.localhost"))
    assert (page.status_code, public.status_code) == (503, 200)
    assert "try again" in page.text.lower()
    assert page.headers["retry-after"]
