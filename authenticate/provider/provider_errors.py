"""Errors of a provider that callers tell apart."""

from foundation.errors import ProviderError


class AccessRefused(ProviderError):
    """An access token that the provider no longer accepts."""


class ScopeMissing(ProviderError):
    """A valid access token without the scope to ask who its owner is."""


class AnotherPerson(ProviderError):
    """Claims of another person than the one who signed in."""
