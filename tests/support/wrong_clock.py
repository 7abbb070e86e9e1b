"""The environment of a child whose clock is wrong: Debian's faketime, for the time of day alone."""

from pathlib import Path


def wrong_clock(difference: str) -> dict[str, str]:
    """`+1d`, `-1d`.  What counts seconds (timeouts, leases) is left alone."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    return {"LD_PRELOAD": str(library), "FAKETIME": difference, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
