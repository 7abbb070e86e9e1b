from types import SimpleNamespace

import pytest

from config.routes.rewrites import template, warn_changed_upstream_paths
from config.routes.route import Route


@pytest.mark.parametrize(
    ("written", "parts"),
    [(r"/new/\1", ("/new/", 1)), (r"\0", (0,)), (r"a\\b", ("a", "\\", "b")), (r"\1\2x", (1, 2, "x")), ("", ()), (r"\12", (1, "2"))],
)
def test_a_substitution_is_text_and_groups(written, parts):
    assert template(written) == parts


@pytest.mark.parametrize("written", [r"\x", "\\", r"\g<1>"])
def test_a_backslash_means_a_group(written):
    with pytest.raises(ValueError, match="backslash"):
        template(written)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"regex_rewrite_pattern": "^/old/(.*)$", "regex_rewrite_substitution": r"/new/\1"}, {}),
        ({"regex_rewrite_pattern": "^/old", "regex_rewrite_substitution": ""}, {}),
        ({"host_rewrite": "Upstream.Internal:8080"}, {}),
        ({"host_rewrite_header": "X-Upstream-Host"}, {}),
        ({"host_path_regex_rewrite_pattern": "^/([a-z]+)/.*$", "host_path_regex_rewrite_substitution": r"\1.internal"}, {}),
        ({"regex_rewrite_pattern": "^/old/(.*)$"}, {"regex_rewrite_pattern": "needs regex_rewrite_substitution too"}),
        (
            {"host_path_regex_rewrite_substitution": "x"},
            {"host_path_regex_rewrite_substitution": "needs host_path_regex_rewrite_pattern too"},
        ),
        ({"regex_rewrite_pattern": "(", "regex_rewrite_substitution": "/"}, {"regex_rewrite_pattern": "RE2"}),
        (
            {"regex_rewrite_pattern": "^/(.*)$", "regex_rewrite_substitution": r"/\2"},
            {"regex_rewrite_substitution": "a group that regex_rewrite_pattern"},
        ),
        (
            {"regex_rewrite_pattern": "^/(.*)$", "regex_rewrite_substitution": r"/search?q=\1"},
            {"regex_rewrite_substitution": "without a query"},
        ),
        ({"regex_rewrite_pattern": "^/", "regex_rewrite_substitution": "/a b"}, {"regex_rewrite_substitution": "ercent-encode"}),
        (
            {"regex_rewrite_pattern": "^/", "regex_rewrite_substitution": "/a", "prefix_rewrite": "/b"},
            {"regex_rewrite_pattern": "combined with prefix_rewrite"},
        ),
        (
            {"host_rewrite": "a.internal", "preserve_host_header": True},
            {"preserve_host_header": "combined with host_rewrite:"},
        ),
        (
            {"host_rewrite": "a.internal", "host_rewrite_header": "X-Host", "set_request_headers": {"Host": "b"}},
            {
                "host_rewrite_header": "combined with host_rewrite:",
                "set_request_headers": "combined with host_rewrite:",
            },
        ),
        ({"host_rewrite": "a b"}, {"host_rewrite": "letters, digits"}),
        ({"host_rewrite": "a.internal/x"}, {"host_rewrite": "must be a host"}),
        ({"host_rewrite_header": "X Host"}, {"host_rewrite_header": "invalid header name: use"}),
        (
            {"host_rewrite": "a.internal", "to": None, "redirect": {"https_redirect": True}},
            {"host_rewrite": "Set `to`"},
        ),
    ],
)
def test_rewrites(route_problems, keys, expected):
    found = route_problems(**keys)
    assert found.keys() == expected.keys()
    for key, part in expected.items():
        assert part in found[key]


@pytest.mark.parametrize(
    ("keys", "replaced"),
    [
        ({"to": "http://u"}, ""),
        ({"to": "http://u", "prefix": "/a"}, ""),
        ({"to": "http://u/"}, ""),
        ({"to": "http://u/base/"}, ""),
        ({"to": "http://u/base/", "prefix": "/"}, ""),
        ({"to": "http://u/base", "prefix": "/a", "prefix_rewrite": "/base"}, ""),
        ({"to": "http://u/base", "regex_rewrite_pattern": "^", "regex_rewrite_substitution": "/x"}, ""),
        ({"redirect": {"path_redirect": "/x"}}, ""),
        ({"to": "http://u/base"}, "the leading slash"),
        ({"to": "http://u/base", "prefix": "/a"}, "the prefix"),
        ({"to": "http://u/", "prefix": "/a"}, "the prefix"),
        ({"to": ["http://u/base/", "http://v/base/"], "path": "/a"}, "the path"),
        ({"to": "http://u/base/", "regex": "/a/.*"}, "the path"),
    ],
)
def test_to_path_with_former_meaning_is_reported(keys, replaced):
    route = Route.model_validate({"from": "https://app.example.com", **keys})
    findings = list(warn_changed_upstream_paths(SimpleNamespace(policy=(route,))))
    assert [path for path, _ in findings] == ([("policy", 0, "to")] if replaced else [])
    assert all(f"replaced {replaced}. Set `prefix_rewrite: {route.to[0].url.path}`" in message for _, message in findings)
