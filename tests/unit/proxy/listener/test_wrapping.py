"""What comes before HTTP: TLS where there are certificates, and the balancer's word before it."""

from pathlib import Path

import pytest
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory

from proxy.listener.proxy_protocol.wrapper import ProxyProtocolFactory
from proxy.listener.state import ListenerState
from proxy.listener.tls.acme_challenge import AcmeChallengeFactory
from proxy.listener.wrapping import has_tls, wrapped
from tests.support.certs import certificate_files
from tests.support.options import make_options


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("is_behind", [False, True])
def test_the_balancers_word_comes_first_then_tls_then_http(tmp_path: Path, *, is_tls: bool, is_behind: bool) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    tls = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    state, http = ListenerState.build(make_options(tmp_path, **(tls if is_tls else {}))), Factory()
    found = wrapped(http, lambda: state, is_behind_balancer=is_behind)
    assert has_tls(found) == is_tls
    layers = []
    while found is not http:
        layers.append(type(found))
        found = found.wrappedFactory if isinstance(found, TLSMemoryBIOFactory) else found.factory
    assert layers == [ProxyProtocolFactory] * is_behind + [AcmeChallengeFactory, TLSMemoryBIOFactory] * is_tls
