"""Gates to which a provider pushes its people (SCIM), and one person who is signed in wherever a group is asked for.

with membership(stage, "its id", "its name"):   # mallory is in this group, and gate knows it
    stage.lets_in(host, "/list/")
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.attack.identity_browser import HTML, Answer, Browser, Connections
from tests.attack.identity_stage import Stage, application, bendable_provider, new_user, shared_stage
from tests.attack.run import expect
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder

TOKEN = "a-token-of-the-provider-for-its-pushes"
CONTROL, PROVEN = "control.localhost", "a-group-of-which-nobody-doubts"
# By their ids rules name groups; three of them look like names.
RULES = ("00g1abCD2efGH3ijKL4m", "8f14e45f-ceea-467f-a9c1-2d1f3f9d3c11", "42", "Admins", "staff@corp.example", "corp/backend")
HOSTS = {rule: f"rule{number}.localhost" for number, rule in enumerate(RULES)}
WAYS = ("/list/", "/is/", "/in/")
PROVIDERS = ("okta", "oidc")  # groups by id alone; by id, or by a name that is no known id
WITHIN = 20.0  # seconds; a generous bound for what takes a few milliseconds


class ProvisionedStage(Stage):
    """The provider's side of SCIM."""

    def push(self, method: str, path: str, document: Any = None, *, statuses: tuple[int, ...] = (200, 201, 204)) -> Any:
        """None where it was refused with a status that may be."""
        headers = (("Authorization", f"Bearer {TOKEN}"), ("Content-Type", "application/scim+json"))
        body = json.dumps(document) if document is not None else ""
        url = self.url(AUTHENTICATE_HOST, f"/.gate/scim/v2/{path}")
        answer = self.browser().open(url, method=method, headers=headers, body=body, cookies=False)
        if answer.status in (400, 409):
            return None
        expect(answer.status in statuses, f"{method} {path} was answered {answer.status}: {answer.text[:300]}")
        return json.loads(answer.text) if answer.text else {}

    def add_user(self, sub: str, **more: Any) -> str:
        return str(self.push("POST", "Users", {"userName": f"{sub}@corp.example", "externalId": sub, **more})["id"])

    def add_group(self, id: str, name: str, *members: str) -> str:
        """Empty where gate takes no such group."""
        made = self.push("POST", "Groups", {"externalId": id, "displayName": name, "members": [{"value": each} for each in members]})
        return str(made["id"]) if made else ""

    def enter(self, browser: Browser, host: str, path: str = "/") -> Answer:
        """With the redirects of a user who is signed in at the authenticate host."""
        answer = browser.open(self.url(host, path), headers=HTML)
        for _ in range(4):
            if not answer.location.startswith("https://"):
                break
            answer = browser.open(answer.location, headers=HTML)
        return answer


class PushedStage(ProvisionedStage):
    """`mallory` has a session at every host, and `user` is who that is to the provider's pushes."""

    mallory: Browser
    user: str

    def lets_in(self, host: str, path: str = "/", browser: Browser | None = None) -> bool:
        """As gate answers and as the upstream receives it."""
        before = self.upstream.hits
        answer = self.enter(browser or self.mallory, host, path)
        expect(answer.status in (200, 403), f"{host}{path} answered with status {answer.status}")
        expect((answer.status == 200) == (self.upstream.hits > before), "a refused request reached the upstream")
        return answer.status == 200

    def until_proven(self, user: str, browser: Browser, *, is_in: bool = True) -> str:
        """Everything pushed before this is in force now: changes are delivered in order."""
        group = self.add_group(PROVEN, "Control", user) if is_in else ""
        end = time.monotonic() + WITHIN
        while self.lets_in(CONTROL, "/", browser) != is_in:
            expect(time.monotonic() < end, "what was pushed is not in force")
            time.sleep(0.01)
        return group


@contextmanager
def membership(stage: PushedStage, id: str, name: str) -> Iterator[bool]:
    """False where gate takes no such group."""
    group = stage.add_group(id, name, stage.user)
    control = stage.until_proven(stage.user, stage.mallory)
    try:
        yield bool(group)
    finally:
        forget(stage, group, control)


def forget(stage: PushedStage, *groups: str) -> None:
    for each in filter(None, groups):
        stage.push("DELETE", f"Groups/{each}")
    stage.until_proven(stage.user, stage.mallory, is_in=False)


def pushed_stage(provider: str) -> PushedStage:
    stage = shared_stage(f"pushed {provider}", partial(_started, provider))
    assert isinstance(stage, PushedStage)
    return stage


def _sign_mallory_in(stage: PushedStage) -> None:
    sub = new_user(name="Mallory", email="mallory@corp.example", email_verified=True)
    stage.user, stage.mallory = stage.add_user(sub), stage.browser()
    stage.sign_in(stage.mallory, sub, CONTROL)
    for host in HOSTS.values():
        expect(not stage.lets_in(host, WAYS[0]), "a user in no group is admitted")


@contextmanager
def _started(kind: str, directory: Path) -> Iterator[PushedStage]:
    with application() as upstream, bendable_provider() as provider:
        to = f"http://127.0.0.1:{upstream.port}"
        builder = GateBuilder(provider.idp.issuer).route(CONTROL, to=to, allowed_groups=[PROVEN])
        for rule, host in HOSTS.items():
            builder.route(host, to=to, prefix=WAYS[0], allowed_groups=[rule])
            builder.route(host, to=to, prefix=WAYS[1], policy=[{"allow": {"groups": rule}}])
            builder.route(host, to=to, prefix=WAYS[2], policy=[{"allow": {"groups": {"in": ["a-group-of-nobody", rule]}}}])
        builder.setting(idp_provider=kind, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, scim_token=TOKEN, groups_claim="")
        with builder.start(directory) as gate:
            connections = Connections(gate.port, gate.certificates.client_context())
            try:
                stage = PushedStage(gate, provider, upstream, connections, gate.certificates.client_context())
                _sign_mallory_in(stage)
                yield stage
            finally:
                connections.close()
