"""Processes that use gRPC."""

import pytest

from gateproject.process.rpc import NoRpc, create_rpc
from gateproject.process.rpc_services import RpcServices
from tests.support.options import make_options

ASKS_FOR_IT = {
    "it is asked": {"grpc_address": "127.0.0.1:5443"},
    "it asks another to decide": {
        "services": "proxy",
        "authorize_service_url": "http://127.0.0.1:5443",
        "databroker_service_url": "http://127.0.0.1:5444",
    },
    "it asks another for records": {"databroker_service_url": "http://127.0.0.1:5443"},
}


@pytest.mark.parametrize("settings", ASKS_FOR_IT.values(), ids=ASKS_FOR_IT)
def test_services_called_by_or_calling_others_have_it(tmp_path, settings):
    assert isinstance(create_rpc(make_options(tmp_path, **settings)), RpcServices)


def test_services_doing_neither_lack_it(tmp_path):
    rpc = create_rpc(make_options(tmp_path, grpc_address=""))
    assert isinstance(rpc, NoRpc)
    assert (rpc.broker, rpc.authorize) == (None, None)
