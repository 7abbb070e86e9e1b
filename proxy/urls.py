"""URL patterns: our paths on the hosts of routes."""

from django.urls import path, re_path

from foundation.responses import handler400, handler403, handler404, handler500
from proxy.sign_in import kept_form_page, program_views, views

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [
    path(".gate/", views.dashboard),
    path(".gate/callback/", views.callback),
    path(".gate/sign_in", views.sign_in),
    path(".gate/jwt", views.assertion),
    path(".gate/api/v1/login", program_views.login),
    path(".gate/form/<str:id>", kept_form_page.kept_form),
    re_path(r"^\.gate/sign_?out/?$", views.sign_out),
    re_path("", views.unknown),
]
