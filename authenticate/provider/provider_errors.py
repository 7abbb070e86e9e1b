"""Errors of a provider that callers handle differently."""

from foundation.errors import ProviderError


class InvalidAccessToken(ProviderError):
    """The provider no longer accepts the access token (RFC 6750 `invalid_token`)."""


class InsufficientScope(ProviderError):
    """The access token lacks the scope for the userinfo endpoint (RFC 6750 `insufficient_scope`)."""


class SubjectMismatch(ProviderError):
    """The claims describe another user than the one who signed in."""
