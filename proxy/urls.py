"""URL patterns of gate's pages on the hosts of routes."""

from django.urls import path, re_path

from foundation.web.responses import handler400, handler403, handler404, handler500
from proxy.views import form_replay, programmatic_login, resource_metadata, route_host

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [
    path(".gate/", route_host.portal),
    path(".gate/callback/", route_host.callback),
    path(".gate/sign_in", route_host.sign_in),
    path(".gate/jwt", route_host.jwt),
    path(".gate/api/v1/login", programmatic_login.login),
    path(".gate/form/<str:id>", form_replay.form_replay),
    path(".well-known/gate/oauth-protected-resource", resource_metadata.command_line_metadata),
    re_path(r"^\.well-known/oauth-protected-resource(?P<path>/.*)?$", resource_metadata.resource_metadata),
    re_path(r"^\.gate/sign_?out/?$", route_host.sign_out),
    re_path("", route_host.unknown),
]
