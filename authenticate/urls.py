"""URLs of the authenticate host."""

from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

from authenticate import post_logout_redirect
from authenticate.oauth import server_metadata
from authenticate.page_paths import (
    BACKCHANNEL_LOGOUT_PATH,
    CONNECTION_CALLBACK_PATH,
    CONNECTION_CLIENT_PATH,
    CONNECTIONS_PATH,
    FRONTCHANNEL_LOGOUT_PATH,
)
from authenticate.scim.scim_authenticator import PATH as SCIM_PATH
from authenticate.service import page_context
from authenticate.views.access_page import PAGE as ACCESS
from authenticate.views.access_page import access
from authenticate.views.api_endpoint import api
from authenticate.views.callback import callback
from authenticate.views.oauth.account_connection import change_connection, connection_callback, connection_client
from authenticate.views.oauth.authorize import authorize
from authenticate.views.oauth.device_page import device
from authenticate.views.oauth.registration_endpoint import register
from authenticate.views.oauth.token_endpoint import device_authorization, metadata, revoke, token
from authenticate.views.portal_pages import CHANGE, ICONS, change_portal, icon, portal, portal_json, why
from authenticate.views.profile_refresh import refresh
from authenticate.views.programmatic_consent import programmatic_consent
from authenticate.views.provider_logout_endpoints import backchannel_logout, frontchannel_logout
from authenticate.views.scim_endpoint import scim
from authenticate.views.sessions_page import PAGE as SESSIONS
from authenticate.views.sessions_page import sessions
from authenticate.views.sign_in import CHOOSE_PATH, choose, sign_in
from authenticate.views.sign_out import sign_out, signed_out
from authenticate.views.well_known import client_metadata, jwks
from foundation.web.message import Message
from foundation.web.problem_details import API_PATH
from foundation.web.responses import render_error


async def _configured_callback(request: HttpRequest, path: str) -> HttpResponse:
    """Serve the callback page. `authenticate_callback_path` is compared here because it is not known when Django loads the URLs."""
    if "/" + path != page_context(request).options.authenticate_callback_path:
        return render_error(request, 404, Message("This page does not exist."), links=((Message("Your applications"), "/.gate/"),))
    return await callback(request)


urlpatterns = [
    path(".gate/", portal),
    path(".gate/api/portal.json", portal_json),
    path(f"{API_PATH[1:]}<path:path>", api),
    path(CHANGE[1:], change_portal),
    path(".gate/why", why),
    path(SESSIONS[1:], sessions),
    path(ACCESS[1:], access),
    path(f"{ICONS[1:]}<name>", icon),
    path(".gate/sign_in", sign_in),
    path(CHOOSE_PATH[1:], choose),
    path(".gate/refresh", refresh),
    path(".gate/program", programmatic_consent),
    re_path(r"^\.gate/(?:signout/?|sign_out/?)$", sign_out),
    path(post_logout_redirect.PATH[1:], signed_out),
    path(BACKCHANNEL_LOGOUT_PATH[1:], backchannel_logout),
    path(FRONTCHANNEL_LOGOUT_PATH[1:], frontchannel_logout),
    path(SCIM_PATH[1:], scim),
    path(f"{SCIM_PATH[1:]}<path:path>", scim),
    path(server_metadata.AUTHORIZE_PATH[1:], authorize),
    path(server_metadata.TOKEN_PATH[1:], token),
    path(server_metadata.REVOKE_PATH[1:], revoke),
    path(server_metadata.REGISTER_PATH[1:], register),
    path(server_metadata.DEVICE_AUTHORIZATION_PATH[1:], device_authorization),
    path(server_metadata.DEVICE_PATH[1:], device),
    path(server_metadata.WELL_KNOWN[1:], metadata),
    path(CONNECTIONS_PATH[1:], change_connection),
    path(f"{CONNECTION_CALLBACK_PATH[1:]}<path:name>", connection_callback),
    path(f"{CONNECTION_CLIENT_PATH[1:]}<path:name>", connection_client),
    path(".well-known/gate/jwks.json", jwks),
    path(".well-known/gate/", client_metadata),
    re_path(r"^(?P<path>.*)$", _configured_callback),
]
