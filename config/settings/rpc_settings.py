"""Settings of gRPC: listening address, addresses of the services, and TLS."""

import base64
import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo, WrapValidator

from config.fields.basic_types import Bool, PositiveDuration, Text, WebUrl, host_port
from config.fields.field_type import HOST_PORT, FieldType
from config.validation import Finding, Rule, Settings
from foundation.values import HostPort, Url, canonical_host

if TYPE_CHECKING:
    from config.options import Options

LOOPBACK = HostPort("127.0.0.1", 5443)
ANY_ADDRESS = HostPort("", 443)
GRPC_SERVICES = ("all", "authorize", "databroker")


def unneeded_settings(services: Any) -> dict[str, Any]:
    """Return placeholders for required settings that this service does not use: a process should not have secrets that it does not need."""
    sign_in = {"idp_client_id": "not used", "idp_client_secret": "not used"}
    if services == "databroker":
        here = "https://not-used.invalid"
        unused = {"authenticate_service_url": here, "idp_provider": "oidc", "idp_provider_url": here}
        return sign_in | unused | {"cookie_secret": base64.b64encode(secrets.token_bytes(32)).decode("ascii")}
    return sign_in if services in ("authorize", "proxy") else {}


def _services(info: ValidationInfo) -> str:
    return str((info.data or {}).get("services", "all"))


def listening_address(value: Any, info: ValidationInfo) -> HostPort | None:
    """Return the address of the gRPC port; None if none is served.

    Mode `all` serves none if the value is ""; the modes without a gRPC service never serve one.
    """
    services = _services(info)
    address = None if value in (None, "") else host_port(value)
    if services not in GRPC_SERVICES:
        return None
    if value is None:
        return LOOPBACK if services == "all" else ANY_ADDRESS
    if address is None and services != "all":
        raise ValueError(f"is required with services: {services}, which is reached over gRPC only")
    return address


def _default_grpc_insecure(value: Any, handler: Any, info: ValidationInfo) -> bool:
    return _services(info) == "all" if value is None else bool(handler(value))


def _grpc_target(url: Url) -> Url:
    if url.path not in ("", "/") or url.query:
        raise ValueError("must not have a path or query: gRPC uses the host and port only")
    return Url(url.scheme, url.host, url.port)


BROKER_CLIENTS = ("authenticate", "authorize", "proxy")


def _check_service_addresses(settings: "Options") -> Iterator[Finding]:
    services = settings.services
    if services == "all" and settings.authorize_service_url is not None:
        yield ("authorize_service_url",), "must not be set with services: all, which contains authorize"
    if services == "proxy" and settings.authorize_service_url is None:
        yield ("authorize_service_url",), "is required with services: proxy, as in https://authorize.internal:5443"
    if services in BROKER_CLIENTS and settings.databroker_service_url is None:
        yield ("databroker_service_url",), f"is required with services: {services}, as in https://databroker.internal:5443"
    if services == "databroker" and settings.databroker_service_url is not None:
        yield ("databroker_service_url",), "must not be set with services: databroker, which is the data broker"


class RpcSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_service_addresses,)

    grpc_address: Annotated[HostPort | None, FieldType("host:port", listening_address, HOST_PORT)] = Field(
        None,
        validate_default=True,
        description="Address of the gRPC listener. Empty disables it in mode `all`.",
        examples=[":5443"],
        json_schema_extra={"when_unset": "`:443`; `127.0.0.1:5443` in mode `all`"},
    )
    grpc_insecure: Annotated[Bool, WrapValidator(_default_grpc_insecure)] = Field(
        None,
        validate_default=True,
        description="Serves and uses gRPC without TLS. Use it on loopback or encrypted networks only.",
        examples=[True],
        json_schema_extra={"when_unset": "`true` in mode `all`, otherwise `false`"},
    )
    grpc_client_timeout: PositiveDuration = Field(
        timedelta(seconds=10), description="Deadline of a gRPC call, including retries.", examples=["10s"]
    )
    grpc_client_dns_roundrobin: Bool = Field(
        True, description="Balances gRPC calls over all addresses of the service's host.", examples=[True]
    )
    grpc_server_max_connection_age: PositiveDuration = Field(
        timedelta(minutes=5),
        description="Age at which a gRPC server asks clients to reconnect, so that they find new servers.",
        examples=["5m"],
    )
    grpc_server_max_connection_age_grace: PositiveDuration = Field(
        timedelta(minutes=5), description="Time after that age until the server closes the connection.", examples=["5m"]
    )
    override_certificate_name: Annotated[Text, AfterValidator(canonical_host)] | None = Field(
        None,
        description="Name that certificates of internal services must have, in place of the host in their URL.",
        examples=["databroker.internal.example.com"],
    )
    databroker_service_url: Annotated[WebUrl, AfterValidator(_grpc_target)] | None = Field(
        None,
        description="URL of the data broker service.",
        examples=["https://databroker.internal:5443"],
        json_schema_extra={"when_unset": "this process, in mode `all`"},
    )
    authorize_service_url: Annotated[WebUrl, AfterValidator(_grpc_target)] | None = Field(
        None,
        description="URL of the authorize service.",
        examples=["https://authorize.internal:5443"],
        json_schema_extra={"when_unset": "this process, in mode `all`"},
    )
