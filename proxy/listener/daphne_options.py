"""Options of the `daphne` command that gate supports, and the settings that replace the others.

gate rejects an option without effect, so that it does not mislead the operator.
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

SUPPORTED = ""


@dataclass(frozen=True, slots=True)
class Option:
    """Option of the command.

    `replacement` is the hint for an option without effect, or SUPPORTED. `noop_values` are values that match gate's behavior.
    `keyword` is the name of the server's argument, or "" if the command does not pass it to the server.
    """

    flag: str
    replacement: str = SUPPORTED
    keyword: str = ""
    noop_values: tuple[object, ...] = ()


_NO_PINGS = "gate sends no pings; TCP keepalive detects a lost client after two minutes, and `timeout_idle` one that does not read"
_FRAMES = "frames and messages of a websocket are limited to 16 MiB"
_FORWARDED_FOR = "gate reads X-Forwarded-For from `trusted_proxies`"

# By argparse's name. A test checks that the list covers all options of the installed Daphne.
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
    "verbosity": Option("--verbosity", "use `log_level` and `proxy_log_level`", "verbosity", noop_values=(1,)),
    "access_log": Option("--access-log", "requests are logged on standard output (`proxy_log_level`)", noop_values=("-",)),
    "log_fmt": Option("--log-fmt", "gate logs JSON, or text with `gate_debug`"),
    "root_path": Option("--root-path", "gate has no root path: each route has its own host (`from`)", "root_path", noop_values=("",)),
    "server_name": Option("--server-name", "`headers` can add a Server header", "server_name", noop_values=("",)),
}
# Arguments of Daphne's server that its command never passes.
_UNDOCUMENTED = frozenset({"websocket_handshake_timeout", "action_logger", "proxy_forwarded_address_header", "proxy_forwarded_port_header"})
# Schemes of Twisted endpoints that gate opens, and those of them with their own TLS.
ENDPOINTS = ("tcp", "tcp6", "unix", "fd", "systemd", "ssl", "tls")
TLS_ENDPOINTS = frozenset({"ssl", "tls"})


def parse_options(argv: Sequence[str], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were set, by argparse's name.

    `argv` is that of the process. If the process was not started by the command, the options are derived from `keywords`, the
    server's arguments that differ from Daphne's defaults.
    """
    parser = daphne.cli.CommandLineInterface().parser
    defaults = vars(parser.parse_args(["application"]))
    executable = Path(argv[0])
    if executable.stem == "daphne" or executable.parts[-2:] == ("daphne", "__main__.py"):
        unset = object()
        namespace = Namespace(**{name: value if isinstance(value, list) else unset for name, value in defaults.items()})
        options_set = vars(parser.parse_known_args(argv[1:], namespace)[0])
        return {name: value for name, value in options_set.items() if value is not unset and value != []}
    return {
        name: keywords[option.keyword]
        for name, option in OPTIONS.items()
        if option.keyword in keywords and (keywords[option.keyword] or None) != (defaults[name] or None)
    }


def endpoint_scheme(endpoint: str) -> str:
    return endpoint.partition(":")[0]


def validate_options(
    options_set: Mapping[str, Any], keywords: Mapping[str, Any], endpoints: Sequence[str], options: Options | None
) -> Iterator[str]:
    """Yield one line for each option that has no effect in gate or conflicts with the configuration."""
    supported = {option.keyword for option in OPTIONS.values()} | _UNDOCUMENTED
    yield from (f"{name}: unknown option" for name in keywords if name not in supported)
    for name, value in options_set.items():
        option = OPTIONS.get(name)
        if option is None:
            yield f"{name}: unknown option"
        elif option.replacement and value not in option.noop_values:
            yield f"{option.flag} has no effect here: {option.replacement}"
    for endpoint in endpoints:
        scheme = endpoint_scheme(endpoint)
        if scheme not in ENDPOINTS:
            yield f"--endpoint {scheme}: gate listens on {', '.join(ENDPOINTS)} (`use_proxy_protocol` for the PROXY protocol)"
    if options is not None:
        yield from _find_conflicts(options_set, endpoints, options)


def _find_conflicts(options_set: Mapping[str, Any], endpoints: Sequence[str], options: Options) -> Iterator[str]:
    schemes = {endpoint_scheme(endpoint) for endpoint in endpoints}
    if "proxy_headers" in options_set and not options.trusted_proxies:
        yield "--proxy-headers has no effect without `trusted_proxies`"
    if "proxy_headers" in options_set and schemes == {"unix"} and not options.use_proxy_protocol:
        yield "--proxy-headers has no effect on a Unix socket, whose clients have no address for `trusted_proxies`. Use --bind"
    if (seconds := options_set.get("http_timeout")) is not None and options.timeout_write not in (timedelta(0), timedelta(seconds=seconds)):
        yield f"--http-timeout {seconds} conflicts with timeout_write, which also limits responses. Remove one of them"
    if not options.insecure_server and (no_gate_tls := sorted(schemes & {*TLS_ENDPOINTS, "unix"})):
        reason = "has no TLS" if no_gate_tls == ["unix"] else "has its own certificates"
        yield (
            f"--endpoint {no_gate_tls[0]} {reason}, but the configuration has certificates for `daphne "
            "-p`. Remove the endpoint, or set insecure_server: true"
        )
    if options.use_proxy_protocol and schemes & TLS_ENDPOINTS:
        yield "--endpoint ssl cannot be combined with use_proxy_protocol. Use `daphne -p` with the TLS settings of the configuration"


def command_line() -> Sequence[str]:
    return sys.argv
