"""The configuration on each page about a front proxy is part of the example file that the tests run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "integrations" / "front-proxies"
EXAMPLES = {
    "nginx": "forward_auth/nginx.conf",
    "caddy": "forward_auth/Caddyfile",
    "traefik": "forward_auth/traefik.yaml",
    "haproxy": "forward_auth/haproxy.cfg",
    "apache": "forward_auth/apache.conf",
    "ingress-nginx": "ingress_nginx/ingress.yaml",
    "envoy-ext-authz": "ext_authz/envoy.yaml",
}
BLOCK = re.compile(r"^```\w+ title=\"(?P<title>[^\"]+)\"\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> list[str]:
    """Return the lines without indentation, comments and blank lines."""
    return [line for line in (re.sub(r"\s+# .*", "", line).strip() for line in text.splitlines()) if line and not line.startswith("#")]


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_block_on_the_page_has_the_lines_of_the_example_in_their_order(page: str) -> None:
    example = ROOT / "examples" / EXAMPLES[page]
    [block] = [match["text"] for match in BLOCK.finditer((PAGES / f"{page}.md").read_text()) if match["title"] == example.name]
    remaining = iter(lines_of(example.read_text()))
    missing = [line for line in lines_of(block) if line not in remaining]
    assert missing == []
