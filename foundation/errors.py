"""Errors by whose fault they are.  Each is written for the one who can act on it."""

from dataclasses import dataclass

from foundation.web.message import Message


class GateError(Exception):
    """The root of every error we raise on purpose; `status` is the HTTP status where one is needed."""

    status = 500

    @property
    def message(self) -> str:
        """What it says, as it was given: a Message still knows its other languages."""
        return self.args[0] if len(self.args) == 1 and isinstance(self.args[0], str) else str(self)

    @property
    def operator_message(self) -> str:
        """For logs and administrators; what a client is shown says no more than `str()`."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration: `key` is its path (`policy[3].from`), `line` and `column` count from 1.

    `rule` is the kind of mistake, for programs that group them.
    """

    key: str
    message: str
    line: int | None = None
    column: int | None = None
    file: str = ""
    rule: str = "invalid-configuration"

    @property
    def location(self) -> str:
        """`config.yaml:5:3`, as far as it is known."""
        if self.file:
            return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return "" if self.line is None else f"line {self.line}"

    def __str__(self) -> str:
        return ": ".join(part for part in (self.location, self.key, self.message) if part)


class ConfigError(GateError):
    """The operator's configuration is wrong; `problems` holds every mistake found, never only the first."""

    def __init__(self, problems: list[Problem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class BadRequest(GateError):
    """The client's request can't be accepted; the message is shown to it."""

    status = 400


class AmbiguousPath(BadRequest):
    """An application may take the path for one of another route; which, a client is not told."""

    def __init__(self, reading: str, owner: str, found: str):
        super().__init__(Message("the path is ambiguous"))
        short = reading if len(reading) <= 80 else f"{reading[:80]}..."
        self._facts = f"an upstream may interpret the path as {short}, which belongs to {owner}; as sent it belongs to {found}"

    @property
    def operator_message(self) -> str:
        return self._facts


class PathTooAmbiguous(BadRequest):
    """The path holds more than we work the readings of out for."""

    def __init__(self) -> None:
        super().__init__(Message("the path contains too many semicolons, double slashes or encoded delimiters"))


class SealError(BadRequest):
    """A sealed or signed value is not ours, was changed, is for another purpose or audience, or is too old."""


class ProviderError(GateError):
    """The identity provider can't be reached, or answered what its protocol forbids."""

    status = 503


class AccessRevoked(GateError):
    """The session behind a running request has ended, or its route no longer lets this person in."""

    status = 401


class BrokerError(GateError):
    """The data broker can't be reached; whoever asks again should wait for `retry_after` seconds."""

    status = 503
    retry_after = 5


class UpstreamCredentialsUnavailable(GateError):
    """The upstream wants credentials of ours that can't be had now: better no request than one without them."""

    status = 503


class NoIdentity(UpstreamCredentialsUnavailable):
    """The upstream is told whose request it is, and there is nobody to name."""

    status = 403


class UpstreamError(GateError):
    """The upstream refused the connection or broke off before its response headers."""

    status = 502


class FileDescriptorsExhausted(UpstreamError):
    """This process has no file descriptor left for a connection: nothing is said of the upstream."""

    status = 503


class EnvoyUnavailable(UpstreamError):
    """Only Envoy forwards to upstreams with HTTP/2, and it can't take this request now: at its start, or with no control connection."""

    status = 503


class UpstreamTimeout(UpstreamError):
    """The upstream did not answer within the route's timeout."""

    status = 504
