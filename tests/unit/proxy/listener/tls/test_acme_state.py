from OpenSSL import SSL

from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState


def test_initial_state_is_empty():
    obtained = AcmeState()
    assert (obtained.is_enabled, obtained.default_context, obtained.staple(b"x"), obtained.pending_challenge("a")) == (
        False,
        None,
        b"",
        None,
    )


def test_default_context_is_the_first():
    one, two = SSL.Context(SSL.TLS_SERVER_METHOD), SSL.Context(SSL.TLS_SERVER_METHOD)
    obtained = AcmeState(contexts={"a": one, "b": two}, staples={b"x": b"response"})
    assert obtained.default_context is one
    assert obtained.staple(b"x") == b"response"


def test_challenge_key_authorization():
    assert AcmeChallenge("a", "http-01", "t", "t.k").key_authorization == "t.k"
