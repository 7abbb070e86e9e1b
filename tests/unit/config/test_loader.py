"""Defaults < file < environment; all problems at once; nothing else than Options or ConfigError ever comes out."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.loader import find_config, load_options
from config.options import Options
from config.routes.route import Route
from config.routes.upstreams.upstream_urls import WeightedUrl
from foundation.errors import ConfigError
from foundation.values import Url
from tests.support.examples import examples
from tests.support.options import COOKIE_SECRET, MINIMAL, SHARED_SECRET, parse_options
from tests.unit.config.conftest import Load, Problems

ROUTE = {"from": "https://app.example.com", "to": "http://upstream"}
EXAMPLE = Path(__file__).parents[3] / "config.example.yaml"


def encoded(value: Any) -> str:
    return base64.b64encode(yaml.safe_dump(value).encode()).decode()


def test_the_file_is_named_by_the_environment_or_lies_in_the_working_directory(tmp_path: Path) -> None:
    assert find_config({}, tmp_path) is None
    (tmp_path / "config.yaml").touch()
    assert find_config({}, tmp_path) == tmp_path / "config.yaml"
    assert find_config({"GATE_CONFIG": "other.yaml"}, tmp_path) == tmp_path / "other.yaml"
    assert find_config({"GATE_CONFIG": "/etc/gate.yaml"}, tmp_path) == Path("/etc/gate.yaml")
    assert find_config({"GATE_CONFIG": ""}, tmp_path) == tmp_path / "config.yaml"


@pytest.mark.parametrize("extension", ["yaml", "yml", "json", "toml"])
def test_a_file_of_each_format_is_loaded(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"config.{extension}"
    written = json.dumps({**MINIMAL, "policy": [ROUTE]})
    if extension == "toml":
        scalars = "\n".join(f"{key} = {json.dumps(value)}" for key, value in MINIMAL.items())
        written = scalars + "\n[[policy]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in ROUTE.items())
    path.write_text(written)
    options = load_options(path, {})
    assert options.policy[0].to == (WeightedUrl(Url("http", "upstream")),)


def test_the_environment_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {key.upper(): str(value) for key, value in MINIMAL.items()}
    options = load_options(None, {**environ, "POLICY": encoded([ROUTE]), "XDG_DATA_HOME": "/srv"})
    assert options.policy[0].from_ == Url("https", "app.example.com")
    assert options.data_dir == Path("/srv/gate")


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"STATE_DIRECTORY": "/var/lib/gate/a"}, "/var/lib/gate/a"),
        ({"STATE_DIRECTORY": "/var/lib/gate/a:/var/lib/other", "HOME": "/home/x"}, "/var/lib/gate/a"),
        ({"STATE_DIRECTORY": "/var/lib/gate/a", "XDG_DATA_HOME": "/srv"}, "/srv/gate"),
        ({"HOME": "/home/x"}, "/home/x/.local/share/gate"),
    ],
)
def test_data_are_where_the_service_manager_made_room(tmp_path: Path, environ: dict[str, str], directory: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in MINIMAL.items() if key != "data_dir"}))
    assert load_options(path, environ).data_dir == Path(directory)


def test_the_environment_wins_over_the_file_over_the_default(load: Load) -> None:
    assert load().cookie_name == "_gate"
    assert load(cookie_name="file").cookie_name == "file"
    assert load({"COOKIE_NAME": "environment"}, cookie_name="file").cookie_name == "environment"


def test_an_empty_variable_is_unset(load: Load) -> None:
    assert load({"COOKIE_NAME": "", "AUTOCERT": ""}, cookie_name="file").cookie_name == "file"


def test_a_key_with_nothing_behind_it_is_unset(tmp_path: Path) -> None:
    text = yaml.safe_dump(MINIMAL) + "cookie_domain:\npolicy:\n- from: https://a.example.com\n  to: http://a\n  allowed_users:\n"
    options = parse_options(text.encode(), ".yaml", {}, tmp_path)
    assert (options.cookie_domain, options.policy[0].allowed_users) == (None, ())


def test_variables_have_text_forms(load: Load) -> None:
    options = load(
        {
            "IDP_SCOPES": "openid, email",
            "COOKIE_SECURE": "0",
            "TIMEOUT_READ": "1m30s",
            "TRUSTED_PROXIES": "10.0.0.0/8,::1",
            "ADDRESS": ":80",
        }
    )
    assert options.idp_scopes == ("openid", "email")
    assert not options.cookie_secure
    assert options.timeout_read.total_seconds() == 90
    assert len(options.trusted_proxies) == 2


def test_the_data_directory_is_below_the_home(load: Load) -> None:
    assert load({"HOME": "/home/gate"}).data_dir == Path("/home/gate/.local/share/gate")


def test_routes_keep_their_order(load: Load) -> None:
    routes = [{**ROUTE, "prefix": f"/{index}"} for index in range(5)]
    assert [route.prefix for route in load(policy=routes).policy] == ["/0", "/1", "/2", "/3", "/4"]
    assert [route.prefix for route in load(policy=encoded(routes)).policy] == ["/0", "/1", "/2", "/3", "/4"]


def test_without_policy_the_service_starts(load: Load) -> None:
    assert load().policy == ()


def test_all_problems_are_reported_at_once_with_path_and_line(tmp_path: Path) -> None:
    text = f"""
insecure_server: perhaps
cookie_secret: {COOKIE_SECRET}
idp_provider: oidc
idp_provider_url: http://idp.example.com
idp_client_id: gate
idp_client_secret: x
cooki_name: x
timeout_write: 1m
policy:
  - from: https://a.example.com/x
    to: http://a
  - from: https://b.example.com
    to: http://b
    timeout: 5m
"""
    with pytest.raises(ConfigError) as caught:
        parse_options(text.encode(), ".yaml", {"SERVICES": "proxy"}, tmp_path)
    assert {(problem.key, problem.line) for problem in caught.value.problems} == {
        ("insecure_server", 2),
        ("idp_provider_url", 5),
        ("cooki_name", 8),
        ("policy[0].from", 11),
        ("policy[1].timeout", 15),
        ("shared_secret", None),
        ("authenticate_service_url", None),
        ("databroker_service_url", None),
        ("authorize_service_url", None),
    }


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("not base64!", "base64"),
        (encoded({"a": 1}), "must be a list"),
        (base64.b64encode(b"[").decode(), "YAML"),
        (base64.b64encode(b"- {from: a, from: b}").decode(), "duplicate"),
        (5, "must be a list"),
        ({}, "must be a list"),
    ],
)
def test_a_policy_that_is_no_list_is_refused(problems: Problems, policy: Any, message: str) -> None:
    assert message in problems(policy=policy)["policy"]


def test_base64_of_a_policy_may_have_line_breaks(tmp_path: Path) -> None:
    wrapped = base64.encodebytes(yaml.safe_dump([ROUTE] * 3).encode()).decode()
    assert "\n" in wrapped.strip()
    assert len(parse_options(yaml.safe_dump(MINIMAL).encode(), ".yaml", {"POLICY": wrapped}, tmp_path).policy) == 3


def test_keys_of_the_operator_are_a_place_for_anchors(problems: Problems, tmp_path: Path) -> None:
    text = "x-common: &common {to: 'http://up', allow_any_authenticated_user: true}\n" + yaml.safe_dump(
        {name: value for name, value in MINIMAL.items() if name != "policy"}
    )
    text += "policy: [{<<: *common, from: 'https://a.example.com'}]\n"
    (route,) = parse_options(text.encode(), ".yaml", {}, tmp_path).policy
    assert route.allow_any_authenticated_user
    assert "unknown setting" in problems(xcommon=1)["xcommon"]
    assert "unknown setting" in problems(policy=[{**ROUTE, "x-common": 1}])["policy[0].x-common"]


@pytest.mark.parametrize("text", ["a: !x b", "1: a", "a: *b", "<<: 1"], ids=["tag", "key", "alias", "merge"])
def test_an_error_of_the_document_is_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(text.encode(), ".yaml", {}, tmp_path)
    assert caught.value.problems[0].message.startswith("the configuration has ")


def test_a_broken_policy_in_the_environment_stops_the_start(problems: Problems) -> None:
    assert "base64" in problems({"POLICY": "x"})["POLICY"]
    assert "POLICY[0].to" in problems({"POLICY": encoded([{**ROUTE, "to": "x"}])})
    assert problems({"POLICY": encoded([5])})["POLICY[0]"] == "must be a map (in the environment)"


@pytest.mark.parametrize("content", [b"[]", b"5", b"text", b"a: 1\na: 2", b"a: !!x y"])
def test_a_document_that_is_no_map_of_settings_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        parse_options(content, ".yaml", {}, tmp_path)


def test_a_duplicate_key_is_a_problem_although_all_else_is_right(tmp_path: Path) -> None:
    text = yaml.safe_dump(MINIMAL) + "cookie_name: a\ncookie_name: b\n"
    with pytest.raises(ConfigError, match=r"cookie_name: is a duplicate key") as caught:
        parse_options(text.encode(), ".yaml", {}, tmp_path)
    assert caught.value.problems[0].line == len(MINIMAL) + 2


@pytest.mark.parametrize("name", ["missing.yaml", "directory.yaml", "config.ini", "config"])
def test_a_file_that_can_not_be_used_is_a_config_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory.yaml").mkdir()
    (tmp_path / "config.ini").touch()
    (tmp_path / "config").touch()
    with pytest.raises(ConfigError, match=name):
        load_options(tmp_path / name, {})


@pytest.mark.parametrize("key", ["cookie_secret", "shared_secret", "idp_client_secret", "signing_key", "certificate_key"])
def test_invalid_secret_is_not_displayed(problems: Problems, key: str) -> None:
    for value in ("hunter2\x00hunter2", "hunter2 ", "hunter2=", ["hunter2"], {"hunter2": "hunter2"}, base64.b64encode(b"hunter2").decode()):
        found = {**problems(**{key: value}), **(problems({key.upper(): value}) if isinstance(value, str) else {})}
        assert "hunter2" not in str(found)
        assert base64.b64encode(b"hunter2").decode() not in str(found)


def test_options_and_errors_never_show_the_secrets(load: Load) -> None:
    text = repr(load())
    assert not any(secret in text for secret in (COOKIE_SECRET, SHARED_SECRET, "client-secret"))
    assert repr(bytes(range(32))) not in text


def test_the_example_loads_once_its_secrets_are_filled_in(tmp_path: Path, pair: tuple[bytes, bytes], other_key: bytes) -> None:
    text = EXAMPLE.read_text()
    with pytest.raises(ConfigError, match="cookie_secret"):
        parse_options(text.encode(), ".yaml", {}, tmp_path)
    for name, content in (("fullchain.pem", pair[0]), ("privkey.pem", pair[1]), ("signing-key.pem", other_key)):
        (tmp_path / name).write_bytes(content)
    text = text.replace("PUT-A-SECRET-HERE", COOKIE_SECRET).replace("PUT-ANOTHER-SECRET-HERE", SHARED_SECRET)
    options = parse_options(text.encode(), ".yaml", {}, tmp_path)
    assert len(options.policy) == 6
    assert len(options.certificate_pairs) == 1


KEYS = st.sampled_from([*Options.attributes(), "autocert", "policy_file", "nonsense"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["https://a.example.com", "/x", "1s", ":80"])
)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8
)
ROUTES = st.lists(st.dictionaries(st.sampled_from([*Route.attributes(), "x"]), ANY, max_size=5) | ANY, max_size=3)


def loads_or_refuses(content: bytes, extension: str, environ: dict[str, str]) -> None:
    try:
        assert isinstance(parse_options(content, extension, environ, Path("/nonexistent")), Options)
    except ConfigError as refusal:
        problems = refusal.problems
    else:
        return
    assert problems
    for problem in problems:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", str(problem))  # nothing that moves a terminal's cursor


@given(st.dictionaries(KEYS, ANY, max_size=6), ROUTES)
@examples(25)
def test_any_values_give_options_or_a_config_error(changes: dict[str, Any], routes: list[Any]) -> None:
    loads_or_refuses(json.dumps({**MINIMAL, "policy": routes, **changes}).encode(), ".json", {})


@given(st.binary(max_size=300), st.sampled_from([".yaml", ".json", ".toml"]))
@examples(25)
def test_any_bytes_give_options_or_a_config_error(content: bytes, extension: str) -> None:
    loads_or_refuses(content, extension, {})
    loads_or_refuses(yaml.safe_dump(MINIMAL).encode() + content, ".yaml", {})


@given(st.dictionaries(KEYS.map(str.upper), st.text(st.characters(exclude_characters="\0"), max_size=30), max_size=5))
@examples(25)
def test_any_environment_gives_options_or_a_config_error(environ: dict[str, str]) -> None:
    loads_or_refuses(yaml.safe_dump(MINIMAL).encode(), ".yaml", environ)


def test_a_thousand_routes_are_loaded(load: Load) -> None:
    assert len(load(policy=[{**ROUTE, "from": f"https://h{index}.example.com"} for index in range(1_000)]).policy) == 1_000
