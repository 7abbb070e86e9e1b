"""Internal headers come from Envoy, whatever the client sends."""

import pytest

from foundation.errors import BadRequest
from proxy.envoy.resources.internal_headers import (
    DOWNSTREAM_INFO,
    INTERNAL_HEADERS,
    PREFIX,
    DownstreamInfo,
    early_header_mutation,
    is_internal,
)


def facts(text: str) -> DownstreamInfo:
    return DownstreamInfo.parse({DOWNSTREAM_INFO.encode(): text.encode("latin-1")})


def test_facts_are_read() -> None:
    found = facts("192.0.2.7:1 10.0.0.1:2 HTTP/2 12/ app.example.com")
    assert (found.client, found.peer, found.is_http2) == (("192.0.2.7", 1), ("10.0.0.1", 2), True)
    assert (found.length, found.coding, found.server_name) == (b"12", b"", "app.example.com")
    unsaid = facts("[2001:db8::1]:1 [::ffff:192.0.2.1]:2 HTTP/1.1 -/- -")
    assert (unsaid.client, unsaid.peer, unsaid.is_http2) == (("2001:db8::1", 1), ("192.0.2.1", 2), False)
    assert (unsaid.length, unsaid.coding, unsaid.server_name) == (b"", b"", None)


@pytest.mark.parametrize("text", ["", "192.0.2.7:1", "a b c"])
def test_refuses_missing_downstream_info(text: str) -> None:
    with pytest.raises(BadRequest):
        facts(text)


def test_internal_headers_are_removed_before_routing() -> None:
    mutations = early_header_mutation()["typed_config"]["mutations"]
    removed = [mutation["remove_on_match"]["key_matcher"]["prefix"] for mutation in mutations if "remove_on_match" in mutation]
    assert removed == [PREFIX, "x-envoy-"]
    assert list(mutations[0]) == ["remove_on_match"], "first, or it would remove Envoy's headers"
    assert all(is_internal(name.encode()) for name in INTERNAL_HEADERS)
