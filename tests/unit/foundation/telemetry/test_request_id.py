from foundation.telemetry.request_id import new_request_id


def test_ids_are_32_hex_digits_and_never_repeat() -> None:
    ids = {new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(request_id) == 32 and int(request_id, 16) >= 0 for request_id in ids)
