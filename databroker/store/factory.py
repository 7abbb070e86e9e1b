"""Store factory: creates the store of `databroker_storage_type`."""

import time
from collections.abc import Callable

from config.options import Options
from config.settings.databroker_settings import DatabrokerSettings
from config.settings.storage_url import StorageUrl
from databroker.store.base import StoreBackend
from databroker.store.instrumented import InstrumentedStore
from databroker.store.memory import MemoryStore
from databroker.store.sealed import SealedStore


def open_store(options: Options, clock: Callable[[], float] = time.time) -> StoreBackend:
    """Return the store.  It connects on its first call, and encrypts data with `shared_secret` unless it is in memory."""
    match options.databroker_storage_type:
        case "memory":
            return MemoryStore(clock)
        case "kvstore" if (url := options.databroker_storage_connection_string) is not None:
            return SealedStore(InstrumentedStore(_kvstore(options, url, clock), "kvstore"), options.shared_secret)
        case "database":
            from databroker.store.database import DatabaseStore  # imported here because it needs Django's setup

            return SealedStore(InstrumentedStore(DatabaseStore(clock), "database"), options.shared_secret)
    raise ValueError(f"unknown store {options.databroker_storage_type}")


def _kvstore(options: DatabrokerSettings, url: StorageUrl, clock: Callable[[], float]) -> StoreBackend:
    from databroker.store import redis_client, redis_store  # imported here because redis-py takes 4 MiB of memory

    files = (options.databroker_storage_ca_file, options.databroker_storage_cert_file, options.databroker_storage_key_file)
    ca, certificate, key = (file.path if file else None for file in files)
    tls = redis_client.StorageTls(ca, certificate, key, options.databroker_storage_tls_skip_verify)
    return redis_store.RedisStore(redis_client.open_client(url, tls, redis_store.DEADLINE), clock)
