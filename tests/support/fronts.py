"""Every external proxy that uses gate: by forward auth, and Envoys by ext_authz."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import front_proxies, ingress_nginx
from tests.support.cookies import client_cookies
from tests.support.external_envoy import ExternalEnvoy, external_envoy
from tests.support.front_proxies import APP, Front, front
from tests.support.gate import sign_in

AnyFront = Front | ExternalEnvoy

FORWARD_AUTH = {
    "nginx": front_proxies.nginx,
    "Caddy": front_proxies.caddy,
    "HAProxy": front_proxies.haproxy,
    "Apache": front_proxies.apache,
    "Traefik": front_proxies.traefik,
    "Ingress-NGINX": ingress_nginx.start,
}
EXT_AUTHZ = ("Envoy", "Envoy Gateway")
# It drops the text of a denial, and redirects to sign-in.
WITHOUT_TEXT = "Ingress-NGINX"


@contextmanager
def started(name: str, directory: Path, provider_url: str, app_url: str) -> Iterator[AnyFront]:
    if name in EXT_AUTHZ:
        with external_envoy(directory, provider_url, app_url, is_of_gateway=name == "Envoy Gateway") as envoy:
            yield envoy
    else:
        unauthorized = 302 if name == WITHOUT_TEXT else 401
        with front(directory, provider_url, app_url, FORWARD_AUTH[name], unauthorized=unauthorized) as proxy:
            yield proxy


async def session_cookie(front: AnyFront, user: str) -> str:
    """Return the Cookie header of this user, who can access at least /anybody/."""
    async with front.client() as client:
        await sign_in(client, front.url("/anybody/"), user)
        return client_cookies(client, APP)
