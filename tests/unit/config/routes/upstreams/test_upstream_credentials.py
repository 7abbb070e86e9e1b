"""Settings for our credentials at upstreams that contradict each other are refused, and tokens stay hidden."""

import base64
from pathlib import Path
from typing import Any

import pytest

from config.routes.route import Route
from config.routes.upstreams.upstream_credentials import injects_credentials, uses_serverless_auth
from foundation.errors import ConfigError
from tests.support.options import make_options
from tests.unit.config.conftest import Problems

TOKEN = "eyJ-the.secret_token"
ROUTE: dict[str, Any] = {"from": "https://app.example.com", "to": "https://cluster.internal:6443"}


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"cluster_service_account_token": "a b"}, "cluster_service_account_token", "visible ASCII"),
        ({"cluster_service_account_token": "aé"}, "cluster_service_account_token", "visible ASCII"),
        (
            {"cluster_service_account_token": TOKEN, "allow_public_unauthenticated_access": True},
            "cluster_service_account_token",
            "impersonates the signed-in user",
        ),
        (
            {"cluster_service_account_token": TOKEN, "enable_cloud_serverless_authentication": True},
            "cluster_service_account_token",
            "Set one of them",
        ),
        (
            {"cluster_service_account_token": TOKEN, "to": None, "redirect": {"https_redirect": True}},
            "cluster_service_account_token",
            "`to`",
        ),
        (
            {"cluster_service_account_token": TOKEN, "basic_auth": {"user": "gate", "password": TOKEN}},
            "basic_auth",
            "both set the Authorization header",
        ),
        ({"basic_auth": {"user": "gate"}}, "basic_auth", "needs password_file"),
        ({"basic_auth": {"user": "a:b", "password": TOKEN}}, "basic_auth.user", "without colons"),
        ({"basic_auth": {"user": "a", "password": f"{TOKEN}\n"}}, "basic_auth.password", "ends in a line break"),
        ({"basic_auth": {"user": "a", "password": f"\t{TOKEN}"}}, "basic_auth.password", "control characters"),
        (
            {"enable_cloud_serverless_authentication": True, "to": None, "redirect": {"https_redirect": True}},
            "enable_cloud_serverless_authentication",
            "`to`",
        ),
    ],
    ids=str,
)
def test_a_contradiction_is_refused(route_problems: Problems, keys: dict[str, Any], key: str, message: str) -> None:
    found = route_problems(**keys)
    assert message in found[key]
    assert TOKEN not in str(found)


def test_password_is_sent_to_the_upstream_only(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p\u00e4ss:word \n")
    (route,) = make_options(tmp_path, policy=[{**ROUTE, "basic_auth": {"user": "g\u00e4te", "password_file": "password"}}]).policy
    assert route.basic_auth is not None
    assert base64.b64decode(route.basic_auth.authorization().removeprefix(b"Basic ")).decode() == "g\u00e4te:p\u00e4ss:word "
    assert "word" not in repr(route).replace("password", "")
    (tmp_path / "password").write_text("two\nlines\n")
    with pytest.raises(ConfigError, match="one line") as refused:
        make_options(tmp_path, policy=[{**ROUTE, "basic_auth": {"user": "gate", "password_file": "password"}}])
    assert "two" not in str(refused.value)


def test_a_token_in_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    keys = {**ROUTE, "cluster_service_account_token_file": "token"}
    (route,) = make_options(tmp_path, policy=[keys]).policy
    assert route.cluster_service_account_token is not None
    assert route.cluster_service_account_token.reveal() == TOKEN
    assert TOKEN not in repr(route)
    (tmp_path / "token").write_text(f"{TOKEN}\nmore\n")
    with pytest.raises(ConfigError, match="must contain only") as refused:
        make_options(tmp_path, policy=[keys])
    assert TOKEN not in str(refused.value)


def test_authorization_is_set_once(tmp_path: Path) -> None:
    sets = {"set_request_headers": {"authorization": "Basic eDp5"}}
    for keys in ({"cluster_service_account_token": TOKEN}, {"enable_cloud_serverless_authentication": True}):
        with pytest.raises(ConfigError, match=r"policy\[0\].set_request_headers"):
            make_options(tmp_path, policy=[{**ROUTE, **sets, **keys}])
    with pytest.raises(ConfigError, match=r"policy\[0\].set_request_headers"):
        make_options(tmp_path, policy=[{**ROUTE, **sets}], enable_cloud_serverless_authentication=True)
    assert make_options(tmp_path, policy=[{**ROUTE, **sets}]).policy


def test_an_unusable_service_account_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cloud_serverless_authentication_service_account: is not the JSON"):
        make_options(tmp_path, cloud_serverless_authentication_service_account="c2VjcmV0")
    (tmp_path / "account.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"cloud_serverless_authentication_service_account_file: .* key file"):
        make_options(tmp_path, cloud_serverless_authentication_service_account_file="account.json")


@pytest.mark.parametrize(
    ("everywhere", "keys", "is_own"),
    [
        (False, {}, False),
        (True, {}, True),
        (True, {"enable_cloud_serverless_authentication": False}, False),
        (False, {"enable_cloud_serverless_authentication": True}, True),
        (True, {"to": (), "redirect": {"https_redirect": True}}, False),
    ],
)
def test_route_overrides_setting(tmp_path: Path, everywhere: bool, keys: dict[str, Any], is_own: bool) -> None:
    options = make_options(tmp_path, enable_cloud_serverless_authentication=everywhere)
    route = Route.model_validate({key: value for key, value in {**ROUTE, **keys}.items() if value != ()})
    assert uses_serverless_auth(route, options) is injects_credentials(route, options) is is_own


def test_a_cluster_is_not_serverless_but_sees_credentials(tmp_path: Path) -> None:
    options = make_options(tmp_path, enable_cloud_serverless_authentication=True)
    route = Route.model_validate({**ROUTE, "cluster_service_account_token": TOKEN})
    assert (uses_serverless_auth(route, options), injects_credentials(route, options)) == (False, True)
