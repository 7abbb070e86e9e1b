"""A single entry of `identity_providers`; test_identity_providers.py covers several entries."""

from config.settings.provider_entry import IdentityProvider


def entry(**keys: object) -> IdentityProvider:
    return IdentityProvider.model_validate({"id": "corp", "provider": "okta", "url": "https://corp.okta.com", **keys})


def test_it_shows_no_secret() -> None:
    text = repr(entry(client_secret="hidden-one", service_account='{"api_key": "hidden-two"}'))
    assert "hidden" not in text


def test_its_issuer_is_the_vendor_s_where_it_names_none() -> None:
    assert entry().issuer == "https://corp.okta.com"
    google = IdentityProvider.model_validate({"id": "corp", "provider": "google"})
    assert google.issuer == "https://accounts.google.com"
