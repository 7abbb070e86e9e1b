"""Django's cache, of what it may forget: the kvstore where there is one, shared by all processes, else this process's memory.

Never what decides anything: whoever can write there could write it.
"""

from typing import Any

from config.options import Options

# A page must not wait for a cache: without an answer in this time (seconds) it does without.
TIMEOUT = 0.5
OWN: dict[str, dict[str, Any]] = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


def caches(options: Options | None) -> dict[str, dict[str, Any]]:
    """Django's CACHES.  Sentinels and clusters serve the records alone: what is cached here is not worth their set-up."""
    if options is None or options.databroker_storage_type != "kvstore":
        return OWN
    url = options.databroker_storage_connection_string
    if url is None or url.kind != "server":
        return OWN
    login = {"USERNAME": url.username, "PASSWORD": url.password.reveal() if url.password else None}
    return {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"{'rediss' if url.tls else 'redis'}://{url.hosts[0]}/{url.database}",
            "KEY_PREFIX": "gate:cache",
            "OPTIONS": {
                **login,
                "SERIALIZER": "django_redis.serializers.json.JSONSerializer",  # the default would run what it reads
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
