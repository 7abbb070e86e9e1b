"""Configured providers for tests: `a_provider("corp", domains=frozenset({"corp.example"}))`."""

from typing import Any

from config.provider_config import ProviderConfig
from foundation.values import SecretText


def a_provider(id: str = "oidc", kind: str = "oidc", url: str = "https://idp.example.com", **more: Any) -> ProviderConfig:
    return ProviderConfig(id, kind, url, f"gate-at-{id}", SecretText(f"secret-of-{id}"), **more)
