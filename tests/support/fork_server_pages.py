"""Preloading of modules that need Django's settings (models, pages, the admin), with placeholder settings.

None of them caches a setting: the database and the host are read per page. The settings are then cleared; the forked process loads
its settings and sets up Django as usual, with the modules of its applications already imported.
"""

import importlib
import os
import sys

from django.apps import apps
from django.apps.config import AppConfig
from django.conf import settings
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.utils import translation
from django.utils.functional import empty

SETTINGS = "gateproject.settings"
# The import of this application creates an event loop.
_AT_WORK_ALREADY = "daphne"
PAGES = """
    authenticate.access_requests.access_request_service daphne.ws_protocol
    databroker.store.factory databroker.templatetags.times django.contrib.admin.templatetags.admin_list
    django.contrib.auth.middleware django.contrib.messages.storage.fallback django.contrib.sessions.backends.db
    django.contrib.sessions.middleware django.db.models.sql.compiler django.template.loaders.app_directories
    gateproject.management.commands.rungate gateproject.process.reload gateproject.process.services gateproject.urls
    proxy.autocert.autocert_service proxy.consumers proxy.envoy.process.envoy_process proxy.envoy.internal_listener
    proxy.envoy.ext_authz_server proxy.envoy.resources.configured_hosts proxy.listener.http1.http1_channel
    proxy.listener.proxy_protocol.header_reader proxy.listener.tls.acme_challenge proxy.third_party_asgi.http_adapter proxy.urls
    twisted.internet.asyncioreactor
""".split()  # noqa: SIM905 - easier to read


def define() -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": SETTINGS, "GATE_CONFIG": os.devnull + "/absent.yaml"}
    _install([name for name in settings.INSTALLED_APPS if name != _AT_WORK_ALREADY])
    MigrationLoader(None)  # imports them
    for name in PAGES:
        importlib.import_module(name)
    # Imported here, because the mutation run imports this module before it instruments that one.
    from foundation.web.languages import LANGUAGES

    for language in LANGUAGES:
        with translation.override(language):  # reads the catalogues of all applications
            translation.gettext("")
    translation.deactivate()
    _forget()


def _install(names: list[str]) -> None:
    """Do the part of django.setup() that imports."""
    for name in names:
        config = AppConfig.create(name)
        config.apps = apps
        apps.app_configs[config.label] = config
    apps.apps_ready = True
    apps.clear_cache()
    for config in apps.get_app_configs():
        config.import_models()
    apps.models_ready = apps.ready = True
    apps.clear_cache()


def _forget() -> None:
    apps.apps_ready = apps.models_ready = apps.ready = False
    apps.app_configs.clear()
    apps.clear_cache()
    del connections["default"]  # it was only queried for the maximum length of a table name; it was never opened
    del connections.settings
    connections._settings = None
    settings._wrapped = empty
    del sys.modules[SETTINGS]
    del sys.modules["gateproject"].settings
