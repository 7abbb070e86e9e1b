"""Source text as a tree."""

import ast
import gc
from typing import Any, Literal


def parsed(source: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """As `ast.parse`: ast.Module, or ast.Expression for "eval"; with the collector at rest.

    CPython before 3.11.8 counts the depth of its conversion from C in one place for all: a collection in the middle of it that lets other
    code convert something leaves "AST constructor recursion depth mismatch" (a SystemError).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source, mode=mode)
    finally:
        if was_enabled:
            gc.enable()
