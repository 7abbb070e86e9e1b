"""Settings of gRPC between our services: `config.options.Options` has them all."""

from datetime import timedelta
from typing import Protocol

from foundation.values import CertificatePair


class RpcOptions(Protocol):
    """Values of the configuration, for both ends of a call."""

    grpc_insecure: bool
    certificate_authority: bytes | None
    override_certificate_name: str | None
    grpc_client_timeout: timedelta
    grpc_client_dns_roundrobin: bool
    grpc_server_max_connection_age: timedelta
    grpc_server_max_connection_age_grace: timedelta

    @property
    def service_label(self) -> str: ...
    @property
    def certificate_pairs(self) -> tuple[CertificatePair, ...]: ...
