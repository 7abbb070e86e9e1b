"""Detection of the product that a file belongs to, and the location of each key."""

from pathlib import Path

import pytest

from config.importing.foreign_file import OAUTH2_PROXY, POMERIUM, read
from foundation.errors import ConfigError


def written(directory: Path, name: str, text: str) -> Path:
    (directory / name).write_text(text)
    return directory / name


@pytest.mark.parametrize(
    ("name", "text", "product"),
    [
        ("config.yaml", "idp_provider: google\nroutes: []\n", POMERIUM),
        ("config.json", '{"authenticate_service_url": "https://a"}', POMERIUM),
        (".env", "export SHARED_SECRET=abc\n# a comment\nIDP_PROVIDER='google'\n", POMERIUM),
        ("oauth2-proxy.cfg", 'client_id = "x"\nupstreams = ["http://a"]\n', OAUTH2_PROXY),
        ("alpha.yaml", "upstreamConfig: {}\nproviders: []\n", OAUTH2_PROXY),
        ("o.env", "OAUTH2_PROXY_CLIENT_ID=x\nOAUTH2_PROXY_UPSTREAMS=http://a\n", OAUTH2_PROXY),
    ],
)
def test_product_is_detected_by_its_keys(tmp_path: Path, name: str, text: str, product: str) -> None:
    assert read(written(tmp_path, name, text)).product == product


def test_variables_have_values_and_lines(tmp_path: Path) -> None:
    foreign = read(
        written(tmp_path, "o.env", '\nOAUTH2_PROXY_CLIENT_ID="x y"\nOAUTH2_PROXY_UPSTREAMS=http://a\nOAUTH2_PROXY_COOKIE_SECURE=false\n')
    )
    assert foreign.values == {"client_id": "x y", "upstreams": "http://a", "cookie_secure": False}
    assert str(foreign.source("upstreams")) == "upstreams (line 3)"


def test_a_place_inside_is_named_with_its_line(tmp_path: Path) -> None:
    foreign = read(written(tmp_path, "c.yaml", "idp_provider: x\nroutes:\n  - from: https://a\n    to: b\n"))
    assert str(foreign.source("routes", 0, "to")) == "routes[0].to (line 4)"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", "a: b\n", "not recognized as a"),
        ("c.yaml", "", "contains no settings"),
        ("c.yaml", "[", "is not valid YAML"),
        ("c.env", "no assignment\n", "is not NAME=value"),
        ("c.ini", "client_id: x\n", "has an unsupported file"),
    ],
)
def test_unknown_file_is_reported(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(written(tmp_path, name, text))


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read(tmp_path / "missing.yaml")
