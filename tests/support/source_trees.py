"""Syntax trees of source text."""

import ast
import gc
from typing import Any, Literal


def parsed(source: str, mode: Literal["exec", "eval"] = "exec") -> Any:
    """Parse as `ast.parse` does (ast.Module, or ast.Expression for "eval"), with garbage collection disabled.

    CPython before 3.11.8 has one global counter for the depth of the conversion from C. A collection during it that runs another
    conversion causes "AST constructor recursion depth mismatch" (a SystemError).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source, mode=mode)
    finally:
        if was_enabled:
            gc.enable()
