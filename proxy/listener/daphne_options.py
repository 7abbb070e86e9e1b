"""Options of the `daphne` command: which count here, and which setting of gate does the work of the others.

An option that would change nothing is refused, so that nobody believes in it.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import daphne.cli

from config.options import Options

COUNTS = ""


@dataclass(frozen=True, slots=True)
class Option:
    """Option of the command.  `instead` says what does its work here, COUNTS for nothing but itself; `same` are the values by which it
    asks for what gate does anyway.

    `keyword` is its name where Daphne's command gives it to the server; "" where it keeps it to itself.
    """

    flag: str
    instead: str = COUNTS
    keyword: str = ""
    same: tuple[object, ...] = ()


_NO_PINGS = "gate sends no pings; TCP keepalive detects a lost client after two minutes, and `timeout_idle` one that does not read"
_FRAMES = "frames and messages of a websocket are limited to 16 MiB"
_FORWARDED_FOR = "gate reads X-Forwarded-For from `trusted_proxies`"

# By argparse's name.  A test holds that these are all that the installed Daphne has.
OPTIONS: Mapping[str, Option] = {
    "application": Option("application"),
    "host": Option("--bind"),
    "port": Option("--port"),
    "unix_socket": Option("--unix-socket"),
    "file_descriptor": Option("--fd"),
    "socket_strings": Option("--endpoint"),
    "http_timeout": Option("--http-timeout", keyword="http_timeout"),
    "application_close_timeout": Option("--application-close-timeout", keyword="application_close_timeout"),
    "proxy_headers": Option("--proxy-headers", keyword="proxy_forwarded_proto_header"),
    "proxy_headers_host": Option("--proxy-headers-host", _FORWARDED_FOR),
    "proxy_headers_port": Option("--proxy-headers-port", _FORWARDED_FOR),
    "websocket_timeout": Option("--websocket_timeout", "`timeout` of a route limits its websockets", "websocket_timeout"),
    "websocket_connect_timeout": Option(
        "--websocket_connect_timeout",
        "`timeout_read` limits the request head, `timeout` of a route the response",
        "websocket_connect_timeout",
    ),
    "websocket_max_message_size": Option("--websocket-max-message-size", _FRAMES, "websocket_max_message_size"),
    "websocket_max_frame_size": Option("--websocket-max-frame-size", _FRAMES, "websocket_max_frame_size"),
    "ping_interval": Option("--ping-interval", _NO_PINGS, "ping_interval"),
    "ping_timeout": Option("--ping-timeout", _NO_PINGS, "ping_timeout"),
    "verbosity": Option("--verbosity", "use `log_level` and `proxy_log_level`", "verbosity", same=(1,)),
    "access_log": Option("--access-log", "requests are logged on standard output (`proxy_log_level`)", same=("-",)),
    "log_fmt": Option("--log-fmt", "gate logs JSON, or text with `gate_debug`"),
    "root_path": Option("--root-path", "gate has no root path: each route has its own host (`from`)", "root_path", same=("",)),
    "server_name": Option("--server-name", "`headers` can add a Server header", "server_name", same=("",)),
}
# What Daphne's server knows besides, and its command never says.
_UNSAID = frozenset({"websocket_handshake_timeout", "action_logger", "proxy_forwarded_address_header", "proxy_forwarded_port_header"})
# Endpoints of Twisted that gate opens, by the word that they begin with; and those of them with TLS of their own.
ENDPOINTS = ("tcp", "tcp6", "unix", "fd", "systemd", "ssl", "tls")
OWN_TLS = frozenset({"ssl", "tls"})


def given_options(argv: Sequence[str], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Options that were given, by argparse's name.  `argv` is the process's; of a command that is run in another way, `keywords`, which the
    server got, say which differ from Daphne's own."""
    parser = daphne.cli.CommandLineInterface().parser
    own = vars(parser.parse_args(["application"]))
    program = Path(argv[0])
    if program.stem == "daphne" or program.parts[-2:] == ("daphne", "__main__.py"):
        unset = object()
        namespace = Namespace(**{name: value if isinstance(value, list) else unset for name, value in own.items()})
        given = vars(parser.parse_known_args(argv[1:], namespace)[0])
        return {name: value for name, value in given.items() if value is not unset and value != []}
    return {
        name: keywords[option.keyword]
        for name, option in OPTIONS.items()
        if option.keyword in keywords and (keywords[option.keyword] or None) != (own[name] or None)
    }


def kind_of(endpoint: str) -> str:
    return endpoint.partition(":")[0]


def problems(given: Mapping[str, Any], keywords: Mapping[str, Any], endpoints: Sequence[str], options: Options | None) -> Iterator[str]:
    """Problems that keep the command from starting, a line each: options without effect here, and those against the configuration."""
    known = {option.keyword for option in OPTIONS.values()} | _UNSAID
    yield from (f"{name}: unknown option" for name in keywords if name not in known)
    for name, value in given.items():
        option = OPTIONS.get(name)
        if option is None:
            yield f"{name}: unknown option"
        elif option.instead and value not in option.same:
            yield f"{option.flag} has no effect here: {option.instead}"
    for endpoint in endpoints:
        if kind_of(endpoint) not in ENDPOINTS:
            yield f"--endpoint {kind_of(endpoint)}: gate listens on {', '.join(ENDPOINTS)} (`use_proxy_protocol` for the PROXY protocol)"
    if options is not None:
        yield from _contradictions(given, endpoints, options)


def _contradictions(given: Mapping[str, Any], endpoints: Sequence[str], options: Options) -> Iterator[str]:
    kinds = {kind_of(endpoint) for endpoint in endpoints}
    if "proxy_headers" in given and not options.trusted_proxies:
        yield "--proxy-headers has no effect without `trusted_proxies`"
    if "proxy_headers" in given and kinds == {"unix"} and not options.use_proxy_protocol:
        yield "--proxy-headers has no effect on a Unix socket, whose clients have no address for `trusted_proxies`. Use --bind"
    if (seconds := given.get("http_timeout")) is not None and options.timeout_write not in (timedelta(0), timedelta(seconds=seconds)):
        yield f"--http-timeout {seconds} conflicts with timeout_write, which also limits responses. Remove one of them"
    if not options.insecure_server and (own := sorted(kinds & {*OWN_TLS, "unix"})):
        what = "has no TLS" if own == ["unix"] else "has its own certificates"
        yield (
            f"--endpoint {own[0]} {what}, but the configuration has certificates for `daphne "
            "-p`. Remove the endpoint, or set insecure_server: true"
        )
    if options.use_proxy_protocol and kinds & OWN_TLS:
        yield "--endpoint ssl cannot be combined with use_proxy_protocol. Use `daphne -p` with the TLS settings of the configuration"


def command_line() -> Sequence[str]:
    return sys.argv
