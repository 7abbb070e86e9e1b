import pytest

from gateproject.process.services import served


def test_missing_part_cannot_be_called() -> None:
    assert served(0) == 0
    with pytest.raises(RuntimeError, match="in this process"):
        served(None)
