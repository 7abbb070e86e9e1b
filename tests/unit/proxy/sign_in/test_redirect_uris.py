"""Redirect URIs of programs: what is let through goes where it seems to go (classes B9, B10)."""

from pathlib import Path

import pytest

from proxy.sign_in.redirect_uris import RedirectUriAllowlist, append_token
from tests.support.options import make_options


@pytest.fixture
def programs(tmp_path: Path) -> RedirectUriAllowlist:
    return RedirectUriAllowlist(
        make_options(tmp_path, programmatic_redirect_domain_whitelist=["localhost", "Tool.example.com", "192.0.2.1"])
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:7000/cb",
        "http://localhost",
        "http://LOCALHOST:1/?state=a%20b&c",
        "http://127.0.0.1:9/cb",
        "http://127.8.9.1/",
        "http://[::1]:9/cb",
        "https://localhost/",
        "https://tool.example.com/cb",
        "https://tool.example.com:8443/cb?x=1",
        "https://192.0.2.1/",
    ],
)
def test_listed_hosts_and_this_machine_get_tokens(programs: RedirectUriAllowlist, url: str) -> None:
    assert programs.validate(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/cb",
        "localhost:7000",
        "//localhost/",
        "http:localhost/",
        "http:///cb",
        "http://",
        "ftp://localhost/",
        "javascript://localhost/%0aalert(1)",
        "custom://localhost/",
        "http://tool.example.com/cb",
        "http://192.0.2.1/",
        "https://evil.example/",
        "https://tool.example.com.evil.example/",
        "https://eviltool.example.com/",
        "https://sub.tool.example.com/",
        "https://tool.example.com./",
        "http://localhost.evil.example/",
        "http://app.localhost/",
        "http://localhost@evil.example/",
        "http://evil.example#@localhost/",
        "http://localhost:7000@evil.example/",
        "http://localhost\\@evil.example/",
        "http://evil.example\\.localhost/",
        "http://localhost:0/",
        "http://localhost:99999/",
        "http://localhost:07/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.0.0.1/",
        "http://0.0.0.0/",
        "http://10.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "http://[::1/",
        "http://[::1%25eth0]/",
        "http://localhost/#fragment",
        "http://localhost/a b",
        "http://localhost/\r\nx: y",
        " http://localhost/",
        "http://localhost/\n",
        "http://lokalhost\u0307/",
        "http://\uff4cocalhost/",
        "http://localhost/?gate_jwt=mine",
        "http://localhost/?a=b&gate%5Fjwt=mine",
        "http://localhost/" + "x" * 800,
    ],
)
def test_everything_else_gets_none(programs: RedirectUriAllowlist, url: str) -> None:
    assert programs.validate(url) is None


def test_without_localhost_this_machine_is_a_stranger(tmp_path: Path) -> None:
    programs = RedirectUriAllowlist(make_options(tmp_path, programmatic_redirect_domain_whitelist=["127.0.0.1"]))
    assert programs.validate("http://127.0.0.1:9/") is not None
    assert programs.validate("http://localhost:9/") is None
    assert programs.validate("http://[::1]:9/") is None


def test_the_token_joins_the_query() -> None:
    assert append_token("http://localhost/cb", "t") == "http://localhost/cb?gate_jwt=t"
    assert append_token("http://localhost/cb?state=1", "t") == "http://localhost/cb?state=1&gate_jwt=t"
