"""B35: whatever is taken from a person, is it taken from their next request, and from what they hold open?"""

import copy
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML
from tests.attack.identity_stage import Stage
from tests.attack.identity_standing import ANY_USER, CLAIMED, GROUP, PAGES, STREAMS, TEAM, StandingStage, User, standing_stage
from tests.attack.run import REFUSED, Outcome, expect
from tests.support.fake_idp import PEOPLE
from tests.support.gate import AUTHENTICATE_HOST
from tests.support.raw_http import Broken, RawClient

# A generous bound for what takes less than a second, two after a new configuration, or an interval for what the provider says.
WITHIN = 20.0
TIMES = 4
CROWD = 3  # clients that go on asking, with a copy of the cookie, while it is taken away
AGAIN = 5

Do = Callable[[StandingStage, User], None]


@dataclass(frozen=True)
class Withdrawal:
    """`keeps` says whether the person stays signed in; `host` is where they were let in, `streams` what ends with it."""

    do: Do
    keeps: bool
    host: str = PAGES
    streams: tuple[str, ...] = STREAMS


@identity_attack("B35", "what was taken away, from who has it in every way", sample=6, minutes=4)
def withdrawn(_: Stage) -> Iterator[Attempt]:
    for number in range(TIMES):
        for name, withdrawal in WITHDRAWALS.items():
            yield f"{name} {number}", partial(_withdrawn, withdrawal, 0)
            yield f"{name}, while many ask {number}", partial(_withdrawn, withdrawal, CROWD)


def _withdrawn(withdrawal: Withdrawal, crowd: int) -> Outcome:
    stage = standing_stage()
    user = stage.newcomer()
    try:
        user.enter(stage)
        before = len(stage.gate.log)
        with_many = Crowd(stage, user, withdrawal.host, crowd)
        withdrawal.do(stage, user)
        _until_refused(stage, user, withdrawal.host)
        with_many.stop()
        living = [name for name in user.living(WITHIN if withdrawal.streams else 0.0) if name in withdrawal.streams]
        received = [entry for entry in stage.gate.log[before:] if entry.get("event") != "request"]
        expect(not living, f"still carried: {living}; the log says {received}")
        for _ in range(AGAIN):
            passed = _passed(stage, user, withdrawal.host)
            expect(not passed, f"let in again by {passed}")
        expect(user.is_let_in(stage, ANY_USER) == withdrawal.keeps, "the session itself has ended, or has not, which is not right")
        expect(stage.is_alive(), "gate has died")
    finally:
        user.close()
        _restore(stage, user)
    return REFUSED


def _until_refused(stage: StandingStage, user: User, host: str) -> None:
    end = time.monotonic() + WITHIN
    while passed := _passed(stage, user, host):
        expect(time.monotonic() < end, f"still let in by {passed}")
        time.sleep(0.01)


def _passed(stage: StandingStage, user: User, host: str) -> list[str]:
    if host != PAGES:
        return [host] if user.is_let_in(stage, host) else []
    return [way for way, is_let_in in user.passes(stage).items() if is_let_in]


def _restore(stage: StandingStage, user: User) -> None:
    """Other cases do not depend on this one's result."""
    stage.follow(stage.policy)
    stage.push("DELETE", f"Users/{user.user}", statuses=(204, 404))
    stage.push("DELETE", f"Groups/{user.group}", statuses=(204, 404))


class Crowd:
    """Sends requests until stopped, and one more; after the first refusal none may be allowed."""

    def __init__(self, stage: StandingStage, user: User, host: str, count: int):
        self._stage, self._host, self._cookie = stage, host, user.browser.cookie_header(host)
        self._stopping = threading.Event()
        self._seen: list[tuple[float, float, bool]] = []  # when it was sent, when it was answered, whether it passed
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(WITHIN)
        refused = [answered for _, answered, passed in self._seen if not passed]
        if self._threads:
            expect(refused, "no client of the crowd was refused")
            late = [sent for sent, _, passed in self._seen if passed and sent > min(refused)]
            expect(not late, f"{len(late)} requests were let in after another had been refused")

    def _ask(self) -> None:
        while True:
            # A thread that was not scheduled would otherwise stop before its first refusal.
            is_last = self._stopping.is_set()
            # Where it breaks in the middle of an answer, because access has ended, it goes on with a new connection.
            with suppress(Broken, BrokenPipeError, ConnectionResetError):
                self._ask_on_one_connection()
                if is_last:
                    return

    def _ask_on_one_connection(self) -> None:
        """At least once, until stopped."""
        gate = self._stage.gate
        head = f"GET /x HTTP/1.1\r\nHost: {self._host}:{gate.port}\r\nCookie: {self._cookie}\r\nAccept: application/json\r\n\r\n"
        with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=self._host) as client:
            while True:
                sent = time.monotonic()
                status = client.send(head.encode()).response().status
                self._seen.append((sent, time.monotonic(), status == 200))
                if self._stopping.is_set():
                    return


def _group(method: str, document: dict[str, Any] | None = None) -> Do:
    def change(stage: StandingStage, user: User) -> None:
        stage.push(method, f"Groups/{user.group}", document)

    return change


def _left(stage: StandingStage, user: User) -> None:
    operation = {"op": "remove", "path": f'members[value eq "{user.user}"]'}
    stage.push("PATCH", f"Groups/{user.group}", {"Operations": [operation]})


def _user(method: str, document: dict[str, Any] | None = None) -> Do:
    def change(stage: StandingStage, user: User) -> None:
        stage.push(method, f"Users/{user.user}", document)

    return change


def _another(stage: StandingStage, user: User) -> None:
    document = {"userName": f"{user.sub}@corp.example", "externalId": f"{user.sub}-of-old"}
    stage.push("PUT", f"Users/{user.user}", document)


def _signs_out(stage: StandingStage, user: User) -> None:
    page = user.browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/"))
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    _post(stage, user.browser, "/.gate/signout/", f"_gate_csrf={quote(token, safe='')}", (200, 302, 303))


def _ended_by_the_administrator(stage: StandingStage, user: User) -> None:
    where = "/.gate/admin/databroker/user/"
    page = stage.administrator.open(stage.url(AUTHENTICATE_HOST, where))
    (token, *_) = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    body = f"csrfmiddlewaretoken={quote(token, safe='')}&action=end_all&_selected_action={quote(f'oidc/{user.sub}', safe='')}"
    _post(stage, stage.administrator, where, body, (302,))


def _ended_by_the_provider(stage: StandingStage, user: User) -> None:
    token = stage.idp.logout_token(sub=user.sub)
    _post(stage, stage.browser(), "/.gate/backchannel_logout", f"logout_token={token}", (200, 204))


def _post(stage: StandingStage, browser: Any, path: str, body: str, statuses: tuple[int, ...]) -> None:
    headers = (*HTML, ("Content-Type", "application/x-www-form-urlencoded"), ("Origin", stage.authenticate.rstrip("/")))
    answer = browser.open(stage.url(AUTHENTICATE_HOST, path), method="POST", headers=headers, body=body)
    expect(answer.status in statuses, f"{path} was answered {answer.status}: {answer.text[:300]}")


def _claim_changes(value: str) -> Do:
    def change(stage: StandingStage, user: User) -> None:
        PEOPLE[user.sub]["team"] = value

    return change


def _policy(**changed: Any) -> Do:
    """For as long as this case lasts."""

    def change(stage: StandingStage, user: User) -> None:
        tightened = copy.deepcopy(stage.policy)
        for route in tightened:
            if GROUP in route.get("allowed_groups", ()):
                route |= changed
        stage.follow(tightened)
        user_is_signed_out = _passed(stage, user, PAGES)
        expect(not user_is_signed_out, f"the new configuration is in force, and lets in by {user_is_signed_out}")

    return change


WITHDRAWALS: dict[str, Withdrawal] = {
    "left the group": Withdrawal(_left, keeps=True),
    "the group is empty": Withdrawal(_group("PUT", {"displayName": "Standing", "externalId": GROUP}), keeps=True),
    "the group was deleted": Withdrawal(_group("DELETE"), keeps=True),
    "the group has another id": Withdrawal(
        _group("PATCH", {"Operations": [{"op": "replace", "path": "externalId", "value": "of-another"}]}), keeps=True
    ),
    "deactivated": Withdrawal(_user("PATCH", {"Operations": [{"op": "replace", "path": "active", "value": False}]}), keeps=False),
    "the user was deleted": Withdrawal(_user("DELETE"), keeps=False),
    "the user is another person": Withdrawal(_another, keeps=False),
    "signed out": Withdrawal(_signs_out, keeps=False),
    "ended by the administrator": Withdrawal(_ended_by_the_administrator, keeps=False),
    "back-channel logout": Withdrawal(_ended_by_the_provider, keeps=False),
    "another claim": Withdrawal(_claim_changes(f"not {TEAM}"), keeps=True, host=CLAIMED, streams=()),
    "another group is wanted": Withdrawal(_policy(allowed_groups=["another"]), keeps=True),
    "denied by a policy": Withdrawal(_policy(policy=[{"deny": {"groups": GROUP}}]), keeps=True),
    "a stronger sign-in is wanted": Withdrawal(_policy(acr_values=["gold"]), keeps=True),
}
