"""Models of how servers and frameworks interpret request paths: the path of the target in, the served path out.

None means that the parser rejects it. Each model is a default or common setup; it shares no code with the product.
"""

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, urlparse, urlsplit

Reader = Callable[[str], str | None]

# Placeholder for an encoded slash that a parser did not decode, to distinguish it from `%2F` after double encoding.
_ENCODED_SLASH = "\ue000"


def resolved(path: str) -> str:
    """Remove dot segments as a file system does (RFC 3986 5.2.4 for paths without empty segments)."""
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            segments = segments[:-1]
        elif segment != ".":
            segments.append(segment)
    return "/" + "/".join(segments)


def single_slashes(path: str) -> str:
    while "//" in path:
        path = path.replace("//", "/")
    return path


def without_parameters(path: str) -> str:
    return "/".join(segment.split(";")[0] for segment in path.split("/"))


def tomcat(path: str) -> str | None:
    """CoyoteAdapter: removes parameters from the bytes, decodes (rejecting an encoded solidus), then normalizes."""
    path = without_parameters(path)
    return None if "%2F" in path.upper() else resolved(single_slashes(unquote(path)))


def tomcat_that_decodes_slashes(path: str) -> str:
    return resolved(single_slashes(unquote(without_parameters(path))))


def tomcat_that_passes_slashes(path: str) -> str:
    return resolved(single_slashes(all_but_slashes(without_parameters(path))))


def jetty(path: str) -> str:
    """Removes parameters, decodes, resolves dots; empty segments are retained."""
    return resolved(unquote(without_parameters(path)))


def spring_behind_tomcat(path: str) -> str | None:
    """UrlPathHelper removes parameters again after decoding."""
    served = tomcat_that_decodes_slashes(path)
    return single_slashes(without_parameters(served))


def request_uri_filter(path: str) -> str:
    """Decodes the request's URI and uses the part before the first semicolon, as filters of Java applications do."""
    return resolved(single_slashes(unquote(path).split(";")[0]))


def raw_request_uri_filter(path: str) -> str:
    return unquote(path.split(";")[0])


def cleaner_that_decodes_first(path: str) -> str:
    """Decodes, then removes the parameters of each segment: `decode` and `removeSemicolonContent` in reverse order."""
    return single_slashes(without_parameters(unquote(path)))


def django(path: str) -> str:
    """Decodes PATH_INFO once, without normalization."""
    return unquote(path)


def express(path: str) -> str:
    """`parseurl` and `path-to-regexp` match the raw path."""
    return path


def node_url(path: str) -> str:
    """`new URL(request.url, base).pathname`: two slashes start a host."""
    found = re.match(r"//+[^/]*", path)
    return (path[found.end() :] or "/") if found else path


def node_url_decoded(path: str) -> str:
    return unquote(node_url(path))


def go_mux(path: str) -> str:
    """net/url decodes, http.ServeMux cleans."""
    return resolved(single_slashes(unquote(path)))


def nginx(path: str) -> str:
    return resolved(single_slashes(unquote(path)))


def nginx_that_hands_on_uri(path: str) -> str:
    """`proxy_pass http://application$uri`: the decoded path is parsed and decoded again."""
    return resolved(single_slashes(unquote(re.split(r"[?#]", nginx(path))[0])))


def iis(path: str) -> str | None:
    """Rejects paths that another decoding would change; a backslash is a slash."""
    once = unquote(path)
    return None if unquote(once) != once else resolved(single_slashes(once.replace("\\", "/")))


def asp_net_framework(path: str) -> str | None:
    """IIS, then removal of the cookieless part of the path: `(S(session))`, `(A(name))`, `(F(ticket))`, or several in one."""
    found = iis(path)
    if found is None:
        return None
    segments = found.split("/")
    return "/".join(each for each in segments if re.fullmatch(r"\(([ASF]\([^()]*\))+\)", each) is None) or "/"


def asp_net(path: str) -> str:
    """Kestrel decodes everything except the slash."""
    return resolved(all_but_slashes(path))


def python_urlparse(path: str) -> str | None:
    """`urlparse` splits off the last segment's parameters, and treats two slashes as a host."""
    try:
        return unquote(urlparse(path).path) or "/"
    except ValueError:
        return None


def python_urlsplit_of_decoded(path: str) -> str | None:
    try:
        return urlsplit(unquote(path)).path or "/"
    except ValueError:  # two slashes, and then no host
        return None


def python_urlsplit_behind_nginx(path: str) -> str | None:
    """`urlsplit` behind `proxy_pass http://application$uri` with `merge_slashes off`."""
    return python_urlsplit_of_decoded(unquote(path))


def careless(path: str) -> str:
    """Decodes until nothing changes."""
    while (decoded := unquote(path).replace("\\", "/")) != path:
        path = decoded
    return resolved(single_slashes(path))


def careless_servlet(path: str) -> str:
    return careless(without_parameters(path))


def all_but_slashes(path: str) -> str:
    return _ENCODED_SLASH.join(unquote(part) for part in re.split("%2[Ff]", path))


READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        tomcat, tomcat_that_decodes_slashes, tomcat_that_passes_slashes, jetty, spring_behind_tomcat,
        request_uri_filter, raw_request_uri_filter, cleaner_that_decodes_first, django, express, node_url,
        node_url_decoded, go_mux, nginx, nginx_that_hands_on_uri, iis, asp_net_framework, asp_net, python_urlparse,
        python_urlsplit_of_decoded, python_urlsplit_behind_nginx, careless, careless_servlet,
    )
}  # fmt: skip
UNDECODED = (express, node_url)


def served(reader: Reader, path: str) -> str | None:
    """Return the path that the parser serves in plain form: only characters that are invalid in a path are encoded."""
    found = reader(path)
    if found is None or reader in UNDECODED:
        return found
    return quote(found, safe="/;!$&'()*+,:=@~|\"<>[]^`{}").replace(quote(_ENCODED_SLASH), "%2F")
