"""Generated mutants that no test has to notice, by module: the key of each, and why.

A mutant is here where the product does the same without it, only slower, or only in other words.  A test must notice all others.
"""

CACHE = "it spares work, and nothing else changes"
LATER = "a later check refuses the same, after more work"
OTHER_TEXT = "it is refused all the same, in other words"
TYPES = "for the type checker: the configuration has both or neither"

IGNORED: dict[str, dict[str, str]] = {
    "authorize.policy.paths.canonical": {
        "canonical_path never _() and b'/.' not in _ and (not _())": CACHE,
        "canonical_path always b'%' in _": CACHE,
        "canonical_path always '.' in _ or '%25' in _": CACHE,
        "require_canonical always _ != _": CACHE,
        "_without_dot_segments never _ == _": CACHE,
    },
    "authorize.policy.paths.interpretations": {
        "is_unambiguous always '(' in _": CACHE,
        "is_unambiguous never '%' not in _": CACHE,
        "interpretations never _()": CACHE,
        "_require_few_tokens always '//' in _": CACHE,
        "_forms always _()": CACHE,
        "_forms skips _()": LATER,
        "_forms skips _() #2": LATER,
        "_forms always '%25' in _": CACHE,
        "_forms always '%5C' in _": CACHE,
        "_forms skips _() #3": LATER,
        "_forms always _() #2": CACHE,
        "_forms always '//(' in _": CACHE,
        "_forms always '//' in _": CACHE,
        "_forms skips _() #4": LATER,
        "_strip_parameters always ';' in _": CACHE,
        "_decoded never '%25' not in _": CACHE,
        "_decoded always '%2525' in _": CACHE,
    },
    "foundation.crypto.agent_token": {"RefreshTokens.is_genuine never not _": "what has no session has no valid MAC, either"},
    "foundation.crypto.session_cookie": {
        "SessionCookies.valid_sessions never _ is not None and _ < _": CACHE,
        "SessionCookies.valid_sessions never _": CACHE,
        "SessionCookies.valid_sessions skips _()": CACHE,
        "SessionCookies._compute_valid never not _ #2": "without sessions there is none with a binding cookie, either",
        "SessionCookies._open_all always _() >= _": "shorter values don't open",
    },
    "proxy.planes.forward_auth": {
        "_reject_forged_headers never _()": OTHER_TEXT,
        "_reject_forged_headers always _()": OTHER_TEXT,
        "_reject_forged_headers never _() #2": OTHER_TEXT,
        "_reject_forged_headers always _() #2": OTHER_TEXT,
    },
    "proxy.mcp.endpoint_reader": {
        "module lacks _()": CACHE,
        "McpEndpointReader.read never (_ := _) is None": "a route without mcp has no endpoint",
        "McpEndpointReader._read_message never _ is not None and _ > _": LATER,
        "_require_json never _ == b'content-type'": CACHE,
        "_require_json always _()": CACHE,
        "_require_json always _ != b'content-length'": CACHE,
        "_require_json never _ == _ and (not _)": CACHE,
        "require_matching_headers never not _()": CACHE,
        "_text always _()": "the text of a header equals no other value",
    },
    "proxy.mcp.list_filter": {"ListFilter._on_events always _ or not _": "it sends nothing more often"},
    "proxy.mcp.message_parser": {
        "parse_message never _()": OTHER_TEXT,
        "_parse_body always b'\\\\' in _": CACHE,
        "_parse_body always _()": CACHE,
        "_parse_body always _() #2": CACHE,
        "_parse_body never _()": OTHER_TEXT,
        "_parse_body always _() #3": OTHER_TEXT,
        "_has_more_brackets always _ >= 0": CACHE,
        "_has_more_brackets always _ <= _": CACHE,
        "_has_more_brackets always _ > _": CACHE,
        "_is_deeper always _() is _ #2": "a level has objects and lists only, and text has no parts of these types",
        "_fold never _()": CACHE,
    },
    "proxy.rewriting.connection_auth": {"connection_use never _() != 13": CACHE},
    "proxy.rewriting.request_headers": {
        "RequestHeaderRules.remaining_credentials always _[0] in (b'cookie', b'authorization')": CACHE,
        "RequestHeaderRules.for_upstream always _": CACHE,
        "RequestHeaderRules.for_upstream always _ #2": CACHE,
        "gate_cookie_filter.strip always _ in _()": CACHE,
    },
    "proxy.rewriting.response_headers": {"ResponseHeaderRules.filter always not _()": CACHE},
    "proxy.rewriting.target": {
        "PathRewrite.build always _ is not None": TYPES,
        "PathRewrite.build always _ is not None #2": TYPES,
        "strip_token never b'gate' not in _ and b'%' not in _": CACHE,
        "strip_token always b'%' not in _": CACHE,
        "HostRewrite.build always _ is not None #3": TYPES,
        "HostRewrite.build always _ is not None #4": TYPES,
        "HostRewrite.build never _() == 1": "the name is the same, found at each request",
        "HostRewrite.apply never _ is None #2": "no header has no name",
    },
}
