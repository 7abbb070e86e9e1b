"""Django settings, computed from the Options. They never raise, because `checkconfig` must always run."""

import os
import secrets
from pathlib import Path

from authorize.config_checks import CONFIG_CHECKS
from config.config_watcher import ConfigWatcher
from config.loader import find_config
from config.options import Options
from config.settings.storage_url import DatabaseUrl
from foundation.crypto.cookies import host_prefixed_name, is_host_prefixed
from foundation.crypto.sealing import derive_keys
from foundation.errors import ConfigError
from foundation.web import pages
from gateproject.cache import caches
from gateproject.worker_process import WorkerProcess

GATE_OPTIONS: Options | None = None
GATE_WORKER: WorkerProcess | None = None  # number of this worker, set by `rungate`
GATE_CONFIG_ERROR: ConfigError | None = None
GATE_CONFIG_PATH = find_config(os.environ, Path.cwd())  # noqa: TID251 - an entry point
GATE_SOURCE = ConfigWatcher(GATE_CONFIG_PATH, os.environ, CONFIG_CHECKS)  # noqa: TID251
try:
    GATE_OPTIONS = GATE_SOURCE.load()
except ConfigError as error:
    GATE_CONFIG_ERROR = error


def _database(options: Options | None) -> dict[str, object]:
    if options is not None and options.database_url.kind == "postgresql":
        return _postgresql(options.database_url)
    return {
        "ENGINE": "django_prometheus.db.backends.sqlite3",
        "NAME": options.database_url.name if options else ":memory:",
        "OPTIONS": {
            # Without these, concurrent writers fail with "database is locked" (docs/decisions/stores.md).
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "timeout": 20,
        },
    }


def _postgresql(url: DatabaseUrl) -> dict[str, object]:
    # Every wait has a limit: libpq's connect timeout, the server's statement timeout, and the engine's deadline if neither applies.
    timeouts = {"connect_timeout": 3, "keepalives_idle": 3, "keepalives_interval": 1, "keepalives_count": 3, "tcp_user_timeout": 5000}
    return {
        "ENGINE": "gateproject.postgresql_engine",
        "NAME": url.name,
        "USER": url.username or "",
        "PASSWORD": url.password.reveal() if url.password else "",
        "HOST": ",".join(host.host for host in url.hosts),
        "PORT": ",".join(str(host.port) for host in url.hosts),
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**timeouts, "options": "-c statement_timeout=10000 -c lock_timeout=5000", **dict(url.options)},
    }


def cookie_settings(options: Options) -> dict[str, object]:
    """Return Django's cookie settings and keys. They are computed at each reload, because a removed key must not open the admin."""
    key, *older = (key.hex() for key in derive_keys(options.cookie_secret, "django"))
    session, csrf = (host_prefixed_name(f"{options.cookie_name}_{name}", secure=options.cookie_secure) for name in ("admin", "admin_csrf"))
    # Browsers drop a `__Host-` cookie whose path is not `/` (RFC 6265bis 4.1.3.2).
    path = "/" if is_host_prefixed(session) else "/.gate/admin/"
    return {
        "SECRET_KEY": key,
        "SECRET_KEY_FALLBACKS": older,
        "SESSION_COOKIE_NAME": session,
        "CSRF_COOKIE_NAME": csrf,
        "SESSION_COOKIE_PATH": path,
        "CSRF_COOKIE_PATH": path,
        "SESSION_COOKIE_SECURE": options.cookie_secure,
        "CSRF_COOKIE_SECURE": options.cookie_secure,
        "SESSION_COOKIE_AGE": int(options.cookie_expire.total_seconds()),
    }


SECRET_KEY = secrets.token_hex()  # for commands without a configuration
if GATE_OPTIONS is not None:
    globals().update(cookie_settings(GATE_OPTIONS))
DEBUG = False
# gateproject/asgi.py checks the host before Django sees the request.
ALLOWED_HOSTS = ["*"]

ROOT_URLCONF = "gateproject.urls"
ASGI_APPLICATION = "gateproject.asgi.application"
INSTALLED_APPS = [
    "gateproject",
    "gateproject.checkout",
    "authenticate",
    "authorize",
    "databroker",
    "proxy",
    # Before staticfiles, whose runserver it replaces, and after gateproject.checkout, whose runserver names the commands.
    "daphne",
    "channels",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_prometheus",
]
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "gateproject.middleware.LanguageMiddleware",
    "gateproject.middleware.ResponseHeadersMiddleware",
    "gateproject.middleware.HostPagesMiddleware",
    "gateproject.middleware.TimeZoneMiddleware",
    "gateproject.middleware.StaticFilesMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "gateproject.middleware.AdminCsrfMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "gateproject.middleware.StoreUnavailableMiddleware",
    "gateproject.middleware.PageMetricsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
LOGIN_REDIRECT_URL = "/.gate/admin/"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
DATABASES = {"default": _database(GATE_OPTIONS)}
CACHES = caches(GATE_OPTIONS)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "foundation.web.responses.csrf_failure"

STATIC_URL = "/.gate/static/"
STATIC_ROOT = None
STATICFILES_DIRS = [("foundation", pages.STATIC)]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
FORMAT_MODULE_PATH = "gateproject.formats"
APPEND_SLASH = False
# telemetry/logs.py configures all logging, including Django's.
LOGGING_CONFIG = None
