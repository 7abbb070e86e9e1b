"""Operations on the syntax tree of a named place: what a function, class or constant means without one of its defences.

Sources in the table are Python, compared as trees: line breaks, comments and quotes don't count.  `...` matches any expression,
alone between parentheses for any arguments, alone in a block for any block.
"""

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from tests.support.source_trees import parsed

Field = tuple[ast.AST, str, int | None]  # where a node stands: its parent, the name of the field, the index where that is a list

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NO_MEANING = {"ctx", "kind", "type_comment"}  # of fields: they differ where the meaning does not


@dataclass(frozen=True, slots=True)
class Operation:
    """`edit` changes a place where it stands and returns how often it found what it changes; `times` is how often it must."""

    source: str
    edit: Callable[[ast.AST], int]
    times: int = 1


def place_of(tree: ast.Module, where: str) -> ast.Module:
    """All that `where` names: a function, class or assigned name, dotted by the scopes around it; "" is the module itself.

    Definitions of the same name (a property and its setter) are one place.  ValueError where nothing has that name.
    """
    scopes: list[Any] = [tree]
    for name in filter(None, where.split(".")):
        scopes = [each for scope in scopes for each in _in_scope(scope) if name in _names(each)]
    if not scopes:
        raise ValueError(f"there is no {where}")
    return ast.Module(scopes, [])


def _in_scope(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            yield from _in_scope(child)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def never(condition: str, times: int = 1) -> Operation:
    """The condition does not hold: what it guards is not done, and as a part of `or` it does not count."""
    return _expression(condition, "False", times, _is_condition)


def always(condition: str, times: int = 1) -> Operation:
    """The condition holds: as a part of `and`, or behind the `if` of a comprehension, it does not count."""
    return _expression(condition, "True", times, _is_condition)


def returns(value: str) -> Operation:
    """The function does nothing but return `value`."""
    return does(f"return {value}")


def does(statements: str) -> Operation:
    """The function does these statements and no others."""

    def edit(place: ast.AST) -> int:
        functions = [each for each in ast.iter_child_nodes(place) if isinstance(each, _FUNCTIONS)]
        for function in functions:
            function.body = _statements(statements)
        return len(functions)

    return Operation(statements, edit)


def skips(statements: str, times: int = 1) -> Operation:
    """The statement, or several one after another, are not there."""
    return _statement(statements, "pass", times)


def replaced(old: str, new: str, times: int = 1) -> Operation:
    """Another expression, or other statements."""
    if _is_expression(old) and _is_expression(new):
        return _expression(old, new, times, lambda field: True)
    return _statement(old, new, times)


def passes(**arguments: str) -> Operation:
    """The one argument, or the one value under a key of a dict, of that name has another value."""
    ((name, value),) = arguments.items()

    def edit(place: ast.AST) -> int:
        found: list[Field] = [(each, "value", None) for each in ast.walk(place) if isinstance(each, ast.keyword) and each.arg == name]
        for each in ast.walk(place):
            if isinstance(each, ast.Dict):
                found += [
                    (each, "values", index) for index, key in enumerate(each.keys) if isinstance(key, ast.Constant) and key.value == name
                ]
        for field in found:
            _put(field, _expression_of(value))
        return len(found)

    return Operation(name, edit)


def lacks(element: str) -> Operation:
    """The one such element of a list, tuple, set or arguments, or the one such key of a dict (`**more`), is not there."""
    pattern = _expression_of(element.removeprefix("**"))

    def edit(place: ast.AST) -> int:
        found = [field for field in _fields(place) if _is_element(field, element) and _match(pattern, _at(field)) is not None]
        for parent, name, index in found:
            del getattr(parent, name)[index]
            if isinstance(parent, ast.Dict):
                del (parent.keys if name == "values" else parent.values)[index]
        return len(found)

    return Operation(element, edit)


def _is_element(field: Field, element: str) -> bool:
    parent, name, index = field
    if element.startswith("**"):
        return isinstance(parent, ast.Dict) and name == "values" and parent.keys[index] is None
    return name in ("elts", "args", "keys")


def omits(argument: str) -> Operation:
    """The one argument of that name, in whatever call of the place, is not given."""

    def edit(place: ast.AST) -> int:
        found = [(call, each) for call in ast.walk(place) if isinstance(call, ast.Call) for each in call.keywords if each.arg == argument]
        for call, each in found:
            call.keywords.remove(each)
        return len(found)

    return Operation(argument, edit)


def constant(value: str) -> Operation:
    """The assigned name that is the place has another value."""

    def edit(place: ast.AST) -> int:
        found = [each for each in ast.iter_child_nodes(place) if isinstance(each, (ast.Assign, ast.AnnAssign))]
        for each in found:
            each.value = _expression_of(value)
        return len(found)

    return Operation(value, edit)


def in_text(old: str | bytes, new: str | bytes) -> Operation:
    """A part of the text constants of the place: of an expression of `re`, a template, a script in another language."""

    def edit(place: ast.AST) -> int:
        texts = [each for each in ast.walk(place) if isinstance(each, ast.Constant) and isinstance(each.value, type(old))]
        count = sum(each.value.count(old) for each in texts)
        for each in texts:
            each.value = each.value.replace(old, new)
        return count

    return Operation(repr(old), edit)


def _expression(old: str, new: str, times: int, may_be: Callable[[Field], bool]) -> Operation:
    pattern = _expression_of(old)

    def edit(place: ast.AST) -> int:
        found = [(field, matched) for field in _fields(place) if may_be(field) and (matched := _match(pattern, _at(field))) is not None]
        for field, matched in found:
            _put(field, _filled(_expression_of(new), matched))
        return len(found)

    return Operation(old, edit, times)


def _statement(old: str, new: str, times: int) -> Operation:
    pattern = _statements(old)

    def edit(place: ast.AST) -> int:
        count = 0
        for block in list(_blocks(place)):
            for start in reversed(range(len(block))):
                end = start + len(pattern)
                if (matched := _match(pattern, block[start:end])) is not None:
                    block[start:end] = _filled(ast.Module(_statements(new), []), matched).body
                    count += 1
        return count

    return Operation(old, edit, times)


def _is_condition(field: Field) -> bool:
    parent, name, _ = field
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.Not)
    return name in ("test", "ifs", "guard") or isinstance(parent, (ast.BoolOp, ast.Return, ast.Lambda))


def _fields(node: ast.AST) -> Iterator[Field]:
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield node, name, index
                yield from _fields(child)


def _at(field: Field) -> Any:
    parent, name, index = field
    value = getattr(parent, name)
    return value if index is None else value[index]


def _put(field: Field, new: ast.AST) -> None:
    parent, name, index = field
    if index is None:
        setattr(parent, name, new)
    else:
        getattr(parent, name)[index] = new


def _blocks(place: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in (inner for each in ast.iter_child_nodes(place) for inner in ast.walk(each)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _match(pattern: Any, found: Any) -> list[Any] | None:
    """Expressions that `...` in the pattern matches, in order; None if the two differ."""
    if _is_anything(pattern):
        return [found]
    if isinstance(pattern, list):
        if _is_any_block(pattern):
            return [found]
        if not isinstance(found, list) or len(pattern) != len(found):
            return None
        return _match_all(pattern, found)
    if type(pattern) is not type(found):
        return None
    if not isinstance(pattern, ast.AST):
        return [] if pattern == found else None
    names = [name for name in pattern._fields if name not in _NO_MEANING]
    if _takes_anything(pattern):
        function = _match(pattern.func, found.func)
        return None if function is None else [*function, found]
    return _match_all([getattr(pattern, name, None) for name in names], [getattr(found, name, None) for name in names])


def _match_all(pattern: list[Any], found: list[Any]) -> list[Any] | None:
    each = list(map(_match, pattern, found))
    return None if None in each else [node for nodes in each for node in nodes]


def _filled(new: Any, matched: list[Any]) -> Any:
    """The new tree, where each `...` has the expression that it matched in the old pattern."""
    left = iter(deepcopy(matched))

    def fill(node: Any) -> Any:
        if _is_anything(node):
            return next(left)
        if isinstance(node, list):
            return next(left) if _is_any_block(node) else [fill(each) for each in node]
        if not isinstance(node, ast.AST):
            return node
        if _takes_anything(node):
            node.func, call = fill(node.func), next(left)
            node.args, node.keywords = call.args, call.keywords
            return node
        for name, value in ast.iter_fields(node):
            setattr(node, name, fill(value))
        return node

    return fill(new)


def _is_anything(pattern: Any) -> bool:
    return isinstance(pattern, ast.Constant) and pattern.value is ...


def _is_any_block(pattern: list[Any]) -> bool:
    return len(pattern) == 1 and isinstance(pattern[0], ast.Expr) and _is_anything(pattern[0].value)


def _takes_anything(pattern: Any) -> bool:
    return isinstance(pattern, ast.Call) and len(pattern.args) == 1 and _is_anything(pattern.args[0])


def _expression_of(source: str) -> ast.expr:
    """An expression, or `*expression` as it stands among the elements of a list or of arguments."""
    if source.startswith("*"):
        return parsed(f"[{source}]", "eval").body.elts[0]
    return parsed(source, "eval").body


def _statements(source: str) -> list[ast.stmt]:
    return parsed(dedent(source)).body


def _is_expression(source: str) -> bool:
    try:
        _expression_of(source)
    except SyntaxError:
        return False
    return True
