"""Redirect after the provider's logout: to the requested URL on gate's hosts, or to the configured URL."""

from pathlib import Path

import pytest

from authenticate.post_logout_redirect import LIFETIME, PostLogoutRedirect
from authenticate.redirect_targets import RedirectTargets
from tests.support.open_redirects import OPEN_REDIRECTS
from tests.support.options import make_options

NOW = 1_800_000_000.0
APP, BYE = "https://app.example.com", "https://www.example.com/bye"
ROUTES = {APP}


def after(directory: Path, **settings: str) -> PostLogoutRedirect:
    options = make_options(directory, authenticate_service_url="https://auth.example.com", **settings)
    return PostLogoutRedirect(options, RedirectTargets(options.authenticate_service_url.origin))


def test_redirects_to_host_of_gate(tmp_path: Path) -> None:
    place = after(tmp_path, signout_redirect_url=BYE)
    state = place.params(place.resolve(f"{APP}/x", ROUTES.__contains__), NOW)["state"]
    assert place.resolve_state(state, ROUTES.__contains__, NOW + LIFETIME - 1) == f"{APP}/x"
    assert place.resolve_state(state, ROUTES.__contains__, NOW + LIFETIME) == BYE
    # Checked again: the route was removed since.
    assert place.resolve_state(state, set[str]().__contains__, NOW) == BYE


@pytest.mark.parametrize("url", OPEN_REDIRECTS[:40])
def test_a_stranger_is_not(tmp_path: Path, url: str) -> None:
    assert after(tmp_path).resolve(url, ROUTES.__contains__) == ""
    assert after(tmp_path, signout_redirect_url=BYE).resolve(url, ROUTES.__contains__) == BYE


def test_without_a_redirect_target_the_provider_receives_none(tmp_path: Path) -> None:
    place = after(tmp_path)
    assert place.params("", NOW) == {}
    assert set(place.params(BYE, NOW)) == {"post_logout_redirect_uri", "state"}


OWN = "https://auth.example.com/.gate/signed_out"


def test_gate_page_is_registered_unchanged_and_leads_nowhere_else(tmp_path: Path) -> None:
    place = after(tmp_path, signout_redirect_url=OWN)
    assert place.params(place.resolve("", ROUTES.__contains__), NOW) == {"post_logout_redirect_uri": OWN}
    assert place.resolve_state("", ROUTES.__contains__, NOW) == ""
    state = place.params(place.resolve(f"{APP}/x", ROUTES.__contains__), NOW)["state"]
    assert place.resolve_state(state, ROUTES.__contains__, NOW) == f"{APP}/x"
    assert place.resolve_state(state, set[str]().__contains__, NOW) == ""


def test_link_to_gate_page_leads_to_it_once(tmp_path: Path) -> None:
    place = after(tmp_path, signout_redirect_url=BYE)
    assert place.params(place.resolve(OWN, ROUTES.__contains__), NOW) == {"post_logout_redirect_uri": OWN}


def test_a_state_of_another_gate_is_none(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    foreign = PostLogoutRedirect(
        make_options(tmp_path / "other", authenticate_service_url="https://other.example.com"), RedirectTargets("https://x")
    )
    assert after(tmp_path).resolve_state(foreign.params(f"{APP}/x", NOW)["state"], ROUTES.__contains__, NOW) == ""
