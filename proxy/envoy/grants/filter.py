"""Envoy's part of grants: the filter that carries again what was judged, and the route on which the judge is not asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from config.options import Options
from foundation.crypto import cookies
from foundation.web.next_steps import next_step
from proxy.envoy.grants import cookies as plain_cookies
from proxy.envoy.grants.access_log import OF_GRANTS, access_log
from proxy.envoy.grants.cookies import CookieNames
from proxy.envoy.grants.eligibility import LONGEST_TARGET, OWN_WORDS, USUAL_TIMEOUT
from proxy.envoy.grants.table import GrantTable
from proxy.envoy.resources.answers import AnswerFilter
from proxy.envoy.resources.bootstrap import TYPE, Json
from proxy.envoy.resources.edge_headers import CARRIED, CLIENT_CONNECTION, CLIENT_PROTO, CLUSTER, FACTS, NUMBER, OURS
from proxy.envoy.resources.http_connections import seconds
from proxy.envoy.resources.judge_filter import FILTER as JUDGE_FILTER
from proxy.envoy.resources.judge_filter import OF_ENVOY
from proxy.envoy.resources.scripts import LAST_STEP_FILTER, LUA, on_route, quoted, script
from proxy.listener.limits import HEADERS_BYTES

_SCRIPT = Path(__file__).with_name("carried.lua")
# Cookie headers, with the grants that were read for them, that one worker keeps for the next request.
_MOST_READ = 4096
_MOST_REMEMBERED = 512  # bytes of another text of a client's that is kept
_MOST_HEADERS = 64
# By what Envoy says of a response (%RESPONSE_FLAGS%): what came instead of an answer, or too late.
_NO_ANSWER = {502: ("UF", "UC", "UH", "UPE", "UR", "LR", "NC"), 504: ("UT",)}


@dataclass(frozen=True, slots=True)
class GrantFilter:
    """Filter of grants.  `secret` marks requests that it carries; whoever knew it would not be judged."""

    table: GrantTable
    log: str  # where Envoy tells of what it carried
    secret: str
    names: CookieNames
    answers: AnswerFilter

    @classmethod
    def of(cls, table: GrantTable, log: str, secret: str, options: Options, token: str) -> "GrantFilter":
        companion = cookies.host_name(options.cookie_name, secure=options.cookie_secure)
        names = CookieNames(options.cookie_name.encode(), b"" if companion == options.cookie_name else companion.encode())
        return cls(table, log, secret, names, AnswerFilter.of(options, token))

    def local_replies(self) -> list[Json]:
        """Answers of Envoy's own to what it carried by a grant, where an application gives none; else the page is gate's."""
        return [_own_answer(status, flags) for status, flags in _NO_ANSWER.items()]

    def access_log(self) -> Json:
        return access_log(self.log)

    def filters(self) -> list[Json]:
        """Filter that stands in front of the judge's."""
        return [{"name": "gate-grants", "typed_config": {"@type": LUA, "default_source_code": {"inline_string": self._carried()}}}]

    def route(self, idle: str) -> Json:
        """Route for what is carried by a grant; goes before all others."""
        unasked = {"@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
        marked = {"name": CARRIED, "string_match": {"exact": self.secret}}
        return self.answers.route(
            {
                "match": {"prefix": "/", "headers": [marked]},
                "route": {"cluster_header": CLUSTER, "timeout": seconds(USUAL_TIMEOUT), "idle_timeout": idle, "flush_timeout": idle},
                "request_headers_to_remove": [*OURS, *OF_ENVOY],
                "typed_per_filter_config": {JUDGE_FILTER: unasked, LAST_STEP_FILTER: on_route("")},
            }
        )

    def _carried(self) -> str:
        words = ", ".join(f"[{quoted(word)}] = true" for word in sorted(OWN_WORDS))
        return script(
            _SCRIPT,
            {
                **self.table.layout(),
                "MOST_READ": _MOST_READ,
                "MOST_REMEMBERED": _MOST_REMEMBERED,
                "MOST_HEADERS": _MOST_HEADERS,
                "MOST_HEADER_BYTES": HEADERS_BYTES // 2,
                "MOST_TARGET": LONGEST_TARGET,
                "MOST_COOKIE": plain_cookies.LONGEST,
                "SESSION_NAME": quoted(self.names.session.decode()),
                "COMPANION_NAME": quoted(self.names.companion.decode()),
                "COMPANION_MISSING": "nil" if self.names.companion else '""',
                "OWN_NAME": quoted(self.names.session.decode().lower()),
                "BASE_NAME": quoted(self.names.base.decode()),
                "OWN_WORDS": words,
                "CLIENT_CONNECTION": CLIENT_CONNECTION,
                "CARRIED": CARRIED,
                "CLIENT_PROTO": CLIENT_PROTO,
                "FACTS": FACTS,
                "NUMBER": NUMBER,
                "SECRET": self.secret,
            },
        )


def _own_answer(status: int, flags: Sequence[str]) -> Json:
    text = f"{status}: the application does not answer. {next_step(status)} Request id: %REQ(X-REQUEST-ID)%\n"
    return {
        "filter": {"and_filter": {"filters": [OF_GRANTS, {"response_flag_filter": {"flags": list(flags)}}]}},
        "status_code": status,
        "body_format_override": {"text_format_source": {"inline_string": text}, "content_type": "text/plain; charset=utf-8"},
    }
