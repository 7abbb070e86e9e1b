import pytest

from gateproject.process.services import served


def test_a_part_that_is_not_there_can_not_be_asked() -> None:
    assert served(0) == 0
    with pytest.raises(RuntimeError, match="in this process"):
        served(None)
