"""Our paths on the hosts of routes."""

from django.urls import path, re_path

from proxy import views

urlpatterns = [
    path(".gate/", views.dashboard),
    path(".gate/callback/", views.callback),
    path(".gate/jwt", views.assertion),
    re_path(r"^\.gate/sign_?out/?$", views.sign_out),
    re_path("", views.unknown),
]
