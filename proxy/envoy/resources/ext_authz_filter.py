"""Envoy's ext_authz filter, and the routes of authorized requests.

Only requests with gate's secret have a route to an upstream, so an error here or in a script forwards nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import EXT_AUTHZ, GATE, TYPE, Json, file_log
from proxy.envoy.resources.internal_headers import (
    AUTHORIZED,
    BODY_UNDECLARED,
    BUFFER_BODY,
    CLUSTER,
    HOST,
    INTERNAL_HEADERS,
    MAY_STREAM,
    NO_CLUSTER,
    PATH,
    RESPONSE_RULES,
    STREAM_ID,
    TOKEN,
)
from proxy.envoy.resources.lua_scripts import FINALIZE_FILTER, LUA, per_route, render_script
from proxy.envoy.resources.response_filter import METADATA, PROXIED_REQUESTS, ResponseFilter, has_metadata

# Timeout of a check; gate's own timeouts are much shorter.
CHECK_TIMEOUT_SECONDS = 15
FILTER = "gate-judge"
_FINALIZE = Path(__file__).with_name("finalize.lua")
# Client headers that would frame the check itself, and one that Envoy replaces; internal headers contain them.
_NOT_FORWARDED = ("connection", "upgrade", "transfer-encoding", "x-forwarded-proto")
# Name prefixes of the check response's own headers, whose framing must not replace that of the client's body.
# Envoy rejects a much longer expression.
_RESPONSE_FRAMING = (":", "content-le")
# Fields without blanks: the stream id in gate's response and in the request, then Envoy's results.
_LOG_FORMAT = (
    f"%DYNAMIC_METADATA({METADATA}:{STREAM_ID})% %REQ({STREAM_ID})% %RESPONSE_CODE% %DURATION% %BYTES_SENT% %BYTES_RECEIVED%"
    " %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%\n"
)
# Set by Envoy, depending on the client's network.
_ENVOY_HEADERS = ("x-envoy-external-address", "x-envoy-internal", "x-envoy-expected-rq-timeout-ms", "x-envoy-upstream-service-time")


# enforcement-point: Authorization: Envoy requires a decision for each request
@dataclass(frozen=True, slots=True)
class ExtAuthzFilter:
    """ext_authz filter. `token` authenticates Envoy to gate; `secret` proves to Envoy that gate has authorized a request.

    `log` is the path of Envoy's access log.
    """

    token: str
    secret: str
    log: str
    response_filter: ResponseFilter

    @classmethod
    def from_options(cls, options: Options, token: str, secret: str, log: str) -> "ExtAuthzFilter":
        return cls(token, secret, log, ResponseFilter.from_options(options, token))

    def access_log(self) -> Json:
        """Return the access log of forwarded requests, and of those that completed before gate's response."""
        no_response = {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 0, "runtime_key": "gate.unanswered"}}}}
        unanswered = {"response_flag_filter": {"flags": ["UAEX"]}}
        return file_log(self.log, f"{LOG_REQUEST}{_LOG_FORMAT}", {"or_filter": {"filters": [PROXIED_REQUESTS, no_response, unanswered]}})

    def upload_log(self) -> Json:
        """Return the periodic log of how much of each buffered body has arrived, and whether it is complete."""
        line = f"{LOG_UPLOAD}%DYNAMIC_METADATA({METADATA}:{STREAM_ID})% %BYTES_RECEIVED% %REQUEST_DURATION%\n"
        return file_log(self.log, line, has_metadata(BUFFER_BODY), is_periodic=True)

    def filters(self) -> list[Json]:
        source = render_script(
            _FINALIZE,
            {"BODY_UNDECLARED": BODY_UNDECLARED, "BUFFER_BODY": BUFFER_BODY, "PATH": PATH, "AUTHORIZED": AUTHORIZED, "SECRET": self.secret},
        )
        finalize = {"@type": LUA, "default_source_code": {"inline_string": source}}
        check = {"name": FILTER, "typed_config": _ext_authz(self.token)}
        return [check, {"name": FINALIZE_FILTER, "typed_config": finalize}, *self.response_filter.filters()]

    def routes(self, idle: str, read: str) -> list[Json]:
        """Return the routes of authorized requests, and those that deny all others.

        They differ in the idle timeout. gate enforces it for requests that it handles itself, such as WebSockets, and for possible
        streams. For all others Envoy enforces it, so that a client that does not read cannot hold an upstream. The timeout of an
        incomplete body is `read`.
        """
        to_upstreams = [
            self.response_filter.route(
                self._upstream_route([*streams, *rules], idle_timeout, idle),
                reports_non_streams=bool(streams),
                applies_route_rules=bool(rules),
            )
            for streams, idle_timeout in (([_has(MAY_STREAM)], "0s"), ([], idle))
            for rules in ([_has(RESPONSE_RULES)], [])
        ]
        return [_small_body_route(read, idle), _unauthorized_route(), *self._gate_routes(idle), *to_upstreams, *_deny_routes()]

    def _upstream_route(self, has: list[Json], idle_timeout: str, flush: str) -> Json:
        host = f"%DYNAMIC_METADATA({METADATA}:{HOST})%"
        action = {"cluster_header": CLUSTER, "timeout": "0s", "idle_timeout": idle_timeout, "flush_timeout": flush, "host_rewrite": host}
        return {
            "match": {"prefix": "/", "headers": [self._has_secret(), *has]},
            "route": action,
            "request_headers_to_remove": [*INTERNAL_HEADERS, *_ENVOY_HEADERS],
            "typed_per_filter_config": {FINALIZE_FILTER: per_route("")},
        }

    def _gate_routes(self, flush: str) -> list[Json]:
        """Return the routes to gate's internal listener. Upgrades and CONNECT go there without a check.

        Not every target is a path: gate rejects `*` of OPTIONS. CONNECT has no path; gate authorizes and dials it.
        """
        unchecked = {"@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute", "disabled": True}
        authorized: Json = {"headers": [self._has_secret(), {"name": CLUSTER, "string_match": {"exact": GATE}}]}
        upgrade: Json = {"headers": [_has("upgrade")]}
        targets: tuple[Json, ...] = ({"prefix": "/"}, {"safe_regex": {"regex": ".*"}})
        matches: list[tuple[Json, Json]] = [({**target, **authorized}, {}) for target in targets]
        matches += [({**target, **upgrade}, {FILTER: unchecked}) for target in targets]
        matches.append(({"connect_matcher": {}}, {FILTER: unchecked}))
        return [
            {
                "match": match,
                "route": {"cluster": GATE, "timeout": "0s", "idle_timeout": "0s", "flush_timeout": flush},
                "request_headers_to_add": [
                    {"header": {"key": AUTHORIZED, "value": self.secret}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
                ],
                "typed_per_filter_config": {FINALIZE_FILTER: per_route(""), **more},
            }
            for match, more in matches
        ]

    def _has_secret(self) -> Json:
        return {"name": AUTHORIZED, "string_match": {"exact": self.secret}}


# Headers that no request has before it is authorized.
_UNAUTHORIZED = (AUTHORIZED, BODY_UNDECLARED, "upgrade")


def _unauthorized_route() -> Json:
    """Return the route of nearly every request before the check, which denies. It is first because Envoy matches routes in order."""
    return {"match": {"prefix": "/", "headers": _lacks(*_UNAUTHORIZED)}, "direct_response": {"status": 503}}


def _small_body_route(read: str, flush: str) -> Json:
    """Return the route of a request with a small body before the check; it goes nowhere, and sets the body's idle timeout.

    It must match before gate responds, because Envoy restarts the idle timer only when data arrives.
    """
    small_length = {"name": "content-length", "string_match": {"safe_regex": {"regex": "[1-9][0-9]{0,4}"}}}
    action = {"cluster_header": NO_CLUSTER, "timeout": "0s", "idle_timeout": read, "flush_timeout": flush}
    return {"match": {"prefix": "/", "headers": [small_length, *_lacks(*_UNAUTHORIZED)]}, "route": action}


def _deny_routes() -> list[Json]:
    """Return the routes of requests that are not authorized."""
    anything: Json = {"safe_regex": {"regex": ".*"}}
    return [
        {"match": {**anything, "headers": [_has(BODY_UNDECLARED)]}, "direct_response": {"status": LENGTH_REQUIRED}},
        {"match": anything, "direct_response": {"status": 503}},
    ]


def _has(name: str) -> Json:
    return {"name": name, "present_match": True}


def _lacks(*names: str) -> list[Json]:
    return [{**_has(name), "invert_match": True} for name in names]


# Response to a body without a declared length (RFC 9110 15.5.12).
LENGTH_REQUIRED = 411
LOG_REQUEST, LOG_UPLOAD = "judged ", "uploaded "


def _ext_authz(token: str) -> Json:
    return {
        "@type": f"{TYPE}extensions.filters.http.ext_authz.v3.ExtAuthz",
        "transport_api_version": "V3",
        # Fail closed.
        "failure_mode_allow": False,
        "status_on_error": {"code": "ServiceUnavailable"},
        # The check response determines the route.
        "clear_route_cache": True,
        "allowed_headers": {"patterns": [{"safe_regex": {"regex": ".*"}}]},
        "disallowed_headers": {"patterns": [*({"exact": name} for name in _NOT_FORWARDED), {"prefix": "x-envoy-"}]},
        "http_service": {
            "server_uri": {"uri": "http://gate", "cluster": EXT_AUTHZ, "timeout": f"{CHECK_TIMEOUT_SECONDS}s"},
            "authorization_request": {"headers_to_add": [{"key": TOKEN, "value": token}]},
            "authorization_response": {
                "allowed_upstream_headers": {"patterns": [{"safe_regex": {"regex": not_starting_with(_RESPONSE_FRAMING)}}]},
                "dynamic_metadata_from_headers": {
                    "patterns": [{"exact": name} for name in (STREAM_ID, HOST, MAY_STREAM, RESPONSE_RULES, BUFFER_BODY)]
                },
            },
        },
    }


def not_starting_with(prefixes: Iterable[str]) -> str:
    """Return a regular expression (RE2) for strings without any of these prefixes, whose first letters must differ."""
    prefixes = list(prefixes)
    options = [f"[^{''.join(each[0] for each in prefixes)}].*"]
    options += [f"{each[:length]}(?:[^{each[length]}].*)?" for each in prefixes for length in range(1, len(each))]
    return "|".join(options)
