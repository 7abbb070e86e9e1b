"""Cost of a SCIM push of a large company: users and groups of 1,000, one request after the other.

    python -m bench.stores.scim_push [20000 | 100000 | ...]

gate is a child on the other core with a typical configuration: memory store, audit log in SQLite. Goals: the CPU time per user is
constant, the process grows by at most 12 KiB per user, every change is one row of the audit log, and a repeated push writes none. The
exit status is 1 if one is missed.
"""

import http.client
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from bench.support.harness import AUTHENTICATE_HOST, free_port, gate_settings, pin, start_gate
from bench.support.process_stats import cpu_seconds, resident

USERS, GROUP = 20_000, 1_000
TOKEN = "bench-token-of-thirty-two-characters"
GROWTH_KIB, SLOWER = 12.0, 1.5
SETTLES = 2.0  # seconds until the last changes are in the audit log


def main() -> int:
    users = int(sys.argv[1]) if len(sys.argv) > 1 else USERS
    pin(0)
    with ExitStack() as stack:
        directory, port = Path(stack.enter_context(tempfile.TemporaryDirectory())), free_port()
        settings = gate_settings(directory, port, "http://127.0.0.1:1", "http://127.0.0.1:1")
        process = start_gate(stack, directory, {**settings, "scim_token": TOKEN}, core=1)
        provider = ScimProvider(port)
        before = resident(process.pid)
        ids, used, started = [], [cpu_seconds(process.pid)], time.perf_counter()
        for number in range(users):
            ids.append(provider.push("POST", "Users", user(number))["id"])
            if (number + 1) % max(users // 10, 1) == 0:
                used.append(cpu_seconds(process.pid))
        growth = (resident(process.pid) - before) / users
        first, last = (1e4 * (used[end] - used[end - 1]) / users for end in (1, 10))
        print(
            f"{users:,} users in {time.perf_counter() - started:.0f} s; the processor: {first:.2f} ms each first, {last:.2f} ms in the end"
        )
        started = time.perf_counter()
        groups = [ids[start : start + GROUP] for start in range(0, users, GROUP)]
        for number, members in enumerate(groups):
            provider.push("POST", "Groups", group(number, members))
        print(f"{len(groups)} groups of {min(GROUP, users):,} in {time.perf_counter() - started:.1f} s")
        time.sleep(SETTLES)
        written = audit_rows(directory)
        for number in range(min(users, 1000)):
            provider.push("PUT", f"Users/{ids[number]}", user(number))
        time.sleep(SETTLES)
        again = audit_rows(directory) - written
        started = time.perf_counter()
        off = {"Operations": [{"op": "replace", "value": {"active": False}}]}
        for id in ids[:100]:
            provider.push("PATCH", f"Users/{id}", off)
        print(f"a deactivation: {10 * (time.perf_counter() - started):.2f} ms")
        print(f"{written:,} rows of the audit log for {users + len(groups):,} changes, {again} for 1,000 users as they were")
        print(f"growth: {growth / 1024:.1f} KiB a user (goal: under {GROWTH_KIB:.0f}), all in all {resident(process.pid) / 2**20:.0f} MiB")
        print(f"the last user in first ones: {last / first:.2f} (goal: under {SLOWER})")
        return int(growth / 1024 > GROWTH_KIB or last / first > SLOWER or written != users + len(groups) or again != 0)


class ScimProvider:
    """Provider's side of one connection."""

    def __init__(self, port: int):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers = {"Host": AUTHENTICATE_HOST, "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/scim+json"}

    def push(self, method: str, path: str, document: dict[str, Any]) -> dict[str, Any]:
        self._connection.request(method, f"/.gate/scim/v2/{path}", json.dumps(document), self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status not in (200, 201):
            sys.exit(f"{method} {path}: {answer.status} {body[:500]!r}")
        return dict(json.loads(body))


def user(number: int) -> dict[str, Any]:
    address = f"person-{number:06}@corp.example"
    name = {"givenName": "Person", "familyName": str(number)}
    return {
        "userName": address,
        "externalId": f"u{number:06}",
        "displayName": f"Person {number}",
        "name": name,
        "emails": [{"value": address}],
    }


def group(number: int, members: list[str]) -> dict[str, Any]:
    return {"displayName": f"Team {number}", "externalId": f"g{number:05}", "members": [{"value": id} for id in members]}


def audit_rows(directory: Path) -> int:
    with closing(sqlite3.connect(next((directory / "data").glob("*.sqlite3")))) as database:
        return int(database.execute("SELECT count(*) FROM databroker_auditentry WHERE actor_id = 'scim'").fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
