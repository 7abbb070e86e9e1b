"""Cost of a decision with an access token, relative to the same decision with a session cookie.

    python -m bench.agent_tokens

The same MCP route; the agent acts for the user of the cookie. Rounds in turns, CPU time, the median of each. Goal: a token of an agent or
of a service account costs at most 10 % more than the cookie.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from authorize.policy.policy_request import parse_request
from authorize.service import AuthorizeService
from bench.decision import filled_broker
from databroker.agent_records import AccessToken, AgentAuthorization
from databroker.records import SERVICE_ACCOUNT_TOKEN, SESSION, SessionRecord
from databroker.replica import Replica
from databroker.service_account_store import ServiceAccounts, ServiceAccountToken
from databroker.store.memory import MemoryStore
from foundation.crypto.agent_token import AgentTokenKind, new_token
from foundation.crypto.service_account_token import hash_token
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.tasks import spawn
from tests.support.cookies import signed_in
from tests.support.options import make_options

HOST, RESOURCE, CLIENT = "tools.example.com", "https://tools.example.com/mcp", "build-agent"
GOAL_RATIO = 1.1
ROUNDS, CHECKS = 31, 500
AGENT_SESSION_ID = "a" * 43
ROUTE = {
    "from": f"https://{HOST}",
    "to": "http://127.0.0.1:9000",
    "allow_any_authenticated_user": True,
    "pass_identity_headers": True,
    "mcp": {"path": "/mcp"},
}
Credentials = tuple[Sequence[tuple[bytes, bytes]], Sequence[bytes]]  # headers, and values of Cookie


async def agent_token(broker: MemoryStore) -> str:
    """Return an access token of another session of the benchmark's user."""
    record = await broker.get(SESSION, "s1")
    if record is None:
        raise RuntimeError("the benchmark needs its session")
    token, now = new_token(AgentTokenKind.ACCESS, AGENT_SESSION_ID), time.time()
    agent = AgentAuthorization(CLIENT, "Build agent", RESOURCE, (), now, 50_000.0, access_tokens=(AccessToken(token.hash, now + 3600),))
    session = replace(SessionRecord.from_record(record), id=AGENT_SESSION_ID, agent=agent)
    await broker.put(SESSION, session.id, session.to_data(), expires=session.expires_at)
    return token.token


async def account_token(broker: MemoryStore) -> str:
    """Return an access token of a service account."""
    secret, now = await ServiceAccounts(broker).create("bot", ["engineering"], 86_400.0, "bench"), time.time()
    token = new_token(AgentTokenKind.SERVICE_ACCOUNT, "t" * 43)
    record = ServiceAccountToken("bot", hash_token(secret), token.hash, RESOURCE, (), now, now + 3600)
    await broker.put(SERVICE_ACCOUNT_TOKEN, "t" * 43, record.to_data(), expires=record.expires_at)
    return token.token


async def microseconds(service: AuthorizeService, credentials: Credentials) -> float:
    headers, cookies = credentials
    started = time.process_time()
    for _ in range(CHECKS):
        request = parse_request("POST", HOST.encode(), b"/mcp", b"", service.default_ports, headers=headers)
        await service.check(request, cookies)
    return (time.process_time() - started) / CHECKS * 1e6


async def measure() -> dict[str, float]:
    broker = await filled_broker()
    replica = Replica(broker)
    following = spawn(replica.run(), name="replica of the benchmark")
    await asyncio.sleep(0.05)
    with tempfile.TemporaryDirectory() as directory:
        options = make_options(Path(directory), policy=[ROUTE])
    service = AuthorizeService(options, replica, SigningKey.from_options(options), broker=broker)
    cookie = signed_in(SessionCookies(options), "s1", HOST, issued=time.time(), expires=time.time() + 50_000)
    accept = (b"accept", b"application/json, text/event-stream")
    callers: dict[str, Credentials] = {"session cookie": ((accept,), (cookie.encode(),))}
    for name, token in (("access token of an agent", agent_token), ("token of a service account", account_token)):
        callers[name] = ((accept, (b"authorization", f"Bearer {await token(broker)}".encode())), ())
    for name, (headers, cookies) in callers.items():
        request = parse_request("POST", HOST.encode(), b"/mcp", b"", service.default_ports, headers=headers)
        result = await service.check(request, cookies)
        if not result.decision.is_allowed:
            raise SystemExit(f"the benchmark measures a refusal: {name}: {result}")
    # In turns, so that other load affects all of them.
    rounds = [{name: await microseconds(service, each) for name, each in callers.items()} for _ in range(ROUNDS)]
    following.cancel()
    return {name: statistics.median(found[name] for found in rounds) for name in callers}


def main() -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    found = asyncio.run(measure())
    cookie = found["session cookie"]
    for name, each in found.items():
        print(f"{name:28} {each:7.1f} µs a decision  {each / cookie:5.2f}")
    print(f"  goal: a token costs at most {GOAL_RATIO} times a cookie")
    return 0 if max(found.values()) <= GOAL_RATIO * cookie else 1


if __name__ == "__main__":
    sys.exit(main())
