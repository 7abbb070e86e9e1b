"""oauth2-proxy: one host, and one list of rules that must all hold."""

import re
from pathlib import Path
from typing import Any

import pytest
import re2
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.importing.conversion import Conversion
from config.importing.foreign_file import read
from config.importing.oauth2_proxy import convert, match_complete_path
from config.importing.yaml_output import render_yaml
from config.loader import load_options
from tests.support.examples import examples

TOP = """\
http_address = "127.0.0.1:4180"
client_id = "gate"
client_secret = "s3cret"
provider = "oidc"
oidc_issuer_url = "https://idp.example.com"
redirect_url = "https://app.example.com/oauth2/callback"
cookie_secret = "0123456789abcdef0123456789abcdef"
cookie_expire = "168h0m0s"
"""
UPSTREAM = 'upstreams = ["http://127.0.0.1:8080/"]\n'


def converted(directory: Path, text: str, name: str = "oauth2-proxy.cfg") -> Conversion:
    (directory / name).write_text(text)
    return convert(read(directory / name), lambda: b"n" * 32)


def policy(directory: Path, text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(render_yaml(converted(directory, TOP + text), "x"))["policy"]
    return found


def test_typical_file_loads_as_gate_configuration(tmp_path: Path) -> None:
    text = (
        TOP
        + 'upstreams = ["http://127.0.0.1:8080/", "http://127.0.0.1:8081/api/"]\nemail_domains = ["example.com"]\ncookie_samesite = "lax"\n'
    )
    (tmp_path / "config.yaml").write_text(render_yaml(converted(tmp_path, text), "oauth2-proxy.cfg"))
    options = load_options(tmp_path / "config.yaml", {})
    assert str(options.authenticate_service_url) == "https://authenticate.example.com"
    assert [(route.prefix, str(route.to[0])) for route in options.policy] == [
        ("/api/", "http://127.0.0.1:8081"),
        (None, "http://127.0.0.1:8080"),
    ]
    assert all(route.allowed_domains == ("example.com",) and route.preserve_host_header for route in options.policy)
    assert options.insecure_server


def test_an_and_of_address_and_group_stays_an_and(tmp_path: Path) -> None:
    (route,) = policy(tmp_path, UPSTREAM + 'email_domains = ["example.com"]\nallowed_groups = ["admins"]\n')
    assert route["policy"] == [{"allow": {"and": [{"domain": {"in": ["example.com"]}}, {"groups": {"in": ["admins"]}}]}}]
    assert not {"allowed_domains", "allowed_groups", "allow_any_authenticated_user"} & set(route)


def test_any_address_means_any_user_able_to_sign_in(tmp_path: Path) -> None:
    (route,) = policy(tmp_path, UPSTREAM + 'email_domains = ["*"]\n')
    assert route["allow_any_authenticated_user"] is True


def test_any_address_of_a_group_means_the_group(tmp_path: Path) -> None:
    (route,) = policy(tmp_path, UPSTREAM + 'email_domains = ["*"]\nallowed_groups = ["admins"]\n')
    assert route["allowed_groups"] == ["admins"]
    assert "allow_any_authenticated_user" not in route


def test_users_of_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "emails").write_text("# people\nann@example.com\n\nbob@example.com\n")
    (route,) = policy(tmp_path, UPSTREAM + 'authenticated_emails_file = "emails"\n')
    assert route["allowed_users"] == ["ann@example.com", "bob@example.com"]


@pytest.mark.parametrize(
    "rules",
    [
        "",
        'email_domains = [".example.com"]\n',
        'authenticated_emails_file = "missing"\n',
        'email_domains = ["*"]\ngithub_org = "acme"\n',
        'email_domains = ["*"]\ngoogle_group = ["a"]\n',
    ],
)
def test_unsupported_restriction_closes_route(tmp_path: Path, rules: str) -> None:
    (route,) = policy(tmp_path, UPSTREAM + rules)
    assert "allow_any_authenticated_user" not in route
    assert route.get("allowed_users", ["nobody@invalid"]) == ["nobody@invalid"]
    assert not {"allowed_domains", "allowed_groups", "policy"} & set(route)


def test_open_paths_come_first_and_those_of_one_method_stay_closed(tmp_path: Path) -> None:
    found = policy(tmp_path, UPSTREAM + 'email_domains = ["*"]\nskip_auth_routes = ["GET=^/only-get", "^/health$", "!=^/x"]\n')
    assert [route.get("regex") for route in found] == ["/health", None]
    assert [route.get("allow_public_unauthenticated_access") for route in found] == [True, None]


expressions = st.sampled_from(["/a", "^/a", "/a$", "^/a$", "^/a/[0-9]+$", "^/a|/b$", r"^/a\$", "", "^", "a|^/b", "^/(a|b)"])


@given(expression=expressions, path=st.text(alphabet="/ab1$", max_size=6))
@examples(40)
def test_a_widened_expression_never_opens_a_path_that_was_closed(expression: str, path: str) -> None:
    if re2.fullmatch(match_complete_path(expression), path):
        assert re.search(expression, path)


@pytest.mark.parametrize(("expression", "path"), [("^/a", "/a/b"), ("/a", "/x/a/b"), ("/a$", "/x/a"), ("^/a$", "/a"), ("^/(a|b)", "/b/c")])
def test_widened_expression_still_matches_previous_inputs(expression: str, path: str) -> None:
    assert re2.fullmatch(match_complete_path(expression), path)


def test_every_key_of_the_file_is_in_the_output(tmp_path: Path) -> None:
    text = TOP + UPSTREAM + 'cookie_refresh = "1h"\nunheard_of = 1\ncookie_domains = [".a.org", ".b.org"]\nprompt = "login"\n'
    text += 'session_store_type = "redis"\nredis_connection_url = "redis://r:6379/1"\nclient_secret_file = "x"\nemail_domains = ["*"]\n'
    printed = render_yaml(converted(tmp_path, text), "oauth2-proxy.cfg")
    for key in re.findall(r"^(\w+) =", text, re.MULTILINE):
        assert key in printed, key


def test_cookie_secret_of_32_bytes_stays_and_others_are_regenerated(tmp_path: Path) -> None:
    written = yaml.safe_load(render_yaml(converted(tmp_path, TOP), "x"))
    short = yaml.safe_load(render_yaml(converted(tmp_path, TOP.replace("0123456789abcdef0123456789abcdef", "0123456789abcdef")), "x"))
    assert written["cookie_secret"] == "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    assert short["cookie_secret"] == short["shared_secret"] == "bm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm5ubm4="


def test_no_redirect_url_leaves_a_host_to_write(tmp_path: Path) -> None:
    printed = render_yaml(converted(tmp_path, TOP.replace("redirect_url", "#") + UPSTREAM), "x")
    assert "NEW the oauth2-proxy file" in printed
