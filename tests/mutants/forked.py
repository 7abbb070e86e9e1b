"""A function in a forked process: its result, or nothing if it does not finish in time."""

import os
import pickle
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import Any


class Ended(Exception):
    """The process was killed, or ended without a result."""


def in_fork(function: Callable[..., Any], *arguments: Any, seconds: float) -> Any:
    receiver, sender = Pipe(duplex=False)
    if (process := os.fork()) == 0:
        os.setpgid(0, 0)
        receiver.close()
        try:
            sender.send_bytes(pickle.dumps(function(*arguments)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    sender.close()
    with suppress(PermissionError):  # it has started another program already
        os.setpgid(process, process)
    try:
        if not receiver.poll(seconds):
            raise Ended(f"not finished within {seconds:.0f} s")
        return pickle.loads(receiver.recv_bytes())
    except EOFError as error:
        raise Ended("ended without a result") from error
    finally:
        receiver.close()
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
