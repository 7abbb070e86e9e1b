"""Tracer of calls, for a process that imports this before all else: SIGUSR1 begins, SIGUSR2 ends and writes what was called.

What counts are functions of the product, on the main thread.  bench/path_of_a_request.py starts such a process, and reads the lines.
"""

import inspect
import json
import os
import signal
import sys
from pathlib import Path
from types import CodeType, FrameType

ROOT = f"{Path(__file__).parents[2]}/"
PACKAGES = ("gateproject", "proxy", "authenticate", "authorize", "databroker", "config", "foundation")

EVENT_LOOP = "_run_once"  # of asyncio: what it calls nobody else does

_calls: list[tuple[CodeType, str, bool, bool]] = []
_PAUSES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def file_of(code: CodeType) -> str:
    """Path of a product file in the tree; "" for all other code."""
    path = code.co_filename.removeprefix(ROOT)
    return path if path is not code.co_filename and path.startswith(PACKAGES) and not path.startswith(".") else ""


def _note(frame: FrameType, event: str, argument: object) -> None:
    if event != "call" or not (file := file_of(frame.f_code)):
        return
    caller, is_under_way, above = "", False, frame.f_back
    while above is not None and above.f_code.co_name != EVENT_LOOP:
        name = file_of(above.f_code)
        caller = caller or name
        is_under_way = is_under_way or name == file
        above = above.f_back
    _calls.append((frame.f_code, caller, is_under_way, not _goes_on(frame)))


def _goes_on(frame: FrameType) -> bool:
    """Whether it is a generator or a coroutine that has begun before: the argument of RESUME, where it stands now, says so."""
    code = frame.f_code
    return bool(code.co_flags & _PAUSES) and bool(code.co_code[frame.f_lasti + 1] & 3)


def _begin(*_: object) -> None:
    _calls.clear()
    sys.setprofile(_note)


def _end(*_: object) -> None:
    sys.setprofile(None)
    written = Path(os.environ["GATE_CALLS"])
    lines = [
        json.dumps([file_of(code), code.co_qualname, caller, is_under_way, is_new, _is_of_value(code)])
        for code, caller, is_under_way, is_new in _calls
    ]
    unfinished = written.with_suffix(".part")
    unfinished.write_text("\n".join(lines))
    unfinished.rename(written)


def _is_of_value(code: CodeType) -> bool:
    """Whether it makes a value, or says one of its properties."""
    if code.co_name == "__init__":
        return True
    module = next((each for each in list(sys.modules.values()) if getattr(each, "__file__", None) == code.co_filename), None)
    holder: object = module
    for name in code.co_qualname.split("."):
        holder = vars(holder).get(name) if hasattr(holder, "__dict__") else None
    return isinstance(holder, property)


signal.signal(signal.SIGUSR1, _begin)
signal.signal(signal.SIGUSR2, _end)
