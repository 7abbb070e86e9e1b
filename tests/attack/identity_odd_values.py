"""B49: is a claim or group that no rule can compare taken for one that is not there?"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Connections
from tests.attack.identity_stage import Stage, application, bendable_provider, new_user, shared_stage
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET
from tests.support.gate import GateBuilder

HOST = "odd.localhost"
BARRED = {"claim/status": "barred"}
# Each denies a user who is barred or may be, by the path of its route.
COMPARED: dict[str, list[dict[str, Any]]] = {
    "/deny/": [{"allow": {"claim/sub": {"exists": True}}}, {"deny": BARRED}],
    "/deny-text/": [{"allow": {"claim/sub": {"exists": True}}}, {"deny": {"claim/status": {"contains": "barred"}}}],
    "/not/": [{"allow": {"not": BARRED}}],
    "/nor/": [{"allow": {"nor": [BARRED, {"claim/status": "suspended"}]}}],
    "/not-in/": [{"allow": {"claim/status": {"not_in": ["barred"]}}}],
}
PRESENT: dict[str, list[dict[str, Any]]] = {
    "/deny-any/": [{"allow": {"claim/sub": {"exists": True}}}, {"deny": {"claim/status": {"exists": True}}}],
    "/without/": [{"allow": {"claim/status": {"exists": False}}}],
    "/or-none/": [{"allow": {"or": [{"claim/status": {"exists": False}}, {"claim/status": False}]}}],
}
IN_GROUP = {"groups": ["sales", "1001"]}
GROUPS: dict[str, list[dict[str, Any]]] = {
    "/group-deny/": [{"allow": {"claim/sub": {"exists": True}}}, {"deny": IN_GROUP}],
    "/group-deny-text/": [{"allow": {"claim/sub": {"exists": True}}}, {"deny": {"groups": {"matches": "sales|1001"}}}],
    "/group-not/": [{"allow": {"not": IN_GROUP}}],
    "/group-nor/": [{"allow": {"nor": [IN_GROUP, {"groups": "audit"}]}}],
}
NAMED: dict[str, list[dict[str, Any]]] = {
    "/nested/": [{"allow": {"claim/realm.role": "admin"}}],
    "/named/": [{"allow": {r"claim/realm\.role": "admin"}}],
}


def odd_forms(value: Any) -> Iterator[Any]:
    """A value, as providers send it that rules can't compare."""
    yield from ({value: {}}, {value: True}, {"name": value}, {"value": [value]}, [{"name": value}], [{value: {}}], [[value]], [[[value]]])
    yield from ([value, {"id": 1}], ["other", {"name": value}], ["other", [value]], [None, value], ["other", None], [{}, value])
    yield from (None, [], {}, [None], [{}], [[]], [None, {}, []])


@identity_attack("B49", "odd values: claims that no rule can compare", sample=12)
def claims(_: Stage) -> Iterator[Attempt]:
    for value in odd_forms("barred"):
        yield f"status {value!r}", partial(_is_denied, {"status": value}, [*COMPARED, *PRESENT])
    for value in ("barred", ["barred"], ["other", "barred"]):
        yield f"status {value!r}", partial(_is_denied, {"status": value}, [*COMPARED, *PRESENT])
    for value in ("other", ["other"], ["other", "another"]):
        yield f"control: status {value!r}", partial(_is_let_in, {"status": value}, list(COMPARED))
    yield "control: no status", partial(_is_let_in, {}, list(PRESENT))
    yield "kept elsewhere", partial(_is_denied, {"_claim_names": {"status": "src1"}}, [*COMPARED, *PRESENT])


@identity_attack("B49", "odd values: unreadable groups", sample=12)
def groups(_: Stage) -> Iterator[Attempt]:
    for value in (*odd_forms("sales"), True, [True], 1001.5, [1001.5], "sales", ["sales"], 1001, [1001], "1001", ["eng", 1001]):
        if value != []:  # which says that there are none
            yield f"groups {value!r}", partial(_is_denied, {"groups": value}, list(GROUPS))
    yield "no groups", partial(_is_denied, {}, list(GROUPS))
    yield "kept elsewhere", partial(_is_denied, {"_claim_names": {"groups": "src1"}}, list(GROUPS))
    for value in ("eng", ["eng"], [7], [], ""):
        yield f"control: groups {value!r}", partial(_is_let_in, {"groups": value}, list(GROUPS))


@identity_attack("B49", "odd values: names that read as a path", sample=6)
def names(_: Stage) -> Iterator[Attempt]:
    for outer, inner in (("user", "admin"), ("admin", "user")):
        opens = "/nested/" if inner == "admin" else "/named/"
        output = {"realm.role": outer, "realm": {"role": inner}}
        yield f"{output}", partial(_enters, output, {path: path == opens for path in NAMED})
    yield "a name", partial(_enters, {"realm.role": "admin"}, {"/nested/": False, "/named/": True})
    yield "a path", partial(_enters, {"realm": {"role": "admin"}}, {"/nested/": True, "/named/": False})
    for output in (
        {"realm\\": {"role": "admin"}},
        {"realm": {"role": {"admin": 1}}},
        {"realm": ["role", "admin"]},
        {"realm": [{"role": "admin"}]},
    ):
        yield f"{output}", partial(_is_denied, output, list(NAMED))


def _is_denied(output: dict[str, Any], paths: list[str]) -> Outcome:
    return _enters(output, dict.fromkeys(paths, False))


def _is_let_in(output: dict[str, Any], paths: list[str]) -> Outcome:
    return _enters(output, dict.fromkeys(paths, True))


def _enters(output: dict[str, Any], opens: dict[str, bool]) -> Outcome:
    stage = shared_stage("odd values", _started)
    browser = stage.browser()
    stage.sign_in(browser, new_user(**output), HOST, "/anyone/")
    found = {}
    for path in opens:
        before = stage.upstream.hits
        answer = browser.open(stage.url(HOST, path), headers=HTML)
        expect(answer.status in (200, 403), f"{path} was answered {answer.status}")
        expect((answer.status == 200) == (stage.upstream.hits > before), "a refused request reached the upstream")
        found[path] = answer.status == 200
    expect(found == opens, f"lets in to {[path for path in opens if found[path] != opens[path]]}, or not, which is wrong")
    expect(stage.is_alive(), "gate has died")
    return ACCEPTED if any(opens.values()) else REFUSED


@contextmanager
def _started(directory: Path) -> Iterator[Stage]:
    with application() as upstream, bendable_provider() as provider:
        to = f"http://127.0.0.1:{upstream.port}"
        builder = GateBuilder(provider.idp.issuer).route(HOST, to=to, prefix="/anyone/", allow_any_authenticated_user=True)
        for path, policy in (COMPARED | PRESENT | GROUPS | NAMED).items():
            builder.route(HOST, to=to, prefix=path, policy=policy)
        builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups")
        with builder.start(directory) as gate:
            tls = gate.certificates.client_context()
            connections = Connections(gate.port, tls)
            try:
                yield Stage(gate, provider, upstream, connections, tls)
            finally:
                connections.close()
