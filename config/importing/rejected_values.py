"""Removes values that gate rejects from a conversion, and notes them, without allowing more access."""

from collections.abc import Callable, Iterable

import yaml

from config.importing.conversion import Conversion, ConversionNote, ConvertedEntry, ConvertedSection
from config.importing.foreign_values import split_url
from config.parsing.document import parse_key_path
from foundation.errors import Problem

# YAML of a configuration -> its problems.
Check = Callable[[bytes], Iterable[Problem]]

_MAX_ROUNDS = 20
# Settings that policy tests require; they do not affect decisions.
_COMPLETE = {
    "authenticate_service_url": "https://authenticate.invalid",
    "idp_provider": "oidc",
    "idp_provider_url": "https://provider.invalid",
    "idp_client_id": "x",
    "idp_client_secret": "x",
    "cookie_secret": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
    "shared_secret": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=",
    "insecure_server": True,
}
# Removing these would allow more users, so gate must not start instead.
_REQUIRED = frozenset({"client_ca", "client_ca_file"})


def drop_rejected(converted: Conversion, check: Check) -> None:
    """Remove rejected values in rounds, because a removal may invalidate another value."""
    for _ in range(_MAX_ROUNDS):
        problems, routes = list(check(_plain(converted))), converted.active_routes
        left = [problem for problem in problems if not _remove(converted.top, routes, problem)]
        if len(left) == len(problems):
            break
    for problem in problems:
        converted.top.note("NEW", f"gate check will report: {problem.key}: {problem.message}")


def drop_failing_tests(converted: Conversion, check: Check) -> None:
    """Remove failing policy tests and note them.

    If gate would allow a request that the original denied, deny all users on its host.
    """
    routes = converted.active_routes
    content = {"policy": [_values(route) for route in routes], "policy_tests": converted.tests, **_COMPLETE}
    failing = {
        parse_key_path(problem.key)[1]: problem.message for problem in check(yaml.safe_dump(content).encode()) if _is_of_a_test(problem)
    }
    for index, message in failing.items():
        test = converted.tests[int(index)]
        about = [route for route in routes if _is_origin_of_url(str(_values(route)["from"]), test["url"])]
        if test["expect"] != "allow" and "got allow" in message:
            for route in about:
                route.deny_all()
        for route in about[:1]:
            route.note("CHECK", f"{test['name']}: {test.get('method', 'GET')} {test['url']} {message}")
    converted.tests = [test for index, test in enumerate(converted.tests) if index not in failing]


def _is_of_a_test(problem: Problem) -> bool:
    return parse_key_path(problem.key)[:1] == ("policy_tests",)


def _is_origin_of_url(origin: str, url: str) -> bool:
    host, target = split_url(origin).netloc, split_url(url).netloc
    return host == target or (host.startswith("*.") and target.partition(".")[2] == host[2:])


def _plain(converted: Conversion) -> bytes:
    routes = [_values(route) for route in converted.active_routes]
    return yaml.safe_dump({**_values(converted.top), "policy": routes}).encode()


def _values(part: ConvertedSection) -> dict[str, object]:
    return {entry.key: entry.value for entry in part.entries if entry.key}


def _remove(top: ConvertedSection, routes: list[ConvertedSection], problem: Problem) -> bool:
    path = parse_key_path(problem.key)
    if path[:1] == ("policy",) and len(path) > 1 and isinstance(path[1], int):
        return _remove_from_route(routes[path[1]], str(path[2]) if len(path) > 2 else "", problem.message)
    key = str(path[0]) if path else ""
    entry = top.find(key)
    if entry is None or key in _REQUIRED or _names_a_file(key):
        return False
    top.reject(entry, problem.message)
    return True


def _remove_from_route(route: ConvertedSection, key: str, message: str) -> bool:
    entry = route.find(key)
    if key == "from":
        why = f"from: {message}; the whole route was omitted"
        route.remove(*(entry.key for entry in route.entries))
        route.entries.insert(0, ConvertedEntry([ConversionNote("LOST", why)]))
    if not route.has("from"):
        return True
    if entry is None or _names_a_file(key):
        if route.find("to") is None and route.find("redirect") is None:
            _remove_upstream(route)
            return True
        return False
    route.reject(entry, message)
    return True


def _remove_upstream(route: ConvertedSection) -> None:
    """Keep the route without an upstream: if it were removed, the next route would match its requests and might allow more users."""
    is_tcp = str(_values(route).get("from", "")).startswith("tcp+")
    route.deny_all()
    text = "placeholder, because the upstream can't be converted. The route denies all users, so that no other route matches its requests"
    route.set(None, "to", "tcp://upstream.invalid:1" if is_tcp else "https://upstream.invalid", new=text)


def _names_a_file(key: str) -> bool:
    """Return whether the key names a file, which may exist where gate will run."""
    return key.endswith("_file") or key == "certificates"
