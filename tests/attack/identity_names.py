"""B32: a subject equal to another user's entry.  B13: tokens of a foreign issuer that name users of the provider."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Browser, Connections
from tests.attack.identity_stage import Stage, application, bendable_provider, new_user, shared_stage
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support import jobs
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, PEOPLE
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder

EMAIL, DOMAIN, GROUP = "root@boss.example", "boss.example", "operators"
ENTRIES = (
    "alice", "oidc/alice", "oidc/oidc/alice", "google/alice", "okta/oidc/alice", EMAIL, f"oidc/{EMAIL}", "jwt/bot", "bot",
    f"{jobs.ISSUER}#bot", f"{jobs.ISSUER}#oidc/alice", "https://evil.example#bot", "service_account/deploy", "deploy",
)  # fmt: skip
HOSTS = {entry: f"entry{number}.localhost" for number, entry in enumerate(ENTRIES)}
WAYS = ("/list/", "/is/", "/in/", "/deny/")
FOREIGN, ANY_USER = "theirs.localhost", "anybody.localhost"
GROUPED = ("/group/", "/groups/", "/domain/", "/email/")

# Names that a user may choose, at the provider and at another issuer.
SUBJECTS = tuple(
    dict.fromkeys(
        variant
        for entry in ENTRIES
        for variant in (
            entry,
            f"oidc/{entry}",
            f"google/{entry}",
            f"/{entry}",
            f"{entry}/",
            f"#{entry}",
            f"{jobs.ISSUER}#{entry}",
            f"service_account/{entry}",
            f"jwt/{entry}",
            entry.upper(),
            f"{entry} ",
            f"{entry}\u200b",
            entry.rpartition("/")[2],
            entry.rpartition("#")[2],
        )
    )
)
CLAIMS: dict[str, dict[str, Any]] = {
    "nothing": {"email_verified": False},
    "an administrator's address": {"email": EMAIL, "email_verified": True},
    "groups": {"groups": [GROUP], "roles": [GROUP]},
    "everything": {
        "email": EMAIL, "email_verified": True, "groups": [GROUP], "preferred_username": "alice", "upn": EMAIL, "name": "alice",
        "user_id": "oidc/alice", "provider": "oidc", "user": "oidc/alice", "azp": CLIENT_ID,
    },
}  # fmt: skip


class NamesStage(Stage):
    def opened(self, browser: Browser, headers: Any = HTML) -> set[str]:
        """`host/way/` of what lets this browser in, of all routes."""
        places = [(host, way) for host in HOSTS.values() for way in WAYS] + [(FOREIGN, way) for way in GROUPED]
        return {f"{host}{way}" for host, way in places if self._lets_in(browser, host, way, headers)}

    def _lets_in(self, browser: Browser, host: str, way: str, headers: Any) -> bool:
        before = self.upstream.hits
        answer = browser.open(self.url(host, way), headers=headers)
        for _ in range(4):
            if not answer.location.startswith("https://"):
                break
            answer = browser.open(answer.location, headers=headers)
        expect(answer.status in (200, 401, 403), f"{host}{way} answered {answer.status}")
        expect((answer.status == 200) == (self.upstream.hits > before), "a refused request reached the upstream")
        return answer.status == 200

    def administers(self, browser: Browser) -> bool:
        page = browser.open(self.url(AUTHENTICATE_HOST, "/.gate/admin/"))
        for _ in range(4):
            if not page.location:
                break
            page = browser.open(urljoin(page.url, page.location))
        expect(page.status in (200, 403), f"the admin answered {page.status}")
        return page.status == 200


@identity_attack("B32", "a subject in the place of another's name", sample=8, minutes=0.6)
def subjects(_: Stage) -> Iterator[Attempt]:
    for subject in SUBJECTS:
        yield f"our provider's {subject!r}", partial(_signs_in, subject)
    yield "our provider's people with an unverified address", partial(_signs_in, new_user(email=EMAIL, email_verified=False))


@identity_attack("B13", "another issuer's tokens in the place of our people", sample=30, minutes=0.4)
def tokens(_: Stage) -> Iterator[Attempt]:
    for subject in SUBJECTS:
        for label, claims in CLAIMS.items():
            yield f"a job named {subject!r} with {label}", partial(_shows_a_token, subject, claims)


def _signs_in(subject: str) -> Outcome:
    stage = names_stage()
    PEOPLE.setdefault(subject, {})
    browser = stage.browser()
    answer = stage.sign_in(browser, subject, ANY_USER)
    if answer.status == 503:
        return REFUSED  # a subject that no provider may have (Core 8)
    expect(answer.status == 200, f"the sign-in ended with {answer.status}")
    named = {entry for entry in ENTRIES if entry == f"oidc/{subject}" or (entry == subject and not {"/", "@"} & set(entry))}
    _evaluate(stage.opened(browser), named)
    expect(stage.administers(browser) == bool(named), "the admin confused two users")
    return ACCEPTED if named else REFUSED


def _shows_a_token(subject: str, claims: dict[str, Any]) -> Outcome:
    stage = names_stage()
    token = jobs.token_of_job(sub=subject, **claims)
    named = {entry for entry in ENTRIES if entry == f"{jobs.ISSUER}#{subject}"}
    _evaluate(stage.opened(stage.browser(), (("Authorization", f"Bearer {token}"), ("Accept", "application/json"))), named)
    return ACCEPTED if named else REFUSED


def _evaluate(found: set[str], named: set[str]) -> None:
    expected = {f"{HOSTS[entry]}{way}" for entry in named for way in WAYS}
    expect(found == expected, f"opens {sorted(found)}, not {sorted(expected)}")


def names_stage() -> NamesStage:
    stage = shared_stage("names", _started)
    assert isinstance(stage, NamesStage)
    return stage


@contextmanager
def _started(directory: Path) -> Iterator[NamesStage]:
    with application() as upstream, bendable_provider() as provider:
        to = f"http://127.0.0.1:{upstream.port}"
        trusted = {key: value for key, value in jobs.route_keys(directory).items() if key.startswith("bearer_token")}
        builder = GateBuilder(provider.idp.issuer).route(ANY_USER, to=to, allow_any_authenticated_user=True)
        for entry, host in HOSTS.items():
            keys = {"to": to, **trusted}
            builder.route(host, prefix=WAYS[0], allowed_users=[entry], **keys)
            builder.route(host, prefix=WAYS[1], policy=[{"allow": {"user": entry}}], **keys)
            builder.route(host, prefix=WAYS[2], policy=[{"allow": {"user": ["nobody", entry]}}], **keys)
            denied = {"deny": {"user": {"not_in": [entry]}}}
            builder.route(host, prefix=WAYS[3], policy=[{"allow": {"user": entry}}, denied], **keys)
        for way, rule in zip(
            GROUPED,
            (
                {"allowed_groups": [GROUP]},
                {"policy": [{"allow": {"groups": GROUP}}]},
                {"allowed_domains": [DOMAIN]},
                {"policy": [{"allow": {"or": [{"email": EMAIL}, {"domain": DOMAIN}]}}]},
            ),
            strict=True,
        ):
            builder.route(FOREIGN, prefix=way, to=to, **trusted, **rule)
        builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups")
        builder.setting(admin_allowed_users=list(ENTRIES), admin_allowed_groups=[GROUP])
        with builder.start(directory) as gate:
            connections = Connections(gate.port, gate.certificates.client_context())
            try:
                yield NamesStage(gate, provider, upstream, connections, gate.certificates.client_context())
            finally:
                connections.close()
