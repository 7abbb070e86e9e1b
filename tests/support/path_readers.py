"""How servers and frameworks read the path of a request, modelled one by one: the target's path in, what they serve out.

None where the reader refuses.  Each is a default setup, or a usual one; nothing here is shared with the product.
"""

import re
from collections.abc import Callable
from urllib.parse import quote, unquote, urlparse, urlsplit

Reader = Callable[[str], str | None]

# Stands for an encoded slash that a reader left alone; `%2F` itself is then what somebody encoded twice.
_KEPT_SLASH = "\ue000"


def resolved(path: str) -> str:
    """Dot segments out, as a file system would (RFC 3986 5.2.4 for paths without empty segments)."""
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
    return "/" + "/".join(kept)


def single_slashes(path: str) -> str:
    while "//" in path:
        path = path.replace("//", "/")
    return path


def without_parameters(path: str) -> str:
    return "/".join(segment.split(";")[0] for segment in path.split("/"))


def tomcat(path: str) -> str | None:
    """CoyoteAdapter: parameters out of the bytes, then decoding, where an encoded solidus is refused, then normalising."""
    path = without_parameters(path)
    return None if "%2F" in path.upper() else resolved(single_slashes(unquote(path)))


def tomcat_that_decodes_slashes(path: str) -> str:
    return resolved(single_slashes(unquote(without_parameters(path))))


def tomcat_that_passes_slashes(path: str) -> str:
    return resolved(single_slashes(all_but_slashes(without_parameters(path))))


def jetty(path: str) -> str:
    """Parameters out, decoded, dots resolved; empty segments stay."""
    return resolved(unquote(without_parameters(path)))


def spring_behind_tomcat(path: str) -> str | None:
    """UrlPathHelper cuts once more in what was decoded."""
    served = tomcat_that_decodes_slashes(path)
    return single_slashes(without_parameters(served))


def request_uri_filter(path: str) -> str:
    """Decodes the request's URI and takes what stands before the first semicolon, as filters of Java applications do."""
    return resolved(single_slashes(unquote(path).split(";")[0]))


def raw_request_uri_filter(path: str) -> str:
    return unquote(path.split(";")[0])


def cleaner_that_decodes_first(path: str) -> str:
    """Decodes, then cuts the parameters of each segment: `decode` and `removeSemicolonContent` in the other order."""
    return single_slashes(without_parameters(unquote(path)))


def django(path: str) -> str:
    """PATH_INFO is decoded once, and nothing else."""
    return unquote(path)


def express(path: str) -> str:
    """`parseurl` and `path-to-regexp` look at the path as it is written."""
    return path


def node_url(path: str) -> str:
    """`new URL(request.url, base).pathname`: two slashes begin a host."""
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
    """`proxy_pass http://application$uri`: what was decoded is parsed again, and decoded again."""
    return resolved(single_slashes(unquote(re.split(r"[?#]", nginx(path))[0])))


def iis(path: str) -> str | None:
    """Refuses what would change if it were decoded once more; a backslash is a slash."""
    once = unquote(path)
    return None if unquote(once) != once else resolved(single_slashes(once.replace("\\", "/")))


def asp_net_framework(path: str) -> str | None:
    """IIS, and then the cookieless part of the path is taken out: `(S(session))`, `(A(name))`, `(F(ticket))`, or several in one."""
    found = iis(path)
    if found is None:
        return None
    segments = found.split("/")
    return "/".join(each for each in segments if re.fullmatch(r"\(([ASF]\([^()]*\))+\)", each) is None) or "/"


def asp_net(path: str) -> str:
    """Kestrel decodes all but the slash."""
    return resolved(all_but_slashes(path))


def python_urlparse(path: str) -> str | None:
    """`urlparse` splits the last segment's parameters off, and takes two slashes for a host."""
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
    """The same behind a `proxy_pass http://application$uri` with `merge_slashes off`."""
    return python_urlsplit_of_decoded(unquote(path))


def careless(path: str) -> str:
    """Decodes until nothing changes."""
    while (decoded := unquote(path).replace("\\", "/")) != path:
        path = decoded
    return resolved(single_slashes(path))


def careless_servlet(path: str) -> str:
    return careless(without_parameters(path))


def all_but_slashes(path: str) -> str:
    return _KEPT_SLASH.join(unquote(part) for part in re.split("%2[Ff]", path))


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
    """What the reader serves, as somebody would write it plainly: only what can't stand in a path is encoded."""
    found = reader(path)
    if found is None or reader in UNDECODED:
        return found
    return quote(found, safe="/;!$&'()*+,:=@~|\"<>[]^`{}").replace(quote(_KEPT_SLASH), "%2F")
