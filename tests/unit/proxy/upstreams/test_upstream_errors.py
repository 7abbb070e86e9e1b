import errno

from foundation.connection_errors import ConnectionFault
from foundation.errors import NoDescriptors, UpstreamError, UpstreamTimeout
from proxy.upstreams.client import StaleConnection
from proxy.upstreams.upstream_errors import MALFORMED, UpstreamErrors

PLACE, OTHER = ("app.internal", 8000), ("2001:db8::1", None)


def test_the_last_trouble_of_an_upstream_is_known_until_it_answers() -> None:
    upstream_errors = UpstreamErrors()
    error = upstream_errors.connect_error(PLACE, ConnectionRefusedError())
    assert str(error) == f"upstream app.internal:8000 {ConnectionFault.REFUSED}"
    assert (upstream_errors.of(PLACE), upstream_errors.of(OTHER)) == (str(ConnectionFault.REFUSED), "")
    upstream_errors.answered(OTHER)
    upstream_errors.answered(PLACE)
    assert upstream_errors.of(PLACE) == ""
    assert str(upstream_errors.timeout(OTHER)) == "upstream 2001:db8::1 did not answer in time"
    upstream_errors.forget()
    assert upstream_errors.of(OTHER) == ""


def test_errors_are_of_the_kind_that_was_asked_for() -> None:
    upstream_errors = UpstreamErrors()
    assert isinstance(upstream_errors.timeout(PLACE), UpstreamTimeout)
    assert isinstance(upstream_errors.response_error(PLACE, ConnectionResetError(), StaleConnection), StaleConnection)
    assert str(upstream_errors.response_error(PLACE, ValueError("x"))).endswith(MALFORMED)
    assert type(upstream_errors.reported(PLACE, ConnectionFault.EXPIRED)) is UpstreamError


def test_what_we_lack_ourselves_is_no_trouble_of_the_upstream() -> None:
    upstream_errors = UpstreamErrors()
    error = upstream_errors.connect_error(PLACE, OSError(errno.EMFILE, "Too many open files"))
    assert isinstance(error, NoDescriptors)
    assert (error.status, upstream_errors.of(PLACE)) == (503, "")
