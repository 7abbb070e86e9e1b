"""Ingress NGINX's configuration of nginx: renders the Ingresses in examples/ingress_nginx like its controller, as far as gate needs.

The controller needs a cluster. This follows the template of its last version, 1.15: the auth request goes to `auth-url` with
$http_host and the client's raw URI, a 401 redirects to `auth-signin`, and each of `auth-response-headers` replaces the client's.
"""

import string
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.support.children import ROOT, Child
from tests.support.front_proxies import APP, AUTHENTICATE, FORWARD, Substitutions

EXAMPLE = ROOT / "examples" / "ingress_nginx" / "ingress.yaml"
ANNOTATION = "nginx.ingress.kubernetes.io/"
MODULES = "/usr/lib/nginx/modules"

TEMPLATE = string.Template("""
load_module $modules/ndk_http_module.so;
load_module $modules/ngx_http_set_misc_module.so;
pid $directory/nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path $directory/client_body; proxy_temp_path $directory/proxy; fastcgi_temp_path $directory/fastcgi;
    uwsgi_temp_path $directory/uwsgi; scgi_temp_path $directory/scgi;
    underscores_in_headers off;
    map $$http_upgrade $$connection_upgrade { default upgrade; "" ""; }
    ssl_certificate $certificate;
    ssl_certificate_key $key;
    upstream gate { server 127.0.0.1:$gate_port; }
    upstream application { server 127.0.0.1:$app_port; }
    server { listen 127.0.0.1:$port ssl default_server; return 404; }
    $servers
}
""")
QUESTION = string.Template("""
        location = /_external-auth {
            internal;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header X-Forwarded-Proto "";
            proxy_set_header X-Request-ID $$request_id;
            proxy_set_header Host $host;
            proxy_set_header X-Original-URL $$scheme://$$http_host$$request_uri;
            proxy_set_header X-Original-Method $$request_method;
            proxy_set_header X-Sent-From "nginx-ingress-controller";
            proxy_set_header X-Real-IP $$remote_addr;
            proxy_set_header X-Forwarded-For $$remote_addr;
            proxy_set_header X-Auth-Request-Redirect $$request_uri;
            proxy_http_version 1.1;
            proxy_pass_request_headers on;
            set $$target http://gate$path;
            proxy_pass $$target;
        }
        location @signin {
            internal;
            add_header Set-Cookie $$auth_cookie;
            return 302 $signin?$parameter=$$pass_access_scheme://$$http_host$$escaped_request_uri;
        }
""")
AUTH_REQUEST = string.Template("""
            auth_request /_external-auth;
            auth_request_set $$auth_cookie $$upstream_http_set_cookie;
            add_header Set-Cookie $$auth_cookie;
            $replaced
            set_escape_uri $$escaped_request_uri $$request_uri;
            error_page 401 = @signin;
""")
FORWARDED = string.Template("""
        location $path {
            set $$pass_access_scheme $$scheme;
            $asked
            proxy_set_header Host $host;
            proxy_set_header Upgrade $$http_upgrade;
            proxy_set_header Connection $$connection_upgrade;
            proxy_set_header X-Request-ID $$request_id;
            proxy_set_header X-Real-IP $$remote_addr;
            proxy_set_header X-Forwarded-For $$remote_addr;
            proxy_set_header X-Forwarded-Host $$http_host;
            proxy_set_header X-Forwarded-Port $$server_port;
            proxy_set_header X-Forwarded-Proto $$pass_access_scheme;
            proxy_set_header X-Forwarded-Scheme $$pass_access_scheme;
            proxy_set_header X-Scheme $$pass_access_scheme;
            proxy_set_header X-Original-Forwarded-For $$http_x_forwarded_for;
            proxy_set_header Proxy "";
            $removed
            proxy_http_version 1.1;
            proxy_pass http://$upstream;
        }
""")


def ingresses() -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each and each["kind"] == "Ingress"]


def removed_headers() -> str:
    """Return what the controller renders for the ConfigMap in its `proxy-set-headers`."""
    (config,) = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each and each["kind"] == "ConfigMap"]
    return " ".join(f'proxy_set_header {name} "{value}";' for name, value in config["data"].items())


def start(place: Substitutions, stack: ExitStack) -> None:
    hosts: dict[str, list[str]] = {}
    for ingress in ingresses():
        for rule in ingress["spec"]["rules"]:
            locations = hosts.setdefault(rule["host"], [])
            for path in rule["http"]["paths"]:
                locations.append(_location(ingress, path, place))
    servers = "\n".join(
        f"server {{ listen 127.0.0.1:{place.port} ssl; server_name {host}; {' '.join(all)} }}" for host, all in hosts.items()
    )
    ports = {"port": place.port, "gate_port": place.gate_port, "app_port": place.app_port}
    pair = {"certificate": place.certificates.certificate, "key": place.certificates.key}
    text = TEMPLATE.substitute(servers=servers, modules=MODULES, directory=place.directory, **ports, **pair)
    path = place.directory / "nginx.conf"
    path.write_text(_of_here(text, place))
    stack.enter_context(Child("nginx", "-e", "stderr", "-p", place.directory, "-c", path, "-g", "daemon off;"))


def _location(ingress: dict[str, Any], path: dict[str, Any], place: Substitutions) -> str:
    annotations = {key.removeprefix(ANNOTATION): value for key, value in ingress["metadata"].get("annotations", {}).items()}
    upstream = "gate" if path["backend"]["service"]["name"] == "gate" else "application"
    values = {
        "path": path["path"],
        "upstream": upstream,
        "host": annotations.get("upstream-vhost", "$http_host"),
        "removed": removed_headers(),
    }
    if "auth-url" not in annotations:
        return FORWARDED.substitute(asked="", **values)
    known = {"auth-url", "auth-signin", "auth-signin-redirect-param", "auth-response-headers", "upstream-vhost"}
    assert set(annotations) == known, "an annotation that this does not know"
    url = urlsplit(annotations["auth-url"])
    question = {
        "host": url.hostname,
        "path": url.path,
        "signin": annotations["auth-signin"],
        "parameter": annotations["auth-signin-redirect-param"],
    }
    headers = annotations["auth-response-headers"].split(",")
    variables = {name: f"$upstream_http_{name.lower().replace('-', '_')}" for name in headers}
    replaced = [
        f"auth_request_set $authHeader{number} {variables[name]}; proxy_set_header '{name}' $authHeader{number};"
        for number, name in enumerate(headers)
    ]
    return QUESTION.substitute(question) + FORWARDED.substitute(asked=AUTH_REQUEST.substitute(replaced="\n".join(replaced)), **values)


def _of_here(text: str, place: Substitutions) -> str:
    """Add the port to the Host of the application."""
    for old, new in {
        "https://app.example.com": f"https://{APP}:{place.port}",
        "Host app.example.com": f"Host {APP}:{place.port}",
        "gate.gate.svc.cluster.local": FORWARD,
        "authenticate.example.com": AUTHENTICATE,
        "app.example.com": APP,
    }.items():
        assert old in text, old
        text = text.replace(old, new)
    return text
