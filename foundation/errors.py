"""Errors, grouped by cause. Each message is written for the party that can act on it."""

from dataclasses import dataclass

from foundation.web.message import Message


class GateError(Exception):
    """Base of all errors that gate raises; `status` is the HTTP status of a response to it."""

    status = 500

    @property
    def message(self) -> str:
        """The message as passed to the constructor, so that a translatable `Message` keeps its translations."""
        return self.args[0] if len(self.args) == 1 and isinstance(self.args[0], str) else str(self)

    @property
    def operator_message(self) -> str:
        """The text for logs and administrators, which may have details that `str()`, the text for clients, lacks."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Problem:
    """One configuration error: `key` is its path (`policy[3].from`), `line` and `column` count from 1.

    `rule` identifies the kind of error for tools that group them.
    """

    key: str
    message: str
    line: int | None = None
    column: int | None = None
    file: str = ""
    rule: str = "invalid-configuration"

    @property
    def location(self) -> str:
        """Source location, as in `config.yaml:5:3`, as far as it is known."""
        if self.file:
            return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return "" if self.line is None else f"line {self.line}"

    def __str__(self) -> str:
        return ": ".join(part for part in (self.location, self.key, self.message) if part)


class ConfigError(GateError):
    """The configuration is invalid; `problems` has all errors, not only the first."""

    def __init__(self, problems: list[Problem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class BadRequest(GateError):
    """The client's request is invalid; the client receives the message."""

    status = 400


class AmbiguousPath(BadRequest):
    """An upstream may interpret the path as one of another route. The route is for the log, not for the client."""

    def __init__(self, reading: str, owner: str, found: str):
        super().__init__(Message("the path is ambiguous"))
        short = reading if len(reading) <= 80 else f"{reading[:80]}..."
        self._facts = f"an upstream may interpret the path as {short}, which belongs to {owner}; as sent it belongs to {found}"

    @property
    def operator_message(self) -> str:
        return self._facts


class PathTooAmbiguous(BadRequest):
    """The path has more ambiguous elements than gate evaluates interpretations for."""

    def __init__(self) -> None:
        super().__init__(Message("the path contains too many semicolons, double slashes or encoded delimiters"))


class SealError(BadRequest):
    """A sealed or signed value is forged, modified, expired, or for another purpose or audience."""


class ProviderError(GateError):
    """The identity provider is unreachable or violated its protocol."""

    status = 503


class AccessRevoked(GateError):
    """The session of a running request has ended, or its route no longer allows the user."""

    status = 401


class BrokerError(GateError):
    """The data broker is unavailable; clients should retry after `retry_after` seconds."""

    status = 503
    retry_after = 5


class UpstreamCredentialsUnavailable(GateError):
    """gate cannot obtain the credentials that the upstream requires, so the request is not sent."""

    status = 503


class NoIdentity(UpstreamCredentialsUnavailable):
    """The upstream requires the identity of a user, and the request has none."""

    status = 403


class AccountConnectionRequired(NoIdentity):
    """The user has not connected an account at the third-party server behind a route, or the connection has ended."""

    status = 401


class UpstreamError(GateError):
    """The upstream refused or closed the connection before its response headers."""

    status = 502


class FileDescriptorsExhausted(UpstreamError):
    """This process is out of file descriptors; the error does not concern the upstream."""

    status = 503


class EnvoyUnavailable(UpstreamError):
    """Only Envoy forwards to HTTP/2 upstreams, and it is starting or has no control connection."""

    status = 503


class UpstreamTimeout(UpstreamError):
    """The upstream did not respond within the route's timeout."""

    status = 504
