"""Are the addresses of stores read as they are meant, and refused without showing the password?"""

import pytest

from config.settings.storage_url import DatabaseUrl, StorageUrl, parse_database_url, parse_storage_url
from foundation.values import HostPort


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("kvstore://store", StorageUrl("server", False, (HostPort("store", 6379),))),
        ("redis://store:7000/3", StorageUrl("server", False, (HostPort("store", 7000),), database=3)),
        ("kvstores://[::1]:7000/", StorageUrl("server", True, (HostPort("::1", 7000),))),
        ("rediss://ann:p%40ss@Store.Example", StorageUrl("server", True, (HostPort("store.example", 6379),), "ann", "p@ss")),
        ("kvstore://:secret@store", StorageUrl("server", False, (HostPort("store", 6379),), None, "secret")),
        ("kvstore://secret@store", StorageUrl("server", False, (HostPort("store", 6379),), None, "secret")),
        ("kvstores+cluster://a,b:7001", StorageUrl("cluster", True, (HostPort("a", 6379), HostPort("b", 7001)))),
        (
            "redis+sentinel://a,b:7001/gate/2",
            StorageUrl("sentinel", False, (HostPort("a", 26379), HostPort("b", 7001)), None, None, 2, "gate"),
        ),
    ],
)
def test_an_address_means(written: str, meant: StorageUrl) -> None:
    assert parse_storage_url(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "http://hunter2@store",
        "kvstore:hunter2",
        "kvstore://",
        "kvstore://hunter2@a,b",
        "kvstore://hunter2@store:0",
        "kvstore://hunter2@store:70000",
        "kvstore://hunter2@store/one",
        "kvstore://hunter2@store/0/1",
        "kvstore://hunter2@store/?db=1",
        "kvstore+sentinel://hunter2@store",
        "kvstore+cluster://hunter2@store/1",
        "kvstore+other://hunter2@store",
        "kvstore://hunter2@st ore",
        7,
    ],
)
def test_malformed_address_is_refused_without_disclosing_it(written: object) -> None:
    with pytest.raises(ValueError, match=r"must|multiple hosts|Sentinel|cluster|may contain") as raised:
        parse_storage_url(written)
    assert "hunter2" not in str(raised.value)


def test_password_is_not_displayed() -> None:
    assert "hunter2" not in repr(parse_storage_url("kvstore://ann:hunter2@store")) + repr(
        parse_database_url("postgres://ann:hunter2@db/gate")
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("postgres://db/gate", DatabaseUrl("postgresql", "gate", (HostPort("db", 5432),))),
        ("postgresql:///gate", DatabaseUrl("postgresql", "gate")),
        ("postgresql://ann@a,b:6000/g%20ate", DatabaseUrl("postgresql", "g ate", (HostPort("a", 5432), HostPort("b", 6000)), "ann")),
        (
            "postgresql://ann:p%2Fss@db/gate?sslmode=verify-full&sslrootcert=/ca.pem",
            DatabaseUrl(
                "postgresql", "gate", (HostPort("db", 5432),), "ann", "p/ss", (("sslmode", "verify-full"), ("sslrootcert", "/ca.pem"))
            ),
        ),
    ],
)
def test_a_database_means(written: str, meant: DatabaseUrl) -> None:
    assert parse_database_url(written) == meant


@pytest.mark.parametrize(
    "written", ["mysql://hunter2@db/x", "postgres://hunter2@db", "postgres://db/x?passfile=hunter2", "postgres://a:hunter2@b:0/x"]
)
def test_another_database_is_refused_without_showing_it(written: str) -> None:
    with pytest.raises(ValueError, match=r"must|option") as raised:
        parse_database_url(written)
    assert "hunter2" not in str(raised.value)
