"""The API in one process: service accounts with permissions, records, and their rows in the admin's tables."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

from databroker.models import AuditEntry
from databroker.permissions import PERMISSIONS
from databroker.records import USER, SessionRecord, UserRecord
from databroker.service_account_store import ServiceAccounts
from tests.support.authenticate_site import Response, Site
from tests.support.database import in_database
from tests.support.signed_in import put_session

API = "/.gate/api/"
ALL = tuple(PERMISSIONS)


class ApiSite:
    """`site` with service accounts; `token` belongs to `robot`, which has every permission."""

    def __init__(self, site: Site):
        self.site = site
        self.accounts = ServiceAccounts(site.broker, site.clock)
        self.token = ""

    @classmethod
    @asynccontextmanager
    async def running(cls, site: Site) -> AsyncIterator[Self]:
        await site.service.start()
        api = cls(site)
        api.token = await api.account()
        yield api
        await site.service.stop()

    async def account(
        self, name: str = "robot", permissions: Iterable[str] = ALL, groups: Iterable[str] = (), days: float | None = 30
    ) -> str:
        """Create an account and return its token."""
        return await self.accounts.create(name, groups, None if days is None else days * 86400, "ops", permissions)

    async def ask(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        token: str | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> Response:
        sent = [(b"authorization", f"Bearer {self.token if token is None else token}".encode()), *headers]
        body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
        if body:
            sent.append((b"content-type", b"application/json"))
        return await self.site.answer(method, API + path, sent, body)

    async def done(self, method: str, path: str, document: Any = None, *, status: int = 200, **how: Any) -> Any:
        response = await self.ask(method, path, document, **how)
        assert response.status == status, response.text
        return json.loads(response.text) if response.text else None

    async def problem(self, status: int, method: str, path: str, document: Any = None, **how: Any) -> Mapping[str, Any]:
        """Return the problem document of a response, after checking its form."""
        response = await self.ask(method, path, document, **how)
        assert response.status == status, response.text
        assert response.headers["content-type"] == "application/problem+json"
        assert response.headers["cache-control"] == "no-store"
        problem: dict[str, Any] = json.loads(response.text)
        assert (problem["type"], problem["status"]) == ("about:blank", status)
        assert problem.keys() >= {"title", "detail", "request_id"}
        return problem

    async def signed_in(self, subject: str, id: str = "") -> SessionRecord:
        """Create a session of a user, in the store only."""
        now = self.site.clock()
        session = SessionRecord(
            id or f"{subject}-session",
            f"oidc/{subject}",
            subject,
            "oidc",
            now,
            now + 3600,
            {"email": f"{subject}@example.com"},
            client_address="192.0.2.1",
            issuer=self.site.idp.issuer,
        )
        user = UserRecord(session.user_id, f"{subject}@example.com", True, subject.title(), issuer=self.site.idp.issuer)
        await self.site.broker.put(USER, user.id, user.to_data())
        await put_session(self.site.broker, session.id, session.to_data())
        return session

    async def audit_log(self) -> list[tuple[str, str, str]]:
        """Return (actor, action, target) of each entry of the audit log."""
        return await in_database(lambda: [(e.actor, e.action, e.object_id) for e in AuditEntry.objects.order_by("pk")])
