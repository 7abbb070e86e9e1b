"""Each cache of the product is bounded in bytes, or listed with the reason why it need not be."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from foundation.bounded_cache import BoundedCache, MemoCache, bounded_lru_cache, estimate_size, total_length
from tests.support.source_trees import parsed

ROOT = Path(__file__).parents[3]
PACKAGES = ("gateproject", "authenticate", "authorize", "databroker", "proxy", "config", "foundation")
CONFIGURED = "of the configuration, which its owner writes"
CACHES = ("cache", "lru_cache")
OF_FUNCTOOLS = tuple(f"functools.{name}" for name in CACHES)
FINITE = "called without arguments, or with few values"

# `lru_cache` and `cache` outside foundation/bounded_cache.py, by function, with the bound of their bytes.
# Those of config are of the configuration.
BOUNDED_OTHERWISE = {
    "authenticate/api/openapi.py:openapi_document": FINITE,
    "foundation/client_tls.py:client_context": CONFIGURED,
    "authorize/identity/client_certificates.py:_store": CONFIGURED,
    "authorize/timeline/timeline_pages.py:_known": FINITE,
    "authorize/timeline/timeline_pages.py:zones": FINITE,
    "authorize/policy/language/time_criteria.py:_cached_per_second": "four numbers",
    "databroker/records.py:_names": FINITE,
    "databroker/store/redis_store.py:_sha1": FINITE,
    "foundation/web/pages.py:security_headers": FINITE,
    "foundation/web/pages.py:static_path": FINITE,
    "foundation/telemetry/http_metrics.py:client": FINITE,
    "foundation/telemetry/http_metrics.py:server": FINITE,
    "foundation/telemetry/logs.py:_second": "two texts of a time",
    "foundation/version.py:_from_git": FINITE,
    "proxy/client_address.py:trusted_peers": CONFIGURED,
    "proxy/envoy/resources/certificate_secrets.py:_fingerprint": CONFIGURED,
    "proxy/rewriting/request_headers.py:gate_cookie_filter": CONFIGURED,
    "proxy/upstreams/load_balancers.py:maglev": CONFIGURED,
    "proxy/upstreams/load_balancers.py:ring_hash": CONFIGURED,
    "proxy/upstreams/upstream_tls.py:_context": CONFIGURED,
}


def caches() -> Iterator[str]:
    """`file:function`, of each `cache` and `lru_cache` of functools that is used in the product."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            if "functools" in text and name != "foundation/bounded_cache.py" and not name.startswith("config/"):
                yield from (f"{name}:{function}" for function in _in_file(parsed(text)))


def _in_file(tree: ast.Module) -> Iterator[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "functools"]
    named = {alias.asname or alias.name for node in imports for alias in node.names if alias.name in CACHES}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Name) and node.id in named) or (
            isinstance(node, ast.Attribute) and node.attr in CACHES and ast.unparse(node) in OF_FUNCTOOLS
        ):
            yield _function_around(tree, node)


def _function_around(tree: ast.Module, node: ast.expr) -> str:
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        and min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)]) <= node.lineno <= (each.end_lineno or 0)
    ]
    return max(around, key=lambda each: each.lineno).name if around else "the module"


def test_every_cache_is_bounded_in_bytes_or_documents_its_exception() -> None:
    assert sorted(set(caches())) == sorted(BOUNDED_OTHERWISE)


def test_overlong_value_is_computed_and_not_cached() -> None:
    computed = []

    @bounded_lru_cache(2, max_key_length=4)
    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    assert [upper("long-er"), upper("abcd"), upper("abcd"), upper("long-er")] == ["LONG-ER", "ABCD", "ABCD", "LONG-ER"]
    assert computed == ["long-er", "abcd", "long-er"]
    assert (upper.cache_info().currsize, upper.cache_info().maxsize) == (1, 2)  # type: ignore[attr-defined]


def test_several_arguments_are_measured_together() -> None:
    computed = []

    @bounded_lru_cache(2, max_key_length=10, size=total_length)
    def joined(text: str, more: tuple[tuple[bytes, bytes], ...]) -> int:
        computed.append(text)
        return len(more)

    for _ in range(2):
        assert joined("ab", ((b"name", b"1"),)) == 1
        assert joined("ab", ((b"name", b"12345"),)) == 1
    assert len(computed) == 3


def test_cached_value_is_computed_once_and_bounded_by_length_number_and_bytes() -> None:
    computed: list[str] = []

    def upper(text: str) -> str:
        computed.append(text)
        return text.upper()

    remembered = MemoCache(upper, 3, max_key_length=4, max_key_bytes=8)
    assert [remembered[text] for text in ("a", "a", "long-er", "long-er")] == ["A", "A", "LONG-ER", "LONG-ER"]
    assert computed == ["a", "long-er", "long-er"]
    assert [remembered[text] for text in ("b", "c", "d")] == ["B", "C", "D"]
    assert set(remembered) == {"d"}, "four are too many: all are forgotten but the last"
    assert [remembered[text] for text in ("1234", "5678")] == ["1234", "5678"]
    assert (set(remembered), remembered.bytes) == ({"5678"}, 4), "nine bytes are too many"


def test_failures_are_not_cached() -> None:
    def refuse(text: str) -> str:
        raise ValueError(text)

    remembered = MemoCache(refuse, 3, max_key_length=4)
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            remembered["a"]
    assert not remembered


def test_a_bounded_cache_holds_neither_too_many_nor_too_much() -> None:
    held: BoundedCache[str, str] = BoundedCache(3, 1000)
    for name in "abcd":
        held.put(name, name.upper(), 5)
    assert [held.get(name) for name in "abcd"] == [None, "B", "C", "D"]
    held.put("b", "again", 7)
    assert (len(held), held.bytes, held.get("b")) == (3, 17, "again")
    held.put("e", "E", 5)
    assert "c" not in held, "what was put longest ago makes room"
    held.put("f", "much", 11)
    assert held.get("f") is None, "a hundredth of all is the most that one may weigh"
    held.pop("d")
    held.pop("nothing")
    assert (len(held), held.bytes) == (2, 12)
    held.clear()
    assert (len(held), held.bytes) == (0, 0)


def test_a_bounded_cache_makes_room_by_bytes() -> None:
    held: BoundedCache[int, int] = BoundedCache(1_000_000, 1000)
    for number in range(500):
        held.put(number, number, 10)
    assert (len(held), held.bytes) == (100, 1000)


@dataclass(frozen=True, slots=True)
class User:
    name: str
    claims: dict[str, tuple[str, ...]]


@pytest.mark.parametrize(
    "grown", [User("x" * 5000, {}), User("x", {"a": ("y" * 5000,)}), User("x", {"y" * 5000: ()}), ["x" * 2500, {"y" * 2500}]]
)
def test_a_weight_counts_all_that_is_held(grown: object) -> None:
    assert 5000 < estimate_size(grown) < 7000
