"""Envoy's part of judging: the filter that asks gate, and the routes of what gate has said of a request.

There is no route to anywhere but for what gate has marked.  So an error, here or in a script, carries nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import GATE, JUDGE, TYPE, Json, file_log
from proxy.envoy.resources.internal_headers import (
    BODILESS,
    CLUSTER,
    HOST,
    JUDGED,
    MAY_STREAM,
    NOWHERE,
    NUMBER,
    OURS,
    PATH,
    RESPONSE,
    TOKEN,
    UPLOAD,
)
from proxy.envoy.resources.lua_scripts import LAST_STEP_FILTER, LUA, on_route, script
from proxy.envoy.resources.response_filter import CARRIED_ONES, METADATA, AnswerFilter, said_of

# How long gate may take for one answer to Envoy; the records' own limits end long before.
JUDGE_SECONDS = 15
FILTER = "gate-judge"
_LAST_STEP = Path(__file__).with_name("finalize.lua")
# What a question must not be framed by: the client's connection is none of its own.  What Envoy has overwritten is told otherwise.
_UNSAID = ("connection", "upgrade", "transfer-encoding", "x-forwarded-proto")
# Beginnings of the names of headers of gate's answer that are its own, not the request's: its framing would be that of the client's body.
# Envoy bears no expression that is much longer.
_OF_ANSWER = (":", "content-le")
# Each a word without blanks: the request's number as gate has repeated it, and as it was before; and what Envoy says.
_LOG_FORMAT = (
    f"%DYNAMIC_METADATA({METADATA}:{NUMBER})% %REQ({NUMBER})% %RESPONSE_CODE% %DURATION% %BYTES_SENT% %BYTES_RECEIVED% %RESPONSE_FLAGS%"
    " %RESPONSE_CODE_DETAILS%\n"
)
# Which Envoy writes itself where the client is not on the same network, or is.
_OF_ENVOY = ("x-envoy-external-address", "x-envoy-internal", "x-envoy-expected-rq-timeout-ms", "x-envoy-upstream-service-time")


# enforcement-point: Authorization: Envoy requires a decision for each request
@dataclass(frozen=True, slots=True)
class JudgeFilter:
    """Filter of the judge.  `token` proves to gate that it is this Envoy that asks, `mark` to Envoy that gate has judged.

    Envoy tells of what it carried at `log`.
    """

    token: str
    mark: str
    log: str
    answers: AnswerFilter

    @classmethod
    def of(cls, options: Options, token: str, mark: str, log: str) -> "JudgeFilter":
        return cls(token, mark, log, AnswerFilter.of(options, token))

    def access_log(self) -> Json:
        """Log of what is carried, and of what ended before Envoy had gate's answer."""
        nothing = {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 0, "runtime_key": "gate.unanswered"}}}}
        unanswered = {"response_flag_filter": {"flags": ["UAEX"]}}
        return file_log(self.log, f"{OF_JUDGED}{_LOG_FORMAT}", {"or_filter": {"filters": [CARRIED_ONES, nothing, unanswered]}})

    def upload_log(self) -> Json:
        """Log, now and then, of what has come of each body that Envoy takes, and whether that is all."""
        line = f"{OF_UPLOADS}%DYNAMIC_METADATA({METADATA}:{NUMBER})% %BYTES_RECEIVED% %REQUEST_DURATION%\n"
        return file_log(self.log, line, said_of(UPLOAD), is_periodic=True)

    def filters(self) -> list[Json]:
        source = script(_LAST_STEP, {"BODILESS": BODILESS, "UPLOAD": UPLOAD, "PATH": PATH, "JUDGED": JUDGED, "MARK": self.mark})
        last_step = {"@type": LUA, "default_source_code": {"inline_string": source}}
        asking = {"name": FILTER, "typed_config": _ext_authz(self.token)}
        return [asking, {"name": LAST_STEP_FILTER, "typed_config": last_step}, *self.answers.filters()]

    def routes(self, idle: str, read: str) -> list[Json]:
        """Routes of what was judged, and of nothing else.

        What differs is who bounds a silence: gate does, of what it carries itself (websockets among it) and of what may be a stream; of all
        else Envoy: whose client does not read holds an upstream no longer than an idle connection may stay.  Who says nothing more of a
        body is heard for `read`.
        """
        to_upstreams = [
            self.answers.route(self._to_upstream([*streams, *rules], silence, idle), watches=bool(streams), has_rules=bool(rules))
            for streams, silence in (([_has(MAY_STREAM)], "0s"), ([], idle))
            for rules in ([_has(RESPONSE)], [])
        ]
        return [_coming(read, idle), _not_yet(), *self._to_gate(idle), *to_upstreams, *_nowhere()]

    def _to_upstream(self, has: list[Json], silence: str, flush: str) -> Json:
        host = f"%DYNAMIC_METADATA({METADATA}:{HOST})%"
        way = {"cluster_header": CLUSTER, "timeout": "0s", "idle_timeout": silence, "flush_timeout": flush, "host_rewrite": host}
        return {
            "match": {"prefix": "/", "headers": [self._judged(), *has]},
            "route": way,
            "request_headers_to_remove": [*OURS, *_OF_ENVOY],
            "typed_per_filter_config": {LAST_STEP_FILTER: on_route("")},
        }

    def _to_gate(self, flush: str) -> list[Json]:
        """Routes to gate's internal listener, which is told what the request came with; nobody need be asked whether an upgrade goes there.

        Not every target is a path: `*` of OPTIONS is refused by gate.  CONNECT has none: it is for gate to let in, and to dial.
        """
        unasked = {"@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
        judged: Json = {"headers": [self._judged(), {"name": CLUSTER, "string_match": {"exact": GATE}}]}
        upgrade: Json = {"headers": [_has("upgrade")]}
        targets: tuple[Json, ...] = ({"prefix": "/"}, {"safe_regex": {"regex": ".*"}})
        ways: list[tuple[Json, Json]] = [({**target, **judged}, {}) for target in targets]
        ways += [({**target, **upgrade}, {FILTER: unasked}) for target in targets]
        ways.append(({"connect_matcher": {}}, {FILTER: unasked}))
        return [
            {
                "match": match,
                "route": {"cluster": GATE, "timeout": "0s", "idle_timeout": "0s", "flush_timeout": flush},
                "request_headers_to_add": [{"header": {"key": JUDGED, "value": self.mark}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}],
                "typed_per_filter_config": {LAST_STEP_FILTER: on_route(""), **more},
            }
            for match, more in ways
        ]

    def _judged(self) -> Json:
        return {"name": JUDGED, "string_match": {"exact": self.mark}}


# What no request has before gate has said something of it.
_UNJUDGED = (JUDGED, BODILESS, "upgrade")


def _not_yet() -> Json:
    """Route of nearly every request before it is judged, to nowhere; first, because Envoy looks at one after the other."""
    return {"match": {"prefix": "/", "headers": _lacks(*_UNJUDGED)}, "direct_response": {"status": 503}}


def _coming(read: str, flush: str) -> Json:
    """Route, to nowhere too, of what has said that it has a small body, until that is whole: so long Envoy waits for more of it.

    It is there before gate has answered: Envoy begins to measure a silence anew only when something comes.
    """
    announced = {"name": "content-length", "string_match": {"safe_regex": {"regex": "[1-9][0-9]{0,4}"}}}
    way = {"cluster_header": NOWHERE, "timeout": "0s", "idle_timeout": read, "flush_timeout": flush}
    return {"match": {"prefix": "/", "headers": [announced, *_lacks(*_UNJUDGED)]}, "route": way}


def _nowhere() -> list[Json]:
    """Routes of what nobody has judged."""
    anything: Json = {"safe_regex": {"regex": ".*"}}
    return [
        {"match": {**anything, "headers": [_has(BODILESS)]}, "direct_response": {"status": UNANNOUNCED}},
        {"match": anything, "direct_response": {"status": 503}},
    ]


def _has(name: str) -> Json:
    return {"name": name, "present_match": True}


def _lacks(*names: str) -> list[Json]:
    return [{**_has(name), "invert_match": True} for name in names]


# Of a body that was not announced: it is asked for with its length (RFC 9110 15.5.12).
UNANNOUNCED = 411
OF_JUDGED, OF_UPLOADS = "judged ", "uploaded "


def _ext_authz(token: str) -> Json:
    return {
        "@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthz",
        "transport_api_version": "V3",
        # Without gate nobody passes.
        "failure_mode_allow": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        # Only now is it known where the request goes.
        "clear_route_cache": True,
        "allowed_headers": {"patterns": [{"safe_regex": {"regex": ".*"}}]},
        "disallowed_headers": {"patterns": [*({"exact": name} for name in _UNSAID), {"prefix": "x-envoy-"}]},
        "http_service": {
            "server_uri": {"uri": "http://gate", "cluster": JUDGE, "timeout": f"{JUDGE_SECONDS}s"},
            "authorization_request": {"headers_to_add": [{"key": TOKEN, "value": token}]},
            "authorization_response": {
                "allowed_upstream_headers": {"patterns": [{"safe_regex": {"regex": none_of(_OF_ANSWER)}}]},
                "dynamic_metadata_from_headers": {"patterns": [{"exact": name} for name in (NUMBER, HOST, MAY_STREAM, RESPONSE, UPLOAD)]},
            },
        },
    }


def none_of(beginnings: Iterable[str]) -> str:
    """Regular expression (RE2) for all strings that begin with none of these, each of which begins with another letter."""
    beginnings = list(beginnings)
    options = [f"[^{''.join(each[0] for each in beginnings)}].*"]
    options += [f"{each[:length]}(?:[^{each[length]}].*)?" for each in beginnings for length in range(1, len(each))]
    return "|".join(options)
