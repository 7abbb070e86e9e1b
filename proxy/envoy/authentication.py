"""Authentication of our Envoy: it alone knows a token that gate makes anew at each start."""

import hmac

import grpc

from proxy.envoy.bootstrap import EXT_PROC, Json


def grpc_service(token: str) -> Json:
    """gRPC service by which Envoy reaches gate, with its proof."""
    return {"envoy_grpc": {"cluster_name": EXT_PROC}, "initial_metadata": [{"key": "authorization", "value": f"Bearer {token}"}]}


async def require_our_envoy(context: grpc.aio.ServicerContext, token: str) -> None:
    """Check of the token; ends the call of anybody else."""
    given = [str(value).encode() for name, value in context.invocation_metadata() or () if name == "authorization"]
    if len(given) != 1 or not hmac.compare_digest(given[0], f"Bearer {token}".encode()):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not our Envoy")
