"""Django's cache for disposable data: the kvstore if configured, shared by all processes, else process memory.

It must never hold data that decides access, because everything with access to the cache could write it.
"""

from typing import Any

from config.options import Options

# Timeout in seconds, after which a page is rendered without the cache.
TIMEOUT = 0.5
PROCESS_CACHE: dict[str, dict[str, Any]] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


def caches(options: Options | None) -> dict[str, dict[str, Any]]:
    """Return Django's CACHES. With Sentinel or Cluster, only records use the kvstore, because the cache does not justify the setup."""
    if options is None or options.databroker_storage_type != "kvstore":
        return PROCESS_CACHE
    url = options.databroker_storage_connection_string
    if url is None or url.kind != "server":
        return PROCESS_CACHE
    login = {"USERNAME": url.username, "PASSWORD": url.password.reveal() if url.password else None}
    return {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"{'rediss' if url.tls else 'redis'}://{url.hosts[0]}/{url.database}",
            "KEY_PREFIX": "gate:cache",
            "OPTIONS": {
                **login,
                "SERIALIZER": "django_redis.serializers.json.JSONSerializer",  # the default, pickle, would execute what it reads
                "IGNORE_EXCEPTIONS": True,
                "SOCKET_CONNECT_TIMEOUT": TIMEOUT,
                "SOCKET_TIMEOUT": TIMEOUT,
                "CONNECTION_POOL_KWARGS": _tls(options) if url.tls else {},
            },
        }
    }


def _tls(options: Options) -> dict[str, Any]:
    files = {
        "ssl_ca_certs": options.databroker_storage_ca_file,
        "ssl_certfile": options.databroker_storage_cert_file,
        "ssl_keyfile": options.databroker_storage_key_file,
    }
    verified = not options.databroker_storage_tls_skip_verify
    checks = {"ssl_cert_reqs": "required" if verified else "none", "ssl_check_hostname": verified}
    return {**{name: str(file.path) for name, file in files.items() if file is not None}, **checks}
