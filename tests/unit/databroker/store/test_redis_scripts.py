"""Do all programs of the kvstore stay in one slot of a cluster, and name every key that they touch?"""

import re

from databroker.store import redis_scripts


def test_every_key_has_the_same_hash_tag() -> None:
    assert {re.search(r"\{(.*?)\}", key)[1] for key in (*redis_scripts.KEYS, redis_scripts.LEASE)} == {"gate"}


def test_no_client_builds_a_key_itself() -> None:
    programs = [text for name, text in vars(redis_scripts).items() if name.isupper() and isinstance(text, str) and "redis.call" in text]
    assert len(programs) == 13
    keys = {"meta", "records", "ids", "changes", "expiries", "news", "KEYS[1]"}
    for program in programs:
        assert set(re.findall(r"redis\.call\('(?!INFO|TIME)[A-Z]+', ([\w\[\]]+)", program)) <= keys
