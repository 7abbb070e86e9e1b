"""API declarations: each operation once.  Requests are validated by them, and the OpenAPI document is made of them."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_types import EmptyQuery, RequestModel, ResponseModel

Handler = Callable[[ApiCall], Awaitable[ResponseModel | None]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One operation.  `path` stands below the API's; `{id}` in it fits `id_pattern`.  Without an `answer` it is 204.

    `name` is the OpenAPI operationId; `problems` are the statuses besides those of every operation.
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
        """The id in a path of this operation, "" where it has none; None where the path is another's."""
        before, braces, behind = self.path.partition("{id}")
        if not braces:
            return "" if path == self.path else None
        if not (path.startswith(before) and path.endswith(behind) and len(path) > len(before) + len(behind)):
            return None
        id = path[len(before) : len(path) - len(behind)]
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
    """Decorator that makes an operation of a function: its name is the operation's, its return type the answer."""

    def declare(handle: Handler) -> ApiOperation:
        name, answer = handle.__name__, handle.__annotations__["return"]
        return ApiOperation(name, method, path, permission, summary, handle, answer, query, body, id_pattern, problems)

    return declare


def match_operations(path: str, operations: Iterable[ApiOperation]) -> Iterator[tuple[ApiOperation, str]]:
    """Operations of a path, each with the id that is in it."""
    for operation in operations:
        if (id := operation.match_path(path)) is not None:
            yield operation, id
