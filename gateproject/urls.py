"""URLs of the authenticate host; those of route hosts are in proxy/urls.py (gateproject/middleware.py chooses)."""

from django.urls import include, path

from foundation.web.responses import handler400, handler403, handler404, handler500
from gateproject.admin_site import site

__all__ = ["handler400", "handler403", "handler404", "handler500", "urlpatterns"]

urlpatterns = [
    path(".gate/admin/", site.urls),
    path("", include("authenticate.urls")),
]
