"""Classification of connection errors: exceptions of any client library become a failure with a message for the operator."""

import errno
import socket
import ssl
from collections.abc import Iterator
from enum import Enum

# X509_V_ERR_* of OpenSSL, as `SSLCertVerificationError.verify_code` has them.
_EXPIRED, _NOT_YET_VALID = 10, 9
_HOSTNAME_MISMATCHES = frozenset({62, 63, 64})  # host name, e-mail, IP address
# OpenSSL's reasons for a response that is not TLS; which one depends on its version and on the first bytes.
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
_CLIENT_CERT_REQUIRED = ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA", "ALERT_CERTIFICATE_", "ALERT_ACCESS_DENIED")
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_TLS_ALERT = (r"\x15\x03", "\x15\x03")  # the first bytes of an alert, as HTTP parsers quote them


class ConnectFailure(Enum):
    """Reason of a failed connection: `message` continues "<host>:<port> "; `advice` is for the operator."""

    REFUSED = "refused the connection", "nothing listens on that port, or a firewall rejects it"
    UNRESOLVED = "can't be resolved", "check the name and this machine's DNS"
    UNREACHABLE = "can't be reached from this network", "check the route to that address"
    UNTRUSTED = (
        "presented an untrusted certificate",
        "its CA is unknown: configure the CA, or make the server send its whole chain",
    )
    HOSTNAME_MISMATCH = "presented a certificate for another name", "use a name from the certificate, or issue one for this name"
    EXPIRED = "presented an expired certificate", "renew it, or check this machine's clock"
    NOT_YET_VALID = "presented a certificate that is not valid yet", "check this machine's clock"
    NO_TLS = "does not speak TLS on that port", "the URL has https, but the server speaks plain HTTP"
    TLS_REQUIRED = "requires TLS on that port", "use https in the URL"
    CLIENT_CERT_REQUIRED = "requires a client certificate that it trusts", "it uses mutual TLS"
    HANDSHAKE_FAILED = "failed the TLS handshake", "no common protocol version or cipher, or it closed the connection during the handshake"
    TIMED_OUT = "did not respond in time", "it is too slow, or a firewall drops packets"
    CONNECTION_RESET = "closed the connection without a response", "check whether it speaks TLS (https) on that port, or crashed"
    FD_EXHAUSTED = "was not contacted: this process is out of file descriptors", "raise its limit (LimitNOFILE=, ulimit -n)"
    UNKNOWN = "can't be reached", "check its log"

    def __init__(self, message: str, advice: str):
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} ({self.advice})"


def classify_failure(error: BaseException) -> ConnectFailure:
    """Return the failure behind an exception, derived from its causes, because libraries wrap them in generic errors."""
    causes = list(_causes(error))
    for classify in (_classify_tls, _classify_os, _classify_protocol):
        for cause in causes:
            if (failure := classify(cause)) is not None:
                return failure
    return ConnectFailure.UNKNOWN


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, each once, breadth first."""
    waiting, seen = [error], set[int]()
    while waiting:
        error = waiting.pop(0)
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        # aiohttp stores causes in attributes, parallel attempts raise a group, and httpcore hides the cause with `from None`.
        inner = [getattr(error, "os_error", None), error.__cause__, error.__context__]
        inner += error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        waiting += [cause for cause in inner if isinstance(cause, BaseException)]


def _classify_tls(error: BaseException) -> ConnectFailure | None:
    # aiohttp's subclasses of ssl errors lack verify_code and reason.
    if isinstance(error, ssl.SSLCertVerificationError) and (code := getattr(error, "verify_code", None)) is not None:
        if code in _HOSTNAME_MISMATCHES:
            return ConnectFailure.HOSTNAME_MISMATCH
        return {_EXPIRED: ConnectFailure.EXPIRED, _NOT_YET_VALID: ConnectFailure.NOT_YET_VALID}.get(code, ConnectFailure.UNTRUSTED)
    # SSLWant* means that the handshake was interrupted; the cause that interrupted it is classified instead.
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return None
    if not (reason := getattr(error, "reason", None)):
        return None
    if reason in _NO_TLS:
        return ConnectFailure.NO_TLS
    return ConnectFailure.CLIENT_CERT_REQUIRED if any(name in reason for name in _CLIENT_CERT_REQUIRED) else ConnectFailure.HANDSHAKE_FAILED


def _classify_os(error: BaseException) -> ConnectFailure | None:
    if isinstance(error, socket.gaierror):
        return ConnectFailure.UNRESOLVED
    if isinstance(error, ConnectionRefusedError):
        return ConnectFailure.REFUSED
    if not isinstance(error, OSError):
        return None
    if error.errno in _UNREACHABLE:
        return ConnectFailure.UNREACHABLE
    return ConnectFailure.FD_EXHAUSTED if error.errno in (errno.EMFILE, errno.ENFILE) else None


def _classify_protocol(error: BaseException) -> ConnectFailure | None:
    name = type(error).__name__
    if any(alert in str(error) for alert in _TLS_ALERT):
        return ConnectFailure.TLS_REQUIRED
    # Not every library derives its timeouts from TimeoutError.
    if isinstance(error, TimeoutError) or name.endswith(("Timeout", "TimeoutError")):
        return ConnectFailure.TIMED_OUT
    if isinstance(error, ConnectionError | EOFError) or name in ("RemoteProtocolError", "ServerDisconnectedError"):
        return ConnectFailure.CONNECTION_RESET
    return None
