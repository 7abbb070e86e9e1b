"""Which gRPC services does this process offer, and whose does it use?"""

import time
from collections.abc import Callable

from databroker.client import BrokerClient
from databroker.rpc import convert
from databroker.rpc.client import RemoteBroker
from databroker.rpc.server import DataBrokerRpc
from gateproject.config.options import Options
from gateproject.rpc.channel import RpcChannel
from gateproject.rpc.server import RpcServer
from gateproject.rpc.shared_secret import SharedSecret


class RpcServices:
    """`broker` is the data broker of another process, None where the configuration names none."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.time):
        self._options = options
        self._secret = SharedSecret(options.shared_secret, clock)
        self._server: RpcServer | None = None
        self.broker: RemoteBroker | None = None
        if options.databroker_service_url is not None:
            self.broker = RemoteBroker(RpcChannel(options.databroker_service_url, options, self._secret))

    def open(self, broker: BrokerClient) -> None:
        """Take the port of `grpc_address`, before anything runs, and on the event loop that will; ConfigError where it can't be had."""
        if self._options.grpc_address is None:
            return
        self._server = RpcServer(self._options, self._secret)
        if self.broker is None:
            self._server.add(convert.SERVICE, DataBrokerRpc(broker).methods())
        self._server.open(self._options.grpc_address)

    async def start(self) -> None:
        if self._server is not None:
            await self._server.start()

    def reload(self, options: Options) -> None:
        self._secret.replace(options.shared_secret)

    async def stop_serving(self) -> None:
        if self._server is not None:
            await self._server.stop()

    async def close(self) -> None:
        """After the last call to another service."""
        if self.broker is not None:
            await self.broker.close()
