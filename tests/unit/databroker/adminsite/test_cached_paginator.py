"""A large count is kept for a while, a small one never; a cache that lies small is not believed."""

from dataclasses import dataclass

import pytest
from django.core.cache import cache

from databroker.adminsite.cached_paginator import LARGE, CachedPaginator


@dataclass
class Rows:
    """As much of a query set as the paginator meets."""

    rows: int
    query: str
    counted: int = 0

    def count(self) -> int:
        self.counted += 1
        return self.rows


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    cache.clear()


def test_a_large_list_is_counted_once() -> None:
    rows = Rows(LARGE, "SELECT 1")
    assert [CachedPaginator(rows, 50).count for _ in range(3)] == [LARGE] * 3
    assert rows.counted == 1


def test_a_small_list_is_counted_each_time() -> None:
    rows = Rows(LARGE - 1, "SELECT 1")
    assert CachedPaginator(rows, 50).count == LARGE - 1
    rows.rows -= 1
    assert CachedPaginator(rows, 50).count == LARGE - 2


def test_another_search_has_its_own_count() -> None:
    assert CachedPaginator(Rows(LARGE, "SELECT 1"), 50).count == LARGE
    assert CachedPaginator(Rows(3, "SELECT 2"), 50).count == 3
