"""Cost of one decision: request, cookie, session, match, policy, cached assertion.

    python -m bench.decision

Goals: at most 60 µs with 10 routes, and at most 1.3 times that with 10,000. The policy alone, from values: at most 5 µs for a route with
4 criteria, 40 µs for one with 100. The interpretations of a path: at most 2 µs for a plain path, 30 µs for an unusual one, 45 µs for the
most expensive one that is accepted, 600 µs for thousands of slashes.

The canonical form of a path of maximum length: at most 300 µs for escapes only, 600 µs for segments with dots and escapes, 900 µs for
parent segments.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import evaluate_route
from authorize.policy.identity import Identity
from authorize.policy.paths.canonical import canonical_path
from authorize.policy.paths.interpretations import interpretations
from authorize.policy.policy_request import PolicyRequest, parse_request
from authorize.policy.route_table import RouteTable
from authorize.service import AuthorizeService
from config.options import Options
from config.routes.route import Route
from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SESSION, USER, DirectoryGroup, DirectoryUser, SessionRecord, UserRecord
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.tasks import spawn
from tests.support.cookies import signed_in
from tests.support.options import MINIMAL, make_options

GOAL_MICROSECONDS = 60.0
GOAL_RATIO = 1.3
POLICY_GOALS = {4: 5.0, 100: 40.0}  # criteria: microseconds
# The maximum number of interpretations (authorize/policy/paths/interpretations.py), and the most expensive ones.
STRANGEST = b"/dashboard/%25/(S(a))%23;xa%25%253B%252F%23%40%253B%255C%2520/a"
# The maximum length of a path; the session search must not restart at each of these slashes.
MAX_LENGTH_PATH = "/a" + "/" * 8000 + "(S(x)"
MAX_LENGTH_GOAL = 600.0
READINGS_GOALS = {
    b"/dashboard/items/42": 2.0,
    b"/dashboard/a%20b/%C3%A4.png": 2.0,
    b"/dashboard/items;v=1/42": 30.0,
    b"/dashboard/group%2Fname;v=1": 30.0,
    b"/dashboard/https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc%2520d%23part": 30.0,
    STRANGEST: 45.0,
}  # path: microseconds
CANONICAL_GOALS = {
    (b"/" + b"%c3%a4" * 1365).ljust(8192, b"a"): 300.0,
    (b"/a.%2f" * 1365).ljust(8192, b"a"): 600.0,
    (b"/a./.." * 1364 + b"/%2f").ljust(8192, b"a"): 900.0,
}
CRITERIA = (
    {"domain": "corp.com"},
    {"groups": ["engineering"]},
    {"source_ip": ["10.0.0.0/8", "192.0.2.0/24"]},
    {"http_path": {"starts_with": "/dashboard"}},
    {"claim/team": ["a", "b"]},
    {"http_method": ["GET", "HEAD"]},
    {"time_of_day": {"after": "00:00", "zone": "Europe/Berlin"}},
    {"http_header/X-Env": "prod"},
)
# Routes and identity providers.
FEW, MANY_ROUTES, MANY_PROVIDERS = WORLDS = ((10, 1), (10_000, 1), (10, 50))
CLAIMS = {"team": ["a", "b"], "groups": ["engineering"]}
ROUNDS = 15
CHECKS = 1_000


def route(number: int) -> dict[str, Any]:
    return {
        "from": f"https://app{number}.example.com",
        "to": "http://127.0.0.1:9000",
        "allowed_users": ["boss@other.org"],
        "allowed_groups": ["engineering"],
        "pass_identity_headers": True,
    }


def provider(number: int) -> dict[str, Any]:
    """Return an entry of `identity_providers`; the user of this benchmark has signed in with the first."""
    client = {"client_id": "gate", "client_secret": "of the bench", "groups_claim": "groups"}
    if number == 0:
        return {"id": "oidc", "provider": "oidc", "url": MINIMAL["idp_provider_url"], "domains": ["corp.com"], **client}
    return {"id": f"p{number}", "provider": "oidc", "url": f"https://idp{number}.example.com", "domains": [f"p{number}.example"], **client}


def options_with(count: int, providers: int = 1) -> Options:
    several = (
        {**dict.fromkeys(PLACEHOLDERS), "identity_providers": [provider(number) for number in range(providers)]} if providers > 1 else {}
    )
    # The loader also records positions per line; a benchmark needs only the routes.
    with tempfile.TemporaryDirectory() as directory:
        base = make_options(Path(directory), jwt_claims_headers=["email", "groups"], **several)
    model = type(base).model_fields["policy"].annotation.__args__[0]
    return base.model_copy(update={"policy": tuple(model.model_validate(route(number)) for number in range(count))})


async def filled_broker() -> MemoryStore:
    broker = MemoryStore()
    now = time.time()
    session = SessionRecord("s1", "oidc/1", "1", "oidc", now, now + 50_000, CLAIMS, issuer=MINIMAL["idp_provider_url"])
    await broker.put(SESSION, "s1", session.to_data(), expires=session.expires_at)
    await broker.put(USER, "oidc/1", UserRecord("oidc/1", "ann@corp.com", True, "Ann", issuer=session.issuer).to_data())
    await broker.put(DIRECTORY_USER, "oidc/1", DirectoryUser("oidc/1", "ann@corp.com", "Ann", ("g1", "g2")).to_data())
    for id, name in (("g1", "engineering"), ("g2", "everybody")):
        await broker.put(DIRECTORY_GROUP, id, DirectoryGroup(id, name).to_data())
    return broker


async def microseconds(service: AuthorizeService, cookie: list[bytes], host: bytes) -> float:
    started = time.perf_counter()
    for _ in range(CHECKS):
        request = parse_request("GET", host, b"/dashboard/items/42", b"page=2", service.default_ports)
        await service.check(request, cookie)
    return (time.perf_counter() - started) / CHECKS * 1e6


async def measured() -> dict[tuple[int, int], float]:
    replica = Replica(await filled_broker())
    following = spawn(replica.run(), name="replica of the bench")
    await asyncio.sleep(0.05)
    worlds = {}
    for size, providers in WORLDS:
        options = options_with(size, providers)
        service = AuthorizeService(options, replica, SigningKey.from_options(options))
        host = f"app{size - 1}.example.com"
        cookie_header = signed_in(SessionCookies(options), "s1", host, issued=time.time(), expires=time.time() + 50_000)
        cookie = [f"theme=dark; {cookie_header}; lang=en".encode()]
        authorization = await service.check(parse_request("GET", host.encode(), b"/", b"", service.default_ports), cookie)
        if not authorization.decision.is_allowed or len(authorization.identity_headers) != 3:
            raise SystemExit(f"the bench measures the wrong thing: {authorization}")
        worlds[size, providers] = (service, cookie, host.encode())
    # Interleaved, so that other load affects all of them.
    rounds = [{name: await microseconds(*world) for name, world in worlds.items()} for _ in range(ROUNDS)]
    following.cancel()
    return {name: statistics.median(found[name] for found in rounds) for name in WORLDS}


def policy_microseconds(criteria: int) -> float:
    """Return the time of a decision from values alone that evaluates each of the criteria."""
    policy = [{"allow": {"and": [CRITERIA[number % len(CRITERIA)] for number in range(criteria)]}}]
    options = {"from": "https://app.example.com", "to": "http://127.0.0.1:9000", "policy": policy}
    (compiled,) = RouteTable.build([Route.model_validate(options)], client_ca=None).routes()
    now = time.time()
    claims = {"team": ("b",)}
    identity = Identity(
        "s1", "oidc/1", "1", "oidc", now + 60, now, verified_email="ann@corp.com", group_ids=frozenset({"engineering"}), claims=claims
    )
    request = parse_request(
        "GET", b"app.example.com", b"/dashboard/items/42", b"", frozenset({443}), source_ip="10.1.2.3", headers=[(b"x-env", b"prod")]
    )
    if (
        len(evaluate_route(request, identity, compiled, now).trace) != criteria + 1
        or not evaluate_route(request, identity, compiled, now).is_allowed
    ):
        raise SystemExit("the bench measures the wrong thing")

    # CPU time, the best of many short rounds, so that other processes do not count.
    def one_round() -> float:
        started = time.process_time()
        for _ in range(CHECKS // ROUNDS):
            evaluate_route(request, identity, compiled, now)
        return (time.process_time() - started) / (CHECKS // ROUNDS) * 1e6

    return min(one_round() for _ in range(ROUNDS**2))


def readings_microseconds(path: bytes) -> float:
    """Return the additional cost of matching all interpretations of a path, without caches."""
    layout = ({"prefix": "/admin"}, {"regex": r".*\.(css|js)"}, {"prefix": "/dashboard/"}, {})
    options = [{"from": "https://app.example.com", "to": "http://127.0.0.1:9000", **keys} for keys in layout]
    table = RouteTable.build(map(Route.model_validate, options), client_ca=None)
    made = [
        parse_request("GET", b"app.example.com", path + b"%d" % number, b"", frozenset({443}))
        for number in range(CHECKS // ROUNDS * ROUNDS**2)
    ]
    routes = table.routes()

    def first(request: PolicyRequest) -> CompiledRoute | None:
        for compiled in routes:
            if compiled.matches(request.path):
                return compiled
        return None

    def one_round(match: Callable[[PolicyRequest], CompiledRoute | None], number: int) -> float:
        part = made[number * (CHECKS // ROUNDS) :][: CHECKS // ROUNDS]
        started = time.process_time()
        for request in part:
            match(request)
        return (time.process_time() - started) / len(part) * 1e6

    if table.match(made[0]) is not first(made[0]):
        raise SystemExit("the bench measures the wrong thing")
    rounds = range(ROUNDS**2)
    return min(one_round(table.match, number) for number in rounds) - min(one_round(first, number) for number in rounds)


def max_length_microseconds() -> float:
    def one_round() -> float:
        started = time.process_time()
        for _ in range(ROUNDS):
            interpretations(MAX_LENGTH_PATH)
        return (time.process_time() - started) / ROUNDS * 1e6

    return min(one_round() for _ in range(ROUNDS))


def canonical_microseconds(path: bytes) -> float:
    def one_round() -> float:
        started = time.process_time()
        for _ in range(ROUNDS):
            canonical_path(path)
        return (time.process_time() - started) / ROUNDS * 1e6

    return min(one_round() for _ in range(ROUNDS**2))


def main() -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    found = asyncio.run(measured())
    ratio = found[MANY_ROUTES] / found[FEW]
    for (size, providers), each in found.items():
        print(f"{size:>7} routes, {providers:>2} providers  {each:8.1f} µs a decision")
    print(f"  ratio         {ratio:8.2f}; of the providers {found[MANY_PROVIDERS] / found[FEW]:.2f}")
    print(f"  goals: {GOAL_MICROSECONDS:.0f} µs at {FEW[0]} routes, ratio {GOAL_RATIO}")
    policies = {criteria: policy_microseconds(criteria) for criteria in POLICY_GOALS}
    for criteria, each in policies.items():
        print(f"{criteria:>7} criteria {each:7.1f} µs from values (goal: {POLICY_GOALS[criteria]:.0f})")
    is_fast = all(each <= POLICY_GOALS[criteria] for criteria, each in policies.items())
    for path, goal in READINGS_GOALS.items():
        each = readings_microseconds(path)
        print(f"{path.decode()[:28]:>28} {each:6.1f} µs for its readings (goal: {goal:.0f})")
        is_fast = is_fast and each <= goal
    max_length = max_length_microseconds()
    print(f"{'8,000 slashes':>28} {max_length:6.1f} µs for its readings (goal: {MAX_LENGTH_GOAL:.0f})")
    is_fast = is_fast and max_length <= MAX_LENGTH_GOAL
    for path, goal in CANONICAL_GOALS.items():
        each = canonical_microseconds(path)
        print(f"{path.decode()[:28]:>28} {each:6.1f} µs for its canonical form, of {len(path)} bytes (goal: {goal:.0f})")
        is_fast = is_fast and each <= goal
    return 0 if found[FEW] <= GOAL_MICROSECONDS and ratio <= GOAL_RATIO and is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
