"""Clock skew for child processes: Debian's faketime, for the wall clock only."""

from pathlib import Path


def skewed_clock(difference: str) -> dict[str, str]:
    """Return the environment for an offset such as `+1d` or `-1d`. The monotonic clock (timeouts, leases) is unaffected."""
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    return {"LD_PRELOAD": str(library), "FAKETIME": difference, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
