"""Time and memory of a large directory sync: 100,000 users, each in 20 of 10,000 groups, with Azure's delta queries.

    python -m bench.stores.directory_sync

The directory is a child on the other core. Goals: 90 s and 600 MiB, a second sync writes nothing, and a decision by group costs as much
as one by user. The exit status is 1 if one is missed.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path

from authenticate.directory.sync_run import SyncRun
from authenticate.directory.vendor_source import DirectorySource
from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.decision import decide
from authorize.policy.policy_request import parse_request
from authorize.route_settings import default_ports, route_table
from bench.support.harness import child, pin
from bench.support.upstream import start_upstream
from config.options import Options
from databroker.records import SESSION, USER, SessionRecord, UserRecord
from databroker.replica import Replica
from databroker.session_reader import SessionReader
from databroker.store.memory import MemoryStore
from foundation.tasks import spawn
from foundation.telemetry.logs import configure_logs
from tests.support.options import make_options

USERS, GROUPS, EACH, PAGE = 100_000, 10_000, 20, 500
DECISIONS = 20_000
TENANT = "11111111-2222-3333-4444-555555555555"
ALLOWED = {"by group": {"allowed_groups": ["g00000"]}, "by user": {"allowed_users": ["azure/u000000"]}}


def main() -> None:
    if "--vendor" in sys.argv:
        asyncio.run(serve())
        return
    pin(0)
    configure_logs("warn", "warn", readable=False)
    command = [sys.executable, "-m", "bench.stores.directory_sync", "--vendor"]
    with tempfile.TemporaryDirectory() as directory, child(command, core=1, stdout=subprocess.PIPE) as vendor:
        assert vendor.stdout is not None
        url = vendor.stdout.readline().strip()
        sys.exit(not asyncio.run(measure(options_for(Path(directory), url))))


def options_for(directory: Path, url: str) -> Options:
    account = {"client_id": "c", "client_secret": "s", "directory_id": TENANT}
    routes = [
        {"from": f"https://{name.replace(' ', '-')}.example.com", "to": "http://127.0.0.1:1", **rule} for name, rule in ALLOWED.items()
    ]
    return make_options(
        directory,
        idp_provider="azure",
        idp_provider_url=f"{url}/{TENANT}/v2.0",
        idp_directory_url=url,
        idp_service_account=b64encode(json.dumps(account).encode()).decode(),
        policy=routes,
    )


def host(name: str) -> str:
    return f"{name.replace(' ', '-')}.example.com"


async def measure(options: Options) -> bool:
    broker = MemoryStore()
    source = DirectorySource.from_options(options, options.first_provider)
    assert source is not None
    outcomes = []
    for what, goal in (("first", 90.0), ("second, unchanged", 90.0)):
        before = broker._store._version
        run = await SyncRun(source, broker, 300.0).run()
        written = broker._store._version - before - 1  # the line in the history
        facts = f"{run.users:,} users, {run.groups:,} groups, {run.requests} requests, {written:,} writes"
        print(f"{what} reading: {facts}; {run.error or 'good'}")
        outcomes += [not run.error, report(f"seconds of the {what} reading", run.duration_seconds, goal)]
    outcomes.append(report("writes of the second reading", written, 1))
    outcomes.append(report("MiB of this process, with the records", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 600))
    outcomes.append(await decisions(options, broker))
    await source.close()
    return all(outcomes)


def report(what: str, value: float, goal: float) -> bool:
    print(f"{what}: {value:,.3g} (goal: under {goal:,.3g})", flush=True)
    return value < goal


async def decisions(options: Options, broker: MemoryStore) -> bool:
    replica = Replica(broker)
    following = spawn(replica.run(), name="replica")
    while not replica.sync_token:
        await asyncio.sleep(0.01)
    session = SessionRecord(
        "s", "azure/u000000", "u000000", "azure", time.time(), time.time() + 3600, {}, issuer=options.first_provider.issuer
    )
    await broker.put(USER, session.user_id, UserRecord(session.user_id, issuer=session.issuer).to_data())
    await broker.put(SESSION, session.id, session.to_data())
    loader, table = IdentityLoader(replica, SessionReader(options)), route_table(options)
    took = {}
    for name in ALLOWED:
        request = parse_request("GET", host(name).encode(), b"/", b"", default_ports(options))
        started = time.perf_counter()
        for _ in range(DECISIONS):
            identity = loader.peek("s", time.time()) or await loader.load("s", time.time())
            assert decide(request, identity, table, time.time()).is_allowed
        took[name] = (time.perf_counter() - started) / DECISIONS * 1e6
        print(f"a decision {name}: {took[name]:.1f} microseconds")
    following.cancel()
    return report("a decision by group, in decisions by user", took["by group"] / took["by user"], 1.5)


async def serve() -> None:
    """Serve Microsoft Graph, all of it in pages; afterwards empty deltas."""
    server = await start_upstream(respond)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


def respond(head: str) -> tuple[int, list[bytes]]:
    origin = "http://" + head.split("\r\nhost: ")[1].split("\r\n")[0]
    body = json.dumps(page(origin, head.split(" ")[1])).encode()
    return len(body), [body]


def page(origin: str, target: str) -> dict[str, object]:
    if "/token" in target:
        return {"access_token": "t", "expires_in": 3600}
    kind = "groups" if "/groups/" in target else "users"
    if "deltatoken" in target:
        return {"value": [], "@odata.deltaLink": f"{origin}/v1.0/{kind}/delta?deltatoken=1"}
    start, everything = int(target.partition("skip=")[2] or 0), GROUPS if kind == "groups" else USERS
    size = PAGE if kind == "users" else PAGE // 10
    entries = [group(number) if kind == "groups" else user(number) for number in range(start, min(start + size, everything))]
    if start + size < everything:
        return {"value": entries, "@odata.nextLink": f"{origin}/v1.0/{kind}/delta?skip={start + size}"}
    return {"value": entries, "@odata.deltaLink": f"{origin}/v1.0/{kind}/delta?deltatoken=1"}


def user(number: int) -> dict[str, object]:
    address = f"person{number}@corp.example"
    return {"id": f"u{number:06}", "displayName": f"Person {number}", "mail": address, "userPrincipalName": address}


def group(number: int) -> dict[str, object]:
    """Return the members, so that each user u is in 20 groups: u, u + 500, u + 1000, ... modulo the number of groups."""
    step = GROUPS // EACH
    members = [f"u{user_number:06}" for turn in range(EACH) for user_number in range((number - turn * step) % GROUPS, USERS, GROUPS)]
    typed = [{"@odata.type": "#microsoft.graph.user", "id": member} for member in members]
    return {"id": f"g{number:05}", "displayName": f"Group {number}", "members@delta": typed}


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateproject.settings")
    main()
