"""Applications that trust a header of the proxy before them, as documented by their vendors, each below a separate path.

`python -m tests.support.header_applications PORT DIRECTORY AUDIENCE KEY_SET_URL` serves them on loopback, without TLS.
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server
from wsgiref.util import shift_path_info

import jwt
import radicale
import radicale.config
from django.conf import settings

WSGI = Callable[[dict[str, Any], Any], Iterable[bytes]]


def calendar(directory: Path) -> WSGI:
    """Radicale: `[auth] type = http_x_remote_user`."""
    configuration = radicale.config.load()
    own = {"auth": {"type": "http_x_remote_user"}, "storage": {"filesystem_folder": str(directory / "calendars")}}
    configuration.update(own, "this test", privileged=True)
    return radicale.Application(configuration)


def site(directory: Path) -> WSGI:
    """Django with RemoteUserMiddleware, whose `header` is set as its documentation describes for a custom header."""
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(directory / "site.sqlite3")}
    applications = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
    middleware = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
    settings.configure(
        SECRET_KEY="of a test",
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": database},
        INSTALLED_APPS=applications,
        MIDDLEWARE=[*middleware, "tests.support.header_site.ProxysHeader"],
        AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.RemoteUserBackend"],
        ROOT_URLCONF="tests.support.header_site",
    )
    import django
    from django.core.management import call_command
    from django.core.wsgi import get_wsgi_application

    django.setup()
    call_command("migrate", verbosity=0)
    return get_wsgi_application()


def iap(audience: str, key_set: str) -> WSGI:
    """Application behind Google's IAP, by its documentation, with the key set of gate."""
    from google.auth.transport import requests
    from google.oauth2 import id_token

    def identify(environ: dict[str, Any]) -> str:
        claims = id_token.verify_token(environ["HTTP_X_GOOG_IAP_JWT_ASSERTION"], requests.Request(), audience=audience, certs_url=key_set)
        return f"{claims['sub']} {claims['email']}"

    return _report(identify)


def cloudflare(audience: str, key_set: str) -> WSGI:
    """Application behind Cloudflare Access, by its documentation: it uses the token in the header, not the plain address."""
    keys = jwt.PyJWKClient(key_set)

    def identify(environ: dict[str, Any]) -> str:
        token = environ["HTTP_CF_ACCESS_JWT_ASSERTION"]
        key = keys.get_signing_key_from_jwt(token).key
        return str(jwt.decode(token, key, audience=audience, algorithms=["RS256", "ES256"])["email"])

    return _report(identify)


def grafana(environ: dict[str, Any]) -> str:
    """Reader of Grafana's `[auth.proxy]` as it documents it: `header_property = email`, `headers = Name:... Groups:...`."""
    headers = {"login": "HTTP_X_WEBAUTH_USER", "name": "HTTP_X_WEBAUTH_NAME", "groups": "HTTP_X_WEBAUTH_GROUPS"}
    properties = {property: environ.get(name, "").strip() for property, name in headers.items()}
    if not properties["login"]:
        raise PermissionError("Grafana shows its own login page")
    groups = [group.strip() for group in properties["groups"].split(",") if group.strip()]
    return f"{properties['login']}|{properties['name']}|{groups}"


def gitea(environ: dict[str, Any]) -> str:
    """Reader of Gitea's `[service] ENABLE_REVERSE_PROXY_AUTHENTICATION`, `_EMAIL` and `_FULL_NAME`: a user name has no @ in it."""
    name = environ.get("HTTP_X_WEBAUTH_USER", "").strip()
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9]|[-_.](?=[A-Za-z0-9]))*", name):
        raise PermissionError("Gitea knows no such name")
    return f"{name}|{environ['HTTP_X_WEBAUTH_EMAIL'].strip()}|{environ['HTTP_X_WEBAUTH_FULLNAME'].strip()}"


def jenkins(environ: dict[str, Any]) -> str:
    """Reader of the headers that Jenkins' plugin reverse-proxy-auth documents, with `,` as the separator of groups."""
    user = environ["HTTP_X_FORWARDED_USER"].strip()
    return f"{user}|{environ['HTTP_X_FORWARDED_GROUPS'].split(',')}"


def _report(identify: Callable[[dict[str, Any]], str]) -> WSGI:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        try:
            status, body = "200 OK", identify(environ)
        except Exception as error:
            status, body = "403 Forbidden", type(error).__name__
        start_response(status, [("Content-Type", "text/plain")])
        return [body.encode()]

    return application


def main(port: str, directory: str, audience: str, key_set: str) -> None:
    applications = {
        "calendar": calendar(Path(directory)),
        "site": site(Path(directory)),
        "iap": iap(audience, key_set),
        "cloudflare": cloudflare(audience, key_set),
        **{each.__name__: _report(each) for each in (grafana, gitea, jenkins)},
    }

    def dispatch(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return applications[shift_path_info(environ) or ""](environ, start_response)

    make_server("127.0.0.1", int(port), dispatch).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
