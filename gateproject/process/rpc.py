"""gRPC of this process, as its runtime uses it; without gRPC settings, the library is not loaded."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from authorize.authorizer import Authorizer
from authorize.ext_authz_types import ExtAuthzDependencies
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.replica import Replica
from gateproject.worker_process import WorkerProcess

if TYPE_CHECKING:
    from gateproject.process.rpc_services import RpcServices


class NoRpc:
    """Null object for processes without gRPC."""

    broker = None
    authorize = None

    def authorizer(self, options: Options, replica: Replica, previous: Authorizer | None) -> None:
        return None

    def open(self, broker: BrokerClient, dependencies: ExtAuthzDependencies) -> None: ...

    async def start(self) -> None: ...

    def reload(self, options: Options) -> None: ...

    async def stop_serving(self) -> None: ...

    async def close(self) -> None: ...


Rpc: TypeAlias = "RpcServices | NoRpc"


def create_rpc(options: Options, clock: Callable[[], float] = time.time, worker: WorkerProcess | None = None) -> Rpc:
    """Return gRPC as required by the settings or by several processes; they are read at start only (`restart_only.py`)."""
    urls = (options.grpc_address, options.authorize_service_url, options.databroker_service_url)
    if worker is None and urls == (None, None, None):
        return NoRpc()
    from gateproject.process.rpc_services import RpcServices  # 6 MiB, and a tenth of the start-up time

    return RpcServices(options, clock, worker)
