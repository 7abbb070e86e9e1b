"""A provider with the behaviour measured for Keycloak 26.0 where it differs from others: relations of sessions and tokens.

| what happens | ends |
|---|---|
| revocation of a refresh token | all sessions of its user |
| revocation of an access token | that token |
| `end_session_endpoint` with an ID token | the session of its `sid`, unless it is an offline session |
"""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from authenticate.provider.tokens.id_token import unverified_claims
from tests.support.fake_idp import Answer, FakeIdP, Request

REALM, PROTOCOL = "/realms/corp", "/realms/corp/protocol/openid-connect"


class FakeKeycloak(FakeIdP):
    def __init__(self) -> None:
        super().__init__()
        self.revoked: list[str] = []  # hints

    @property
    def issuer(self) -> str:
        return super().issuer + REALM

    def sign_out(self, end_session_url: str) -> None:
        """Open the logout URL as the browser does."""
        url = urlsplit(end_session_url)
        assert url.path == f"{PROTOCOL}/logout"
        self.end_session(unverified_claims(parse_qs(url.query)["id_token_hint"][0])["sid"])

    def end_session(self, sid: str) -> None:
        """End a session, as an administrator can do as well."""
        for grant in self._grants.values():
            if grant["asked"]["sid"] == sid and not grant["is_offline"]:
                grant["is_over"] = True

    def id_token(self, parameters: dict[str, Any], access_token: str) -> str:
        claims = self.bend.claims
        self.bend.claims = {"sid": parameters["sid"], **claims}
        try:
            return super().id_token(parameters, access_token)
        finally:
            self.bend.claims = claims

    def _answer(self, request: Request) -> Answer:
        request.path = request.path.removeprefix(PROTOCOL).removeprefix(REALM)
        return super()._answer(request)

    def _discovery(self) -> dict[str, Any]:
        base = super().issuer + PROTOCOL
        endpoints = {f"{name}_endpoint": f"{base}/{name}" for name in ("token", "userinfo")}
        return {
            **super()._discovery(),
            **endpoints,
            "authorization_endpoint": f"{base}/auth",
            "jwks_uri": f"{base}/jwks",
            "revocation_endpoint": f"{base}/revoke",
            "end_session_endpoint": f"{base}/logout",
            "scopes_supported": ["openid", "profile", "email", "offline_access", "roles"],
            "claims_supported": ["aud", "sub", "iss", "auth_time", "name", "email", "acr"],
        }

    def _tokens(self, parameters: dict[str, Any], grant: dict[str, Any] | None = None) -> Answer:
        parameters.setdefault("sid", f"session-{len(self._grants)}")
        answer = super()._tokens(parameters, grant)
        if (token := json.loads(answer.body).get("refresh_token")) is not None:
            self._grants[token].setdefault("is_offline", "offline_access" in parameters.get("scope", "").split())
        return answer

    def _revoke(self, request: Request) -> Answer:
        self.revoked.append(request.form["token_type_hint"])
        if (grant := self._grants.get(request.form["token"])) is not None:
            for other in self._grants.values():
                other["is_over"] = other.get("is_over") or other["asked"]["sub"] == grant["asked"]["sub"]
        return super()._revoke(request)
