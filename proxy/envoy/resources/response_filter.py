"""Response filter in Envoy: rewrites response headers like `ResponseHeaderRules.filter`, and replaces missing responses by error pages."""

from dataclasses import dataclass
from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import EXT_AUTHZ, TYPE, Json
from proxy.envoy.resources.internal_headers import (
    ERROR_PAGE_PATH,
    LOCAL_REPLY_REASON,
    MAY_STREAM,
    NOT_STREAMING_PATH,
    RESPONSE_RULES,
    SCRIPT,
    STREAM_ID,
    TOKEN,
)
from proxy.envoy.resources.lua_scripts import FINALIZE_FILTER, LUA, per_route, quoted, render_script
from proxy.listener.http1.request_head import RequestRejected
from proxy.rewriting.reserved_headers import HOP_BY_HOP

FILTER = "gate-answers"
# Namespace of the metadata from gate's check response.
METADATA = "envoy.filters.http.ext_authz"
_SCRIPT = Path(__file__).with_name("response_filter.lua")
# Hop-by-hop headers that Envoy sets itself.
_CONNECTION_HEADERS = frozenset((b"connection", b"keep-alive", b"upgrade", b"transfer-encoding"))


def has_metadata(name: str) -> Json:
    """Return the log filter of requests with this metadata."""
    return {
        "metadata_filter": {
            "matcher": {"filter": METADATA, "path": [{"key": name}], "value": {"present_match": True}},
            "match_if_key_not_found": False,
        }
    }


def lacks_metadata(name: str) -> Json:
    """Return the log filter of requests without this metadata. gate sets no empty value, and Envoy (1.40) ignores `invert` here."""
    matcher = has_metadata(name)["metadata_filter"]["matcher"]
    return {"metadata_filter": {"matcher": {**matcher, "value": {"string_match": {"exact": ""}}}, "match_if_key_not_found": True}}


# Requests that Envoy forwards to an upstream; gate logs the others itself.
PROXIED_REQUESTS = has_metadata(STREAM_ID)


@dataclass(frozen=True, slots=True)
class ResponseFilter:
    """Response filter. `token` authenticates its calls to gate."""

    token: str
    cookie_name: str
    response_headers: tuple[tuple[str, str], ...]

    @classmethod
    def from_options(cls, options: Options, token: str) -> "ResponseFilter":
        return cls(token, options.cookie_name, tuple(options.headers.items()))

    def filters(self) -> list[Json]:
        """Return the filter, which follows ext_authz, and the one for trailers, which removes all request trailers."""
        trailers = {
            "@type": f"{TYPE}extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {
                "request_trailers_mutations": [{"remove_on_match": {"key_matcher": {"safe_regex": {"regex": ".*"}}}}],
                "response_trailers_mutations": [{"remove": name.decode()} for name in sorted({b"set-cookie", *HOP_BY_HOP})],
            },
        }
        return [{"name": FILTER, "typed_config": _skip_if_clean({"@type": LUA})}, {"name": "gate-trailers", "typed_config": trailers}]

    def route(self, route: Json, *, reports_non_streams: bool = False, applies_route_rules: bool = False) -> Json:
        """Return an upstream route with the response script.

        `reports_non_streams`: the script reports responses that are no stream. `applies_route_rules`: it applies gate's rules.
        """
        names = {
            "LOCAL_REPLY_REASON": LOCAL_REPLY_REASON,
            "METADATA": METADATA,
            "STREAM_ID": STREAM_ID,
            "MAY_STREAM": MAY_STREAM,
            "EXT_AUTHZ": EXT_AUTHZ,
        }
        calls = {
            "TOKEN": TOKEN,
            "PROOF": self.token,
            "SCRIPT": SCRIPT,
            "ERROR_PAGE_PATH": ERROR_PAGE_PATH,
            "NOT_STREAMING_PATH": NOT_STREAMING_PATH,
        }
        kind = {
            "REPORTS_NON_STREAMS": str(reports_non_streams).lower(),
            "APPLIES_ROUTE_RULES": str(applies_route_rules).lower(),
            "RESPONSE_RULES": RESPONSE_RULES,
        }
        added = ", ".join(f"[{quoted(name.lower())}] = true" for name, _ in (*self.response_headers, ("alt-svc", "")))
        source = render_script(_SCRIPT, {**names, **calls, **kind, "COOKIE_NAME": quoted(self.cookie_name.lower()), "ADDED": added})
        filters = (
            {FINALIZE_FILTER: per_route(source), FILTER: per_route("")}
            if reports_non_streams or applies_route_rules
            else {FILTER: per_route(source)}
        )
        return {
            **route,
            "typed_per_filter_config": {**route.get("typed_per_filter_config", {}), **filters},
            "response_headers_to_remove": sorted(name.decode() for name in HOP_BY_HOP - _CONNECTION_HEADERS),
            "response_headers_to_add": [
                {"header": {"key": name, "value": value.replace("%", "%%")}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
                for name, value in self.response_headers
            ],
        }


def _skip_if_clean(filter_config: Json) -> Json:
    """Return the filter, skipped for responses that need no change, which are most, because a script is expensive."""
    plain = [
        _header_matches(":status", {"safe_regex": {"google_re2": {}, "regex": "[2-5][0-9][0-9]"}}),
        _header_absent(LOCAL_REPLY_REASON),
        _header_absent("set-cookie"),
        {
            "or_matcher": {
                "predicate": [
                    _header_absent("connection"),
                    *(_header_matches("connection", {"exact": state}) for state in ("keep-alive", "close")),
                ]
            }
        },
    ]
    skip = {"name": "skip", "typed_config": {"@type": f"{TYPE}extensions.filters.common.matcher.action.v3.SkipFilter"}}
    matchers = [{"predicate": {"and_matcher": {"predicate": plain}}, "on_match": {"action": skip}}]
    return {
        "@type": f"{TYPE}extensions.common.matching.v3.ExtensionWithMatcher",
        "xds_matcher": {"matcher_list": {"matchers": matchers}},
        "extension_config": {"name": FILTER, "typed_config": filter_config},
    }


def _header_matches(name: str, value: Json) -> Json:
    header = {"@type": f"{TYPE}type.matcher.v3.HttpResponseHeaderMatchInput", "header_name": name}
    return {"single_predicate": {"input": {"name": name, "typed_config": header}, "value_match": value}}


def _header_absent(name: str) -> Json:
    return {"not_matcher": _header_matches(name, {"safe_regex": {"google_re2": {}, "regex": "(?s).*"}})}


def body_timeout_reply() -> Json:
    """Return the mapper of the response to an idle request body, with the text of gate's listener."""
    rejection = RequestRejected(408, "The request body took too long.")
    is_body_timeout: Json = {"comparison": {"op": "EQ", "value": {"default_value": rejection.status, "runtime_key": "gate.none"}}}
    text = {"text_format_source": {"inline_string": rejection.body.decode()}, "content_type": "text/plain; charset=utf-8"}
    return {
        "filter": {"and_filter": {"filters": [PROXIED_REQUESTS, {"status_code_filter": is_body_timeout}]}},
        "body_format_override": text,
    }


def mark_local_replies() -> Json:
    """Return the mapper that marks local replies with their reason, for the response script.

    The stream id proves that the header is Envoy's. If an application could set it, its response would be replaced, and the rest of it
    could be parsed as the response to another request.
    """
    value = f"%DYNAMIC_METADATA({METADATA}:{STREAM_ID})% %RESPONSE_CODE_DETAILS%"
    return {"filter": PROXIED_REQUESTS, "headers_to_add": [{"header": {"key": LOCAL_REPLY_REASON, "value": value}}]}
