"""gRPC of this process, as its runtime uses it; where no setting asks for any, its library is not even loaded."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from authorize.client import Authorizer
from authorize.envoy_answers import ExtAuthzParts
from config.options import Options
from databroker.client import BrokerClient
from databroker.replica import Replica

if TYPE_CHECKING:
    from gateproject.process.rpc_services import RpcServices


class NoRpc:
    """gRPC of a process that neither offers nor uses any."""

    broker = None
    authorize = None

    def authorizer(self, options: Options, replica: Replica, previous: Authorizer | None) -> None:
        return None

    def open(self, broker: BrokerClient, asked: ExtAuthzParts) -> None: ...

    async def start(self) -> None: ...

    def reload(self, options: Options) -> None: ...

    async def stop_serving(self) -> None: ...

    async def close(self) -> None: ...


Rpc: TypeAlias = "RpcServices | NoRpc"


def rpc_of(options: Options, clock: Callable[[], float] = time.time) -> Rpc:
    """gRPC that the settings ask for; they are read at a start only (`restart_only.py`)."""
    if options.grpc_address is None and options.authorize_service_url is None and options.databroker_service_url is None:
        return NoRpc()
    from gateproject.process.rpc_services import RpcServices  # 6 MiB, and a tenth of a start

    return RpcServices(options, clock)
