import errno

from foundation.connection_errors import ConnectionFault
from foundation.errors import NoDescriptors, UpstreamError, UpstreamTimeout
from proxy.upstreams.client import StaleConnection
from proxy.upstreams.troubles import MALFORMED, Troubles

PLACE, OTHER = ("app.internal", 8000), ("2001:db8::1", None)


def test_the_last_trouble_of_an_upstream_is_known_until_it_answers() -> None:
    troubles = Troubles()
    error = troubles.unconnected(PLACE, ConnectionRefusedError())
    assert str(error) == f"upstream app.internal:8000 {ConnectionFault.REFUSED}"
    assert (troubles.of(PLACE), troubles.of(OTHER)) == (str(ConnectionFault.REFUSED), "")
    troubles.answered(OTHER)
    troubles.answered(PLACE)
    assert troubles.of(PLACE) == ""
    assert str(troubles.late(OTHER)) == "upstream 2001:db8::1 did not answer in time"
    troubles.forget()
    assert troubles.of(OTHER) == ""


def test_errors_are_of_the_kind_that_was_asked_for() -> None:
    troubles = Troubles()
    assert isinstance(troubles.late(PLACE), UpstreamTimeout)
    assert isinstance(troubles.unanswered(PLACE, ConnectionResetError(), StaleConnection), StaleConnection)
    assert str(troubles.unanswered(PLACE, ValueError("x"))).endswith(MALFORMED)
    assert type(troubles.told(PLACE, ConnectionFault.EXPIRED)) is UpstreamError


def test_what_we_lack_ourselves_is_no_trouble_of_the_upstream() -> None:
    troubles = Troubles()
    error = troubles.unconnected(PLACE, OSError(errno.EMFILE, "Too many open files"))
    assert isinstance(error, NoDescriptors)
    assert (error.status, troubles.of(PLACE)) == (503, "")
