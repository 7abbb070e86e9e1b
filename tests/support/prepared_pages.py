"""What can't be defined without Django's settings (models, pages, the admin), defined beforehand under those of no configuration.

None of it keeps what it reads there: of which database, of which host, is asked when a page is.  The settings are forgotten then, and the
process that is forked loads its own and sets Django up as ever; it finds its applications' modules imported.
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

from foundation.web.languages import LANGUAGES

SETTINGS = "gateproject.settings"
# Of this application the import alone makes an event loop.
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
    for language in LANGUAGES:
        with translation.override(language):  # the catalogues of all applications are read
            translation.gettext("")
    translation.deactivate()
    _forget()


def _install(names: list[str]) -> None:
    """The half of django.setup() that imports."""
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
    del connections["default"]  # asked how long a table's name may be; it was never open
    del connections.settings
    connections._settings = None
    settings._wrapped = empty
    del sys.modules[SETTINGS]
    del sys.modules["gateproject"].settings
