"""API operations: each is declared once, for validation of requests and for the OpenAPI document."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_types import EmptyQuery, RequestModel, ResponseModel

Handler = Callable[[ApiCall], Awaitable[ResponseModel | None]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """Operation of the API.

    `name` is the OpenAPI operationId.  `path` is relative to the API's, and `{id}` in it matches `id_pattern`.  Without a `response`
    the status is 204.  `problems` are the error statuses in addition to those of every operation.
    """

    name: str
    method: str
    path: str
    permission: str
    summary: str
    handler: Handler = field(repr=False)
    response: type[ResponseModel] | None = None
    query: type[RequestModel] = EmptyQuery
    body: type[RequestModel] | None = None
    id_pattern: str = ""
    problems: tuple[int, ...] = ()

    @property
    def status(self) -> int:
        return 204 if self.response is None else 201 if self.name.startswith("create_") else 200

    def match_path(self, path: str) -> str | None:
        """Return the id in a path of this operation ("" if the path has none), or None if the path does not match."""
        prefix, braces, suffix = self.path.partition("{id}")
        if not braces:
            return "" if path == self.path else None
        if not (path.startswith(prefix) and path.endswith(suffix) and len(path) > len(prefix) + len(suffix)):
            return None
        id = path[len(prefix) : len(path) - len(suffix)]
        return id if re.fullmatch(self.id_pattern, id, re.ASCII) else None


def operation(
    method: str,
    path: str,
    permission: str,
    summary: str,
    *,
    query: type[RequestModel] = EmptyQuery,
    body: type[RequestModel] | None = None,
    id_pattern: str = "",
    problems: tuple[int, ...] = (),
) -> Callable[[Handler], ApiOperation]:
    """Decorate a handler as an operation: its name becomes the operation's, its return type the response."""

    def declare(handler: Handler) -> ApiOperation:
        name, response = handler.__name__, handler.__annotations__["return"]
        return ApiOperation(name, method, path, permission, summary, handler, response, query, body, id_pattern, problems)

    return declare


def match_operations(path: str, operations: Iterable[ApiOperation]) -> Iterator[tuple[ApiOperation, str]]:
    """Yield the operations of a path, each with the id in it."""
    for operation in operations:
        if (id := operation.match_path(path)) is not None:
            yield operation, id
