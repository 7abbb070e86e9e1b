"""Mutants of a module, generated from its syntax tree: each condition never or always holds, each statement and each rule is left out.

All mutants of a module are in one instrumented copy of it, which asks at each point whether the mutant of that number is active
(points.py).  A mutant is named by the function, what is done there, and the shape of the source without its names, so that neither a
rename nor a change elsewhere gives it another name.
"""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.support.source_trees import parsed

POINTS = "__mutation_points__"  # the name under which instrumented code finds points.py, among the builtins
_GUARDING_DECORATORS = re.compile(r"\b(require_|renders_bad_request|csrf_)")
_LOGGERS = re.compile(r"^_?log(ger)?\.(debug|info|warning|error|exception)\(")
_MAX_SHAPE = 60
_MAX_SOURCE = 100


@dataclass(frozen=True, slots=True)
class Generated:
    """`key` is what it is called within its module: the function, the operator and the shape, with its ordinal where several have that."""

    number: int
    module: str
    key: str
    line: int
    source: str

    @property
    def file(self) -> str:
        return self.module.replace(".", "/") + ".py"

    @property
    def package(self) -> str:
        return self.module.rpartition(".")[0]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}    [{self.source}]"


def instrument(module: str, source: str, first: int = 1) -> tuple[ast.Module, list[Generated]]:
    """Return the module with all its mutants, which are numbered from `first` on."""
    instrumenter = _Instrumenter(module, first)
    tree = instrumenter.visit(parsed(source))
    return ast.fix_missing_locations(tree), instrumenter.mutants


class _Shape(ast.NodeTransformer):
    """An expression or statement without names and arguments."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_")

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        value = self.visit(node.value)
        return value if isinstance(value, ast.Name) else ast.Attribute(value, "_")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return ast.Call(self.visit(node.func), [], [])


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}..."


class _Instrumenter(ast.NodeTransformer):
    def __init__(self, module: str, first: int):
        self.mutants = list[Generated]()
        self._module, self._first = module, first
        self._scopes = list[str]()
        self._is_predicate = [False]
        self._seen = Counter[str]()
        self._same_as_condition = set[ast.AST]()  # statements whose omission is what a condition that never holds means

    def _number(self, operator: str, node: ast.AST) -> int:
        shape = _short(ast.unparse(ast.fix_missing_locations(_Shape().visit(deepcopy(node)))), _MAX_SHAPE)
        key = f"{'.'.join(self._scopes) or 'module'} {operator} {shape}"
        self._seen[key] += 1
        if (ordinal := self._seen[key]) > 1:
            key += f" #{ordinal}"
        number = self._first + len(self.mutants)
        source = _short(ast.unparse(node), _MAX_SOURCE)
        self.mutants.append(Generated(number, self._module, key, getattr(node, "lineno", 0), source))
        return number

    # Conditions.

    def _condition(self, node: ast.expr, *, never: bool = True, always: bool = True) -> ast.expr:
        """A condition with the mutants of itself and of its operands that differ from each other."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(node.operand, ast.BoolOp):
            return ast.UnaryOp(node.op, self._condition(node.operand, never=always, always=never))
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And)
            numbers = self._numbers(node, never=never and is_and, always=always and not is_and)
            operands = [self._condition(each, never=not is_and, always=is_and) for each in node.values]
            return _point("condition", *numbers, ast.BoolOp(node.op, operands)) if any(numbers) else ast.BoolOp(node.op, operands)
        return _point("condition", *self._numbers(node, never=never, always=always), self.visit(node))

    def _numbers(self, node: ast.expr, *, never: bool, always: bool) -> tuple[int, int]:
        return self._number("never", node) if never else 0, self._number("always", node) if always else 0

    def visit_If(self, node: ast.If) -> Any:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        node.test = self._condition(node.test)
        if not node.orelse and (len(node.body) == 1 or isinstance(node.body[-1], ast.Raise)):
            self._same_as_condition.add(node.body[-1])
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> Any:
        node.test = self._condition(node.test, always=False)  # without an end it is only stopped
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(each) for each in statements]

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return ast.IfExp(self._condition(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        node.iter = self.visit(node.iter)
        node.ifs = [self._condition(each) for each in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        node.guard = node.guard and self._condition(node.guard)
        node.body = self._block(node.body)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        """For its value: the last operand is that, whatever it is."""
        is_and = isinstance(node.op, ast.And)
        *others, last = node.values
        return ast.BoolOp(node.op, [*(self._condition(each, never=not is_and, always=is_and) for each in others), self.visit(last)])

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.body = self._condition(node.body) if _is_truth(node.body) else self.visit(node.body)
        return node

    def visit_keyword(self, node: ast.keyword) -> Any:
        node.value = self._condition(node.value) if _is_truth(node.value) else self.visit(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        if node.value is None or node in self._same_as_condition or not self._is_predicate[-1]:
            return self.generic_visit(node)
        if isinstance(node.value, ast.Constant):
            node.value = _point(
                "condition", *self._numbers(node.value, never=bool(node.value.value), always=not node.value.value), node.value
            )
        else:
            node.value = self._condition(node.value)
        return node

    # Statements.

    def visit_Expr(self, node: ast.Expr) -> Any:
        is_call = not isinstance(node.value, ast.Constant) and not _LOGGERS.match(ast.unparse(node))
        return self._statement(node) if is_call else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        return self._statement(node)

    def visit_Delete(self, node: ast.Delete) -> Any:
        return self._statement(node) if not isinstance(node.targets[0], ast.Name) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        return self._statement(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        if _is_truth(node.value):
            node.value = self._condition(node.value)
            return node
        if self._is_in_function() and self._scopes[-1] != "__init__" and isinstance(node.targets[0], (ast.Attribute, ast.Subscript)):
            return self._statement(node)
        return self._table(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return self._table(node)

    def _statement(self, node: ast.stmt) -> ast.stmt:
        if node in self._same_as_condition or not self._is_in_function():
            return self.generic_visit(node)  # type: ignore[return-value]
        number = self._number("skips", node)
        changed: Any = self.generic_visit(node)
        return ast.copy_location(ast.If(_point("is_skipped", number), [ast.Pass()], [changed]), node)

    def _table(self, node: ast.Assign | ast.AnnAssign) -> Any:
        """Rules and such in a table of the module or of a class."""
        if self._is_in_function() or not isinstance(node.value, (ast.Tuple, ast.List)):
            return self.generic_visit(node)
        node.value.elts = [self._element(each) for each in node.value.elts]
        return node

    def _element(self, node: ast.expr) -> ast.expr:
        if isinstance(node, (ast.Constant, ast.Starred, ast.Tuple, ast.JoinedStr)):
            return node
        number = self._number("lacks", node)
        return ast.Starred(
            ast.IfExp(_point("is_skipped", number), ast.Tuple([], ast.Load()), ast.Tuple([self.visit(node)], ast.Load())), ast.Load()
        )

    # Scopes.

    def _is_in_function(self) -> bool:
        return len(self._is_predicate) > 1

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self._scopes.append(node.name)
        node.body = self._block(node.body)
        self._scopes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        self._scopes.append(node.name)
        node.decorator_list = [self._decorator(each) for each in node.decorator_list]
        node.args = self.visit(node.args)
        self._is_predicate.append(isinstance(node.returns, ast.Name) and node.returns.id == "bool")
        node.body = self._block(node.body)
        self._is_predicate.pop()
        self._scopes.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def _decorator(self, node: ast.expr) -> ast.expr:
        if not _GUARDING_DECORATORS.search(ast.unparse(node)):
            return node
        identity = parsed("lambda function: function", "eval").body
        return ast.IfExp(_point("is_skipped", self._number("undecorated", node)), identity, node)


def _is_truth(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _point(name: str, *arguments: int | ast.expr) -> ast.expr:
    values = [each if isinstance(each, ast.expr) else ast.Constant(each) for each in arguments]
    return ast.Call(ast.Attribute(ast.Name(POINTS, ast.Load()), name, ast.Load()), values, [])
