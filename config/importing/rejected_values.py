"""Refused values of a converted configuration are left out and said, and nothing becomes more open by that."""

from collections.abc import Callable, Iterable

import yaml

from config.importing.conversion import Conversion, ConversionNote, ConvertedEntry, ConvertedSection
from config.importing.foreign_values import split_url
from config.parsing.document import parse_key_path
from foundation.errors import Problem

# The problems of a configuration, as YAML.
Check = Callable[[bytes], Iterable[Problem]]

_MAX_ROUNDS = 20
# What a configuration must have for its policy tests to be run; none of it decides anything.
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
# Without it more people would come in: gate rather does not start.
_REQUIRED = frozenset({"client_ca", "client_ca_file"})


def drop_rejected(converted: Conversion, check: Check) -> None:
    """Each round takes out what was refused; without it something else may be missing."""
    for _ in range(_MAX_ROUNDS):
        problems, routes = list(check(_plain(converted))), converted.written_routes
        left = [problem for problem in problems if not _remove(converted.top, routes, problem)]
        if len(left) == len(problems):
            break
    for problem in problems:
        converted.top.note("NEW", f"gate check will report: {problem.key}: {problem.message}")


def drop_failing_tests(converted: Conversion, check: Check) -> None:
    """Policy tests that fail are left out and said; where somebody is let in whom the original refused, the host is closed."""
    routes = converted.written_routes
    content = {"policy": [_values(route) for route in routes], "policy_tests": converted.tests, **_COMPLETE}
    failing = {
        parse_key_path(problem.key)[1]: problem.message for problem in check(yaml.safe_dump(content).encode()) if _is_of_a_test(problem)
    }
    for index, message in failing.items():
        test = converted.tests[int(index)]
        about = [route for route in routes if _is_origin_of_url(str(_values(route)["from"]), test["url"])]
        if test["expect"] != "allow" and "got allow" in message:
            for route in about:
                route.close()
        for route in about[:1]:
            route.note("CHECK", f"{test['name']}: {test.get('method', 'GET')} {test['url']} {message}")
    converted.tests = [test for index, test in enumerate(converted.tests) if index not in failing]


def _is_of_a_test(problem: Problem) -> bool:
    return parse_key_path(problem.key)[:1] == ("policy_tests",)


def _is_origin_of_url(origin: str, url: str) -> bool:
    host, asked = split_url(origin).netloc, split_url(url).netloc
    return host == asked or (host.startswith("*.") and asked.partition(".")[2] == host[2:])


def _plain(converted: Conversion) -> bytes:
    routes = [_values(route) for route in converted.written_routes]
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
    top.refuse(entry, problem.message)
    return True


def _remove_from_route(route: ConvertedSection, key: str, message: str) -> bool:
    entry = route.find(key)
    if key == "from":
        why = f"from: {message}; the whole route was omitted"
        route.drop(*(entry.key for entry in route.entries))
        route.entries.insert(0, ConvertedEntry([ConversionNote("LOST", why)]))
    if not route.has("from"):
        return True
    if entry is None or _names_a_file(key):
        if route.find("to") is None and route.find("redirect") is None:
            _remove_upstream(route)
            return True
        return False
    route.refuse(entry, message)
    return True


def _remove_upstream(route: ConvertedSection) -> None:
    """A route that is gone would leave its requests to the next one, which may be open to more people."""
    is_tcp = str(_values(route).get("from", "")).startswith("tcp+")
    route.close()
    said = "placeholder, because the upstream can't be converted. The route denies all users, so that no other route matches its requests"
    route.set(None, "to", "tcp://upstream.invalid:1" if is_tcp else "https://upstream.invalid", new=said)


def _names_a_file(key: str) -> bool:
    """It may be there where gate will run."""
    return key.endswith("_file") or key == "certificates"
