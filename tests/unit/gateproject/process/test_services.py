import pytest

from gateproject.process.services import require_service


def test_missing_part_cannot_be_called() -> None:
    assert require_service(0) == 0
    with pytest.raises(RuntimeError, match="in this process"):
        require_service(None)
