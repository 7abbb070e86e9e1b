"""Answers of what Envoy carries: cleaned by Envoy as `ResponseHeaders.for_client` does it, and replaced by a page of gate's where an
upstream gave none."""

from dataclasses import dataclass
from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import JUDGE, TYPE, Json
from proxy.envoy.resources.internal_headers import FAILED, INSTEAD, MAY_STREAM, NO_STREAM, NUMBER, RESPONSE, SCRIPT, TOKEN
from proxy.envoy.resources.lua_scripts import LAST_STEP_FILTER, LUA, on_route, quoted, script
from proxy.listener.http1.request_head import RequestRejected
from proxy.rewriting.header_names import HOP_BY_HOP

FILTER = "gate-answers"
# Under this name Envoy keeps what gate said of a request.
METADATA = "envoy.filters.http.ext_authz"
_SCRIPT = Path(__file__).with_name("response_filter.lua")
# Which are for each connection to say; Envoy does.
_OF_CONNECTIONS = frozenset((b"connection", b"keep-alive", b"upgrade", b"transfer-encoding"))


def said_of(name: str) -> Json:
    """Filter of requests of which gate has said this."""
    return {
        "metadata_filter": {
            "matcher": {"filter": METADATA, "path": [{"key": name}], "value": {"present_match": True}},
            "match_if_key_not_found": False,
        }
    }


def not_said_of(name: str) -> Json:
    """Filter of all other requests: gate says nothing empty, and Envoy (1.40) does not look at a matcher's `invert` here."""
    matcher = said_of(name)["metadata_filter"]["matcher"]
    return {"metadata_filter": {"matcher": {**matcher, "value": {"string_match": {"exact": ""}}}, "match_if_key_not_found": True}}


# What was judged, and is carried to an upstream, as far as Envoy has heard; of others gate tells itself.
CARRIED_ONES = said_of(NUMBER)


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Filter of answers.  `token` is its proof to gate."""

    token: str
    cookie_name: str
    response_headers: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, options: Options, token: str) -> "AnswerFilter":
        return cls(token, options.cookie_name, tuple(options.headers.items()))

    def filters(self) -> list[Json]:
        """Filter that stands behind the judge's, and one for trailers: of a request's nothing goes on."""
        trailers = {
            "@type": f"{TYPE}extensions.filters.http.header_mutation.v3.HeaderMutation",
            "mutations": {
                "request_trailers_mutations": [{"remove_on_match": {"key_matcher": {"safe_regex": {"regex": ".*"}}}}],
                "response_trailers_mutations": [{"remove": name.decode()} for name in sorted({b"set-cookie", *HOP_BY_HOP})],
            },
        }
        return [{"name": FILTER, "typed_config": _where_needed({"@type": LUA})}, {"name": "gate-trailers", "typed_config": trailers}]

    def route(self, route: Json, *, watches: bool = False, has_rules: bool = False) -> Json:
        """A route to an upstream, whose answers are cleaned; `watches`: gate is told of those that are no stream; `has_rules`: gate has
        told rules for the answer."""
        names = {"FAILED": FAILED, "METADATA": METADATA, "NUMBER": NUMBER, "MAY_STREAM": MAY_STREAM, "JUDGE": JUDGE}
        said = {"TOKEN": TOKEN, "PROOF": self.token, "SCRIPT": SCRIPT, "INSTEAD": INSTEAD, "NO_STREAM": NO_STREAM}
        kind = {"WATCHES": str(watches).lower(), "HAS_RULES": str(has_rules).lower(), "RESPONSE": RESPONSE}
        added = ", ".join(f"[{quoted(name.lower())}] = true" for name, _ in (*self.response_headers, ("alt-svc", "")))
        source = script(_SCRIPT, {**names, **said, **kind, "COOKIE_NAME": quoted(self.cookie_name.lower()), "ADDED": added})
        looks = {LAST_STEP_FILTER: on_route(source), FILTER: on_route("")} if watches or has_rules else {FILTER: on_route(source)}
        return {
            **route,
            "typed_per_filter_config": {**route.get("typed_per_filter_config", {}), **looks},
            "response_headers_to_remove": sorted(name.decode() for name in HOP_BY_HOP - _OF_CONNECTIONS),
            "response_headers_to_add": [
                {"header": {"key": name, "value": value.replace("%", "%%")}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
                for name, value in self.response_headers
            ],
        }


def _where_needed(filter_config: Json) -> Json:
    """The filter, left out for answers in which there is nothing to clean or to replace: most, and a script is dear."""
    plain = [
        _answers(":status", {"safe_regex": {"google_re2": {}, "regex": "[2-5][0-9][0-9]"}}),
        _lacks(FAILED),
        _lacks("set-cookie"),
        {
            "or_matcher": {
                "predicate": [_lacks("connection"), *(_answers("connection", {"exact": state}) for state in ("keep-alive", "close"))]
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


def _answers(name: str, value: Json) -> Json:
    header = {"@type": f"{TYPE}type.matcher.v3.HttpResponseHeaderMatchInput", "header_name": name}
    return {"single_predicate": {"input": {"name": name, "typed_config": header}, "value_match": value}}


def _lacks(name: str) -> Json:
    return {"not_matcher": _answers(name, {"safe_regex": {"google_re2": {}, "regex": "(?s).*"}})}


def silences() -> Json:
    """Mapper of the answer to a client that says nothing more of its body, as our own listener would give it."""
    late = RequestRejected(408, "The request body took too long.")
    is_late: Json = {"comparison": {"op": "EQ", "value": {"default_value": late.status, "runtime_key": "gate.none"}}}
    text = {"text_format_source": {"inline_string": late.body.decode()}, "content_type": "text/plain; charset=utf-8"}
    return {"filter": {"and_filter": {"filters": [CARRIED_ONES, {"status_code_filter": is_late}]}}, "body_format_override": text}


def failures() -> Json:
    """Mapper of local replies, by which the script knows those of Envoy's own and their reason.

    The number of the request proves that it is Envoy's word: an application that could say so would have its response cut, and the rest of
    it read as the response to another request.
    """
    value = f"%DYNAMIC_METADATA({METADATA}:{NUMBER})% %RESPONSE_CODE_DETAILS%"
    return {"filter": CARRIED_ONES, "headers_to_add": [{"header": {"key": FAILED, "value": value}}]}
