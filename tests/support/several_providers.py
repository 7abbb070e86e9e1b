"""The authenticate host with several providers: `site = SeveralSite(tmp_path, {"corp": idp, "partner": other}, pages)`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.settings.identity_providers import PLACEHOLDERS
from tests.support.authenticate_site import Site
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP

# Marks a setting of `Site` that this one omits.
WITHOUT = dict.fromkeys(("idp_provider", "idp_provider_url", "idp_client_id", "idp_client_secret", "groups_claim"))


def entry(id: str, idp: FakeIdP, **more: Any) -> dict[str, Any]:
    """Return an entry of `identity_providers` that is authoritative for its domain."""
    settings = {"provider": "oidc", "url": idp.issuer, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "domains": [f"{id}.example"]}
    return {"id": id, "title": id.title(), **settings, **more}


def several(*ids: str) -> dict[str, Any]:
    """Return settings of providers that are never contacted."""
    settings = {"provider": "oidc", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    entries = [{"id": id, "url": f"https://idp.{id}.example", "domains": [f"{id}.example"], **settings} for id in ids]
    return {**dict.fromkeys(PLACEHOLDERS), "identity_providers": entries}


class SeveralSite(Site):
    def __init__(self, directory: Path, idps: Mapping[str, FakeIdP], django_pages: Any, **settings: Any):
        self.idps = dict(idps)
        entries = [entry(id, idp) for id, idp in idps.items()]
        super().__init__(directory, next(iter(idps.values())), django_pages, **{**WITHOUT, "identity_providers": entries, **settings})
        for idp in idps.values():
            idp.clock = self.clock
