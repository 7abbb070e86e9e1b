from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Record(_message.Message):
    __slots__ = ("type", "id", "data", "version", "modified", "expires")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    data: bytes
    version: int
    modified: float
    expires: float
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ..., data: _Optional[bytes] = ..., version: _Optional[int] = ..., modified: _Optional[float] = ..., expires: _Optional[float] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: Record
    def __init__(self, record: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class SetRequest(_message.Message):
    __slots__ = ("type", "id", "data", "expires", "only_if_version")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    data: bytes
    expires: float
    only_if_version: int
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ..., data: _Optional[bytes] = ..., expires: _Optional[float] = ..., only_if_version: _Optional[int] = ...) -> None: ...

class SetResponse(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: Record
    def __init__(self, record: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("type", "id")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    type: str
    id: str
    def __init__(self, type: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ("existed",)
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    def __init__(self, existed: _Optional[bool] = ...) -> None: ...

class GetAllRequest(_message.Message):
    __slots__ = ("type", "page_token", "limit")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    type: str
    page_token: str
    limit: int
    def __init__(self, type: _Optional[str] = ..., page_token: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetAllResponse(_message.Message):
    __slots__ = ("records", "next_page_token")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    next_page_token: str
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("server_version", "record_version", "without_data")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    RECORD_VERSION_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_DATA_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    record_version: int
    without_data: bool
    def __init__(self, server_version: _Optional[str] = ..., record_version: _Optional[int] = ..., without_data: _Optional[bool] = ...) -> None: ...

class SyncResponse(_message.Message):
    __slots__ = ("server_version", "start_over", "record_version", "changes")
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    START_OVER_FIELD_NUMBER: _ClassVar[int]
    RECORD_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    start_over: bool
    record_version: int
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    def __init__(self, server_version: _Optional[str] = ..., start_over: _Optional[bool] = ..., record_version: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("version", "type", "id", "record")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    version: int
    type: str
    id: str
    record: Record
    def __init__(self, version: _Optional[int] = ..., type: _Optional[str] = ..., id: _Optional[str] = ..., record: _Optional[_Union[Record, _Mapping]] = ...) -> None: ...

class GetServerVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerVersionResponse(_message.Message):
    __slots__ = ("server_version",)
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    def __init__(self, server_version: _Optional[str] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("name", "token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    token: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class AcquireLeaseRequest(_message.Message):
    __slots__ = ("name", "ttl")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    name: str
    ttl: float
    def __init__(self, name: _Optional[str] = ..., ttl: _Optional[float] = ...) -> None: ...

class AcquireLeaseResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("lease", "ttl")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    ttl: float
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ..., ttl: _Optional[float] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("is_held",)
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    is_held: bool
    def __init__(self, is_held: _Optional[bool] = ...) -> None: ...

class ReleaseLeaseRequest(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class ReleaseLeaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
