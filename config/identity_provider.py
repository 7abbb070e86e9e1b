"""Identity provider as it is configured: what it is called here, what kind it is, and who we are there."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from config.issuers import DEFAULT_URLS, issuer_of
from config.routes.bearer_tokens import JWT
from config.settings.authorize import claimed_groups, groups_are_claimed
from config.settings.directory import groups_are_recorded
from foundation.values import SecretText

SERVICE_ACCOUNT = "service_account"
# What ids begin with of whom no identity provider signs in.
OF_NO_PROVIDER = frozenset({"", JWT, SERVICE_ACCOUNT})


@dataclass(frozen=True, slots=True)
class ConfiguredProvider:
    """Identity provider.  `id` is what the ids of its people begin with, `kind` what it is: a value of `idp_provider`.

    `request_params` is None where the kind's own count.  `expects_groups`: everybody is to have the claim `groups_claim`;
    `expects_record`: a directory tells everybody's groups.
    """

    id: str
    kind: str
    url: str
    client_id: str
    client_secret: SecretText = field(repr=False)
    scopes: tuple[str, ...] = ()
    request_params: Mapping[str, str] | None = None
    groups_claim: str = ""
    expects_groups: bool = False
    expects_record: bool = False

    @property
    def issuer(self) -> str:
        return issuer_of(self.kind, self.url or DEFAULT_URLS.get(self.kind, ""))


def provider_ids(settings: Any) -> tuple[str, ...]:
    return (settings.idp_provider,)


def configured_providers(settings: Any) -> Mapping[str, ConfiguredProvider]:
    """The providers by their ids, in the order in which they are written.  That of `idp_provider` is called after its kind."""
    provider = ConfiguredProvider(
        id=settings.idp_provider,
        kind=settings.idp_provider,
        url=settings.idp_provider_url,
        client_id=settings.idp_client_id,
        client_secret=settings.idp_client_secret,
        scopes=settings.idp_scopes,
        request_params=settings.idp_request_params if "idp_request_params" in settings.model_fields_set else None,
        groups_claim=claimed_groups(settings),
        expects_groups=groups_are_claimed(settings),
        expects_record=groups_are_recorded(settings),
    )
    # No proxy of a map: options go to other processes with what they have worked out, and none can be written down.
    return {provider.id: provider}
