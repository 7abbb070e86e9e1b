"""Envoy's part of grants: the filter that carries again what was judged, the route on which the judge is not asked, and the cuts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.options import Options
from foundation.crypto import cookies
from proxy.envoy.bootstrap import TYPE, Json
from proxy.envoy.grants import cookies as plain_cookies
from proxy.envoy.grants.access_log import OF_GRANTS, access_log
from proxy.envoy.grants.cookies import CookieNames
from proxy.envoy.grants.eligibility import LONGEST_TARGET, OWN_WORDS
from proxy.envoy.grants.table import GrantTable
from proxy.envoy.listener import CARRIED, CLIENT_CONNECTION, CLIENT_PROTO
from proxy.listener.limits import HEADERS_BYTES
from proxy.rewriting.header_names import HOP_BY_HOP

_HERE = Path(__file__).parent
_LUA = f"{TYPE}extensions.filters.http.lua.v3.Lua"
CLEAN = "gate-clean"
# Read grants and Cookie headers that one worker keeps for the next request.
_MOST_READ = 4096
_MOST_HEADERS = 64
# By what Envoy says of a response (%RESPONSE_FLAGS%): what came instead of an answer, or too late.
_NO_ANSWER = {502: ("UF", "UC", "UH", "UPE", "UR", "LR", "NC"), 504: ("UT",)}
_PLACEHOLDER = re.compile(r"\$([A-Z][A-Z_]*)\b")
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"upgrade", b"transfer-encoding"))


@dataclass(frozen=True, slots=True)
class GrantFilter:
    """Filter of grants.  `secret` marks requests that it carries; whoever knew it would not be judged."""

    table: GrantTable
    log_fd: int  # where Envoy tells of what it carried
    secret: str
    names: CookieNames
    response_headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, table: GrantTable, log_fd: int, secret: str, options: Options) -> "GrantFilter":
        companion = cookies.host_name(options.cookie_name, secure=options.cookie_secure)
        names = CookieNames(options.cookie_name.encode(), b"" if companion == options.cookie_name else companion.encode())
        return cls(table, log_fd, secret, names, tuple(options.headers.items()))

    def manager(self) -> Json:
        """Answers of Envoy's own to what it carried by a grant, where an application gives none; else the page is gate's."""
        return {"local_reply_config": {"mappers": [_own_answer(status, flags) for status, flags in _NO_ANSWER.items()]}}

    def access_log(self) -> Json:
        return access_log(self.log_fd)

    def filters(self) -> list[Json]:
        """Filters that stand in front of the judge's."""
        return [
            {"name": "gate-grants", "typed_config": {"@type": _LUA, "default_source_code": {"inline_string": self._carried()}}},
            {"name": CLEAN, "typed_config": {"@type": _LUA}},
        ]

    def route(self, route: Json, judge: str) -> Json:
        """Route for what is carried by a grant, of one that asks the filter named `judge`; goes before it."""
        clean = {"@type": f"{TYPE}extensions.filters.http.lua.v3.LuaPerRoute", "source_code": {"inline_string": self._clean()}}
        unasked = {"@type": f"{TYPE}extensions.filters.http.ext_proc.v3.ExtProcPerRoute", "disabled": True}
        marked = {"name": CARRIED, "string_match": {"exact": self.secret}}
        return {
            **route,
            "match": {"prefix": "/", "headers": [marked]},
            "typed_per_filter_config": {judge: unasked, CLEAN: clean},
            "response_headers_to_remove": sorted(name.decode() for name in HOP_BY_HOP - _OF_CONNECTIONS),
            "response_headers_to_add": [
                {"header": {"key": name, "value": value.replace("%", "%%")}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
                for name, value in self.response_headers
            ],
        }

    def _carried(self) -> str:
        words = ", ".join(f"[{_quoted(word)}] = true" for word in sorted(OWN_WORDS))
        return _script(
            "carried.lua",
            {
                **self.table.layout(),
                "MOST_READ": _MOST_READ,
                "MOST_HEADERS": _MOST_HEADERS,
                "MOST_HEADER_BYTES": HEADERS_BYTES // 2,
                "MOST_TARGET": LONGEST_TARGET,
                "MOST_COOKIE": plain_cookies.LONGEST,
                "SESSION_NAME": _quoted(self.names.session.decode()),
                "COMPANION_NAME": _quoted(self.names.companion.decode()),
                "COMPANION_MISSING": "nil" if self.names.companion else '""',
                "OWN_NAME": _quoted(self.names.session.decode().lower()),
                "BASE_NAME": _quoted(self.names.base.decode()),
                "OWN_WORDS": words,
                "CLIENT_PROTO": CLIENT_PROTO,
                "CLIENT_CONNECTION": CLIENT_CONNECTION,
                "CARRIED": CARRIED,
                "SECRET": self.secret,
            },
        )

    def _clean(self) -> str:
        return _script("clean.lua", {"COOKIE_NAME": _quoted(self.names.session.decode().lower())})


def _own_answer(status: int, flags: Sequence[str]) -> Json:
    text = f"{status}: the application does not answer. Request id: %REQ(X-REQUEST-ID)%\n"
    return {
        "filter": {"and_filter": {"filters": [OF_GRANTS, {"response_flag_filter": {"flags": list(flags)}}]}},
        "status_code": status,
        "body_format_override": {"text_format_source": {"inline_string": text}, "content_type": "text/plain; charset=utf-8"},
    }


def cut_listener(path: Path, port: int) -> Json:
    """Listener by which gate has connections cut: a socket that only this user reaches.  `port` is that which clients reach."""
    script = _script("cut.lua", {"PORT": _quoted_bytes(port.to_bytes(2, "big"))})
    manager: Json = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "cuts",
        "http_filters": [
            {"name": "cuts", "typed_config": {"@type": _LUA, "default_source_code": {"inline_string": script}}},
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPE}extensions.filters.http.router.v3.Router"}},
        ],
        "route_config": {"virtual_hosts": [{"name": "cuts", "domains": ["*"], "routes": [_NOTHING]}]},
    }
    return {
        "name": "cuts",
        "address": {"pipe": {"path": str(path), "mode": 0o600}},
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "per_connection_buffer_limit_bytes": 4 * 1024 * 1024,
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }


_NOTHING: Json = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}


def _script(name: str, values: Mapping[str, Any]) -> str:
    return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), (_HERE / name).read_text())


def _quoted(text: str) -> str:
    return _quoted_bytes(text.encode())


def _quoted_bytes(text: bytes) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in text) + '"'
