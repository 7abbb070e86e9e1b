"""The configuration that the examples of front proxies begin with is one that gate takes."""

from pathlib import Path

from tests.support.children import ROOT
from tests.support.options import COOKIE_SECRET, SHARED_SECRET, parse_options

GATE_YAML = ROOT / "examples" / "forward_auth" / "gate.yaml"


def test_it_loads_once_it_has_secrets(tmp_path: Path) -> None:
    text = GATE_YAML.read_text().replace("PUT-A-SECRET-HERE", COOKIE_SECRET).replace("PUT-ANOTHER-SECRET-HERE", SHARED_SECRET)
    options = parse_options(text.encode(), ".yaml", {"DATA_DIR": str(tmp_path)}, tmp_path)
    assert options.forward_auth_url is not None
    assert options.forward_auth_url.host == "forward.example.com"
    assert options.policy[0].from_.origin == "https://app.example.com"
    assert [str(network) for network in options.trusted_proxies] == ["127.0.0.1/32"]
