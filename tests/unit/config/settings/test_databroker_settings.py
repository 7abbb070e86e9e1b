"""Location of records and of Django's tables."""

from pathlib import Path

from config.settings.storage_url import DatabaseUrl
from tests.unit.config.conftest import Load, Problems


def test_the_database_is_a_file_below_the_data_directory(load: Load) -> None:
    options = load(data_dir="/var/lib/gate 100%#")
    assert options.database_url == DatabaseUrl("sqlite", "/var/lib/gate 100%#/gate.sqlite3")


def test_a_relative_database_starts_at_the_configuration(load: Load, tmp_path: Path) -> None:
    assert load(database_url="sqlite:///own.db").database_url.name == str(tmp_path / "own.db")
    assert load(database_url="sqlite:////srv/own%20one.db").database_url.name == "/srv/own one.db"


def test_the_database_may_be_postgresql(load: Load, problems: Problems) -> None:
    assert load(database_url="postgres://gate:hunter2@db/gate").database_url.kind == "postgresql"
    assert "hunter2" not in repr(load(database_url="postgres://gate:hunter2@db/gate"))
    assert "hunter2" not in str(problems(database_url="postgres://gate:hunter2@db"))


def test_the_kinds_of_stores(load: Load, problems: Problems) -> None:
    assert load().databroker_storage_type == "memory"
    for kind in ("kvstore", "redis"):
        url = {"databroker_storage_connection_string": "kvstore://:hunter2@store"}
        options = load(databroker_storage_type=kind, **url)
        assert options.databroker_storage_type == "kvstore"
        assert "hunter2" not in repr(options)
        assert "kvstore://host:6379/0" in problems(databroker_storage_type=kind)["databroker_storage_connection_string"]


def test_tls_settings_need_tls(problems: Problems, tmp_path: Path, pair: tuple[bytes, bytes], other_key: bytes) -> None:
    for name, content in (("cert.pem", pair[0]), ("key.pem", pair[1]), ("other.pem", other_key), ("empty.pem", b"")):
        (tmp_path / name).write_bytes(content)

    def found(scheme: str = "kvstores", **settings: object) -> dict[str, str]:
        named = {f"databroker_storage_{name}": value for name, value in settings.items()}
        return problems(databroker_storage_type="kvstore", databroker_storage_connection_string=f"{scheme}://store", **named)

    assert found(ca_file="cert.pem", cert_file="cert.pem", key_file="key.pem", tls_skip_verify=True) == {}
    assert "kvstores://" in found("kvstore", tls_skip_verify=True)["databroker_storage_tls_skip_verify"]
    assert "kvstores://" in found("kvstore", ca_file="cert.pem")["databroker_storage_ca_file"]
    assert "needs databroker_storage_key_file" in found(cert_file="cert.pem")["databroker_storage_cert_file"]
    assert "needs databroker_storage_cert_file" in found(key_file="key.pem")["databroker_storage_key_file"]
    assert list(found(cert_file="cert.pem", key_file="other.pem")) == ["databroker_storage_cert_file"]
    assert list(found(ca_file="empty.pem")) == ["databroker_storage_ca_file"]
