"""Settings of the authorization server: its clients, and the life of the sessions that it issues tokens for."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from config.fields.basic_types import Bool, File, PositiveDuration, Text, text, text_list, value_or_file
from config.fields.field_type import LIST, FieldType, JsonSchema
from config.routes.route_bearer_tokens import Jwks
from config.validation import Finding, Rule, Settings
from foundation.oauth_redirect_uris import parse_redirect_uri
from foundation.values import SecretText, WatchedFile, canonical_host

if TYPE_CHECKING:
    from config.options import Options

# Client id of gate's own command line, which needs no entry.
COMMAND_LINE_ID = "gate"
MIN_SECRET_LENGTH = 32
MAX_CLIENTS = 1000
MAX_REDIRECT_URIS = 20
PRIVATE_PARTS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})  # of a JSON Web Key (RFC 7518 6)
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}")


def _client_id(value: Any) -> str:
    """Parse a client id. An id with a colon would be read as the URL of a client ID metadata document."""
    written = text(value)
    if not _CLIENT_ID.fullmatch(written):
        raise ValueError("must be a name such as build-agent: letters, digits, and . _ ~ -, at most 128 characters")
    return written


def _secret(value: Any) -> SecretText:
    written = value.reveal() if isinstance(value, SecretText) else text(value)
    if len(written) < MIN_SECRET_LENGTH or not re.fullmatch(r"[!-~]+", written):
        raise ValueError(f"must have at least {MIN_SECRET_LENGTH} ASCII characters. Generate it with `head -c32 /dev/urandom | base64`")
    return SecretText(written)


def _secret_in_file(content: bytes) -> SecretText:
    try:
        return _secret(content.decode("ascii").strip())
    except UnicodeDecodeError:
        raise ValueError("the file must contain only ASCII characters") from None


def _redirect_uris(value: Any) -> tuple[str, ...]:
    uris = tuple(dict.fromkeys(text_list(value)))
    if not 0 < len(uris) <= MAX_REDIRECT_URIS:
        raise ValueError(f"must have from 1 to {MAX_REDIRECT_URIS} entries")
    for uri in uris:
        if parse_redirect_uri(uri) is None:
            raise ValueError("must be https URLs without a fragment, or http URLs of 127.0.0.1, [::1] or localhost")
    return uris


def _domains(value: Any) -> tuple[str, ...]:
    domains = tuple(canonical_host(domain.lower(), wildcard=True) for domain in text_list(value))
    if any(domain.startswith("[") for domain in domains):
        raise ValueError("must be host names, as in claude.ai, or *.example.com for any host below it")
    return tuple(dict.fromkeys(domains))


def _public_keys(file: WatchedFile) -> WatchedFile:
    if any(not isinstance(key, dict) or PRIVATE_PARTS & key.keys() for key in json.loads(file.content)["keys"]):
        raise ValueError("the file must contain public keys only. The client keeps the private ones")
    return file


_SECRET: JsonSchema = {"type": "string", "minLength": MIN_SECRET_LENGTH}


# enforcement-point: Authorization server: Reserved client id
def _check_id(client: "OAuthClientEntry") -> Iterator[Finding]:
    if client.id == COMMAND_LINE_ID:
        yield ("id",), f"{COMMAND_LINE_ID} is the client id of gate's own command line. Choose another"


def _check_credentials(client: "OAuthClientEntry") -> Iterator[Finding]:
    if client.jwks_file is not None and client.secret is not None:
        yield ("jwks_file",), "cannot be combined with secret. Set one of them"


def _check_redirect_uris(client: "OAuthClientEntry") -> Iterator[Finding]:
    if not client.redirect_uris and not client.device_authorization:
        yield ("redirect_uris",), "is required, unless `device_authorization: true`"


class OAuthClientEntry(Settings):
    """An entry of `oauth_clients`."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_id, _check_credentials, _check_redirect_uris)

    @property
    def keys(self) -> tuple[Mapping[str, Any], ...]:
        """Public keys of the client."""
        return tuple(json.loads(self.jwks_file.content)["keys"]) if self.jwks_file is not None else ()

    id: Annotated[str, FieldType("string", _client_id, {"type": "string", "pattern": f"^{_CLIENT_ID.pattern}$"})] = Field(
        description="The client's `client_id`.", examples=["build-agent"]
    )
    name: Text = Field(description="Name of the client on the consent page.", examples=["Build agent"])
    redirect_uris: Annotated[tuple[str, ...], FieldType("list of URL", _redirect_uris, LIST)] = Field(
        (),
        description="URLs to which users return with an authorization code, compared exactly: https, or http to this "
        "machine, where any port matches. Required unless the client uses `device_authorization`.",
        examples=[["http://127.0.0.1/callback"]],
    )
    secret_file: File | None = Field(None, description="File form of `secret`.", examples=["build-agent-secret"])
    secret: Annotated[
        Annotated[SecretText, FieldType("string", _secret, _SECRET)] | None, value_or_file("secret_file", _secret_in_file)
    ] = Field(
        None,
        validate_default=True,
        description="Client secret, at least 32 characters.",
        examples=["PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE"],
        json_schema_extra={"when_unset": "a public client, which proves itself with PKCE only"},
    )
    jwks_file: Annotated[Jwks, AfterValidator(_public_keys)] | None = Field(
        None,
        description="Path to the client's public keys, a JSON Web Key Set. The client then authenticates with assertions that it signs "
        "(`private_key_jwt`, RFC 7523), and with nothing else. Reloaded when it changes.",
        examples=["keys.json"],
    )
    device_authorization: Bool = Field(
        False,
        description="Lets the client request device authorization (RFC 8628): the user enters a code on another device. Attackers can "
        "send such codes to users, so enable it only for clients without a browser.",
        examples=[True],
    )
    agent_session_expire: PositiveDuration | None = Field(
        None,
        description="As the setting, for this client. If `mcp` of the route has a value too, the shorter one applies.",
        examples=["720h"],
        json_schema_extra={"when_unset": "as that of the route, or the setting"},
    )


def _check_unique_clients(settings: "Options") -> Iterator[Finding]:
    if len(settings.oauth_clients) > MAX_CLIENTS:
        yield ("oauth_clients",), f"must have at most {MAX_CLIENTS} entries"
    first = dict[str, int]()
    for index, client in enumerate(settings.oauth_clients):
        if (earlier := first.setdefault(client.id, index)) != index:
            yield ("oauth_clients", index, "id"), f"duplicate id {client.id} (also in oauth_clients[{earlier}])"


class OAuthSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_unique_clients,)

    oauth_clients: tuple[OAuthClientEntry, ...] = Field(
        (),
        description="OAuth 2.1 clients that may ask users for tokens for routes with `mcp`. Clients with a client ID metadata "
        "document need no entry.",
        examples=[[{"id": "build-agent", "name": "Build agent", "redirect_uris": ["http://127.0.0.1/callback"]}]],
    )
    oauth_dynamic_registration: Bool = Field(
        False,
        description="Lets OAuth clients register themselves (RFC 7591). Registrations expire after an hour unless a user allows the "
        "client. Only for MCP clients without a metadata document: anyone can register any name.",
        examples=[True],
    )
    command_line_device_authorization: Bool = Field(
        True,
        description="Enables the device authorization (RFC 8628) of `gate tunnel --no-browser` and `gate token --no-browser`. An attacker "
        "can send their own code to a user and ask them to allow it. `false` requires a browser on the user's computer.",
        examples=[False],
    )
    mcp_client_domains: Annotated[tuple[str, ...] | None, FieldType("list of string", _domains, LIST)] = Field(
        None,
        description="Hosts whose client ID metadata documents gate accepts; `*.example.com` matches any host below. An empty list "
        "accepts none.",
        examples=[["claude.ai", "*.example.com"]],
        json_schema_extra={"when_unset": "any public host"},
    )
    agent_session_expire: PositiveDuration | None = Field(
        None,
        description="Lifetime of the session of an OAuth client. It also ends with sign-out on all devices and with the user's account.",
        examples=["24h"],
        json_schema_extra={"when_unset": "as `cookie_expire`"},
    )
