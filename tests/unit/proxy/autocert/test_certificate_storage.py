"""Files of which each is whole, for our eyes only, and shared."""

import json
import stat
from pathlib import Path

import pytest

from proxy.autocert.certificate_storage import CertificateStorage
from proxy.listener.tls.acme_state import AcmeChallenge

CHALLENGE = AcmeChallenge("a.example.com", "http-01", "token", "token.thumbprint")


@pytest.fixture
def storage(tmp_path: Path) -> CertificateStorage:
    storage = CertificateStorage(tmp_path / "new" / "dir", "https://ca.example.com:14000/some/dir")
    storage.open()
    return storage


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_the_owner_s_only_and_so_are_their_directories(storage, tmp_path):
    storage.save_certificate("a.example.com", b"key and chain")
    storage.save_account({"key": {"kty": "EC"}})
    storage.save_attempts({"a.example.com": {}})
    storage.save_challenge(CHALLENGE)
    storage.save_staple(b"\x01" * 32, b"response")
    storage.save_trusted_ca(b"pem")
    with storage.leader_lock():
        pass
    data = [*(tmp_path / "new" / "dir").rglob("*")]
    assert {mode(path) for path in data if path.is_dir()} == {0o700}
    assert {mode(path) for path in data if path.is_file()} == {0o600}
    assert not [path.name for path in data if path.name.startswith(".")], "nothing unfinished stays"


def test_readable_key_file_is_made_private(storage):
    storage.save_certificate("a.example.com", b"x")
    (path,) = (storage.directory / "certificates").iterdir()
    path.chmod(0o644)
    assert storage.certificate("a.example.com") == b"x"
    assert mode(path) == 0o600


def test_readable_directory_is_made_private(storage):
    storage.directory.chmod(0o755)
    storage.open()
    assert mode(storage.directory) == 0o700


def test_missing_files_are_none(storage):
    assert storage.certificate("a.example.com") is None
    assert storage.staple(b"\x01" * 32) is None
    assert storage.challenge("a.example.com") is None
    assert (storage.account(), storage.attempts()) == ({}, {})


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_malformed_files_count_as_missing(storage, broken):
    for name in ("account.json", "attempts.json", "challenges/a.example.com.json"):
        (storage.directory / name).write_bytes(broken)
    assert (storage.account(), storage.attempts(), storage.challenge("a.example.com")) == ({}, {}, None)


@pytest.mark.parametrize(
    "data", [{"host": "a.example.com"}, {"host": "b.example.com", "kind": "http-01", "token": "", "key_authorization": ""}]
)
def test_challenge_of_other_shape_or_host_is_none(storage, data):
    (storage.directory / "challenges" / "a.example.com.json").write_text(json.dumps(data))
    assert storage.challenge("a.example.com") is None


def test_challenge_is_shared_until_deleted(storage, tmp_path):
    storage.save_challenge(CHALLENGE)
    other = CertificateStorage(tmp_path / "new" / "dir", "https://ca.example.com:14000/some/dir")
    assert other.challenge("a.example.com") == CHALLENGE
    storage.delete_challenge("a.example.com")
    storage.delete_challenge("a.example.com")
    assert other.challenge("a.example.com") is None
    storage.save_challenge(CHALLENGE)
    other.delete_challenges()
    assert storage.challenge("a.example.com") is None


@pytest.mark.parametrize("host", ["", ".", "..", "../account", "a/../../account", "a\0b", "A.example.com", "a" * 300, ".a", "-", "a_b"])
def test_no_name_leads_out_of_the_directory(storage, host):
    assert storage.challenge(host) is None
    with pytest.raises(ValueError, match="host name"):
        storage.certificate(host)


def test_authorities_have_separate_storage(tmp_path):
    staging, public = (CertificateStorage(tmp_path, f"https://{name}.example.com/dir") for name in ("staging", "public"))
    for each in (staging, public):
        each.open()
    staging.save_certificate("a.example.com", b"x")
    assert public.certificate("a.example.com") is None


def test_one_at_a_time_is_elected(storage, tmp_path):
    other = CertificateStorage(tmp_path / "new" / "dir", "https://ca.example.com:14000/some/dir")
    with storage.leader_lock() as first, other.leader_lock() as second:
        assert (first, second) == (True, False)
    with other.leader_lock() as second:
        assert second


def test_a_replaced_file_changes_the_stamp(storage):
    storage.save_certificate("a.example.com", b"x")
    before = storage.modification_times()
    assert storage.modification_times() == before
    other = storage.directory / "certificates" / "b.example.com.pem"
    other.write_bytes(b"")
    assert storage.modification_times() != before


def test_unusable_directory_is_an_os_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        CertificateStorage(tmp_path / "file", "https://x/").open()
