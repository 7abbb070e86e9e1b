import pytest

from proxy.rewriting.connection_auth import ConnectionAuthRefused, ConnectionUse, authenticates_connection, connection_use


@pytest.mark.parametrize(
    ("value", "use"),
    [
        *(
            (value, ConnectionUse.SHARED)
            for value in (b"Basic YTpi", b"bearer abc", b"Digest username=x", b"AWS4-HMAC-SHA256 Credential=x")
        ),
        *((value, ConnectionUse.WATCHED) for value in (b"Custom x", b"abc", b"", b"Basically x", b"x-ntlm y", b"Gateau x")),
        *(
            (value, ConnectionUse.EXCLUSIVE)
            for value in (b"Negotiate YIIabc", b"NEGOTIATE YII", b"negotiate", b" Negotiate\tYII", b"Kerberos x")
        ),
        (b"Basic x, Negotiate y", ConnectionUse.EXCLUSIVE),
    ],
)
def test_connection_use_depends_on_the_scheme(value: bytes, use: ConnectionUse) -> None:
    headers = [(b"host", b"u"), (b"Authorization", value), (b"authorizations", b"Negotiate x"), (b"x-13-long-nam", b"NTLM x")]
    assert connection_use(headers, is_http2=False) is use


def test_strictest_of_several_schemes_applies() -> None:
    headers = [(b"authorization", b"Negotiate x"), (b"Authorization", b"Basic x"), (b"authorization", b"Odd x")]
    assert connection_use(headers, is_http2=False) is ConnectionUse.EXCLUSIVE


@pytest.mark.parametrize("value", [b"NTLM TlRMTVNTUAABAAAA", b"ntlm", b"Negotiate TlRMTVNTUAADAAAA", b"Basic x, NTLM y", b"NTLM\tx"])
def test_refuses_ntlm(value: bytes) -> None:
    with pytest.raises(ConnectionAuthRefused) as refused:
        connection_use([(b"authorization", b"Basic x"), (b"authorization", value)], is_http2=False)
    assert (refused.value.status, "NTLM" in str(refused.value)) == (403, True)


def test_refuses_negotiate_over_http2() -> None:
    with pytest.raises(ConnectionAuthRefused):
        connection_use([(b"authorization", b"Negotiate x")], is_http2=True)
    assert connection_use([(b"authorization", b"Bearer x")], is_http2=True) is ConnectionUse.SHARED


@pytest.mark.parametrize(
    ("name", "value", "does"),
    [
        (b"Persistent-Auth", b"true", True),
        (b"persistent-auth", b" FALSE ", False),
        (b"persistent-auth", b"", True),
        (b"WWW-Authenticate", b"Negotiate", True),
        (b"WWW-Authenticate", b'Basic realm="x", NTLM', True),
        (b"WWW-Authenticate", b'Basic realm="NTLM"', False),
        (b"X", b"NTLM", False),
    ],
)
def test_response_authenticates_connection(name: bytes, value: bytes, does: bool) -> None:
    assert authenticates_connection([(b"x", b"y"), (name, value)]) is does
