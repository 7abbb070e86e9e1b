import re

from foundation.version import RELEASE, version


def test_the_version_is_the_release_and_the_commit() -> None:
    assert re.fullmatch(rf"v{re.escape(RELEASE)}(\+[0-9a-f]{{12}})?", version())
