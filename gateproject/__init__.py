"""gate's processes: entry points, configuration reload, workers, the command line."""

import sys

if "rich" not in sys.modules:
    # structlog imports rich where it is installed, for tracebacks that gate does not use. This saves 3 MiB in each process.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
