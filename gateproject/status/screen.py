"""Screen of `gate status`: tables for a terminal or a file."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from config.options import Options
from config.routes.route import Route
from foundation.readiness import ReadinessState, format_utc
from gateproject.status.local_config import certificates, listeners
from gateproject.status.snapshot import Reading, RouteRates, rate, routes
from proxy.upstreams.route_statistics import route_label

_COLOURS = {ReadinessState.OK: "green", ReadinessState.DEGRADED: "yellow", ReadinessState.FAILING: "red"}
MAX_ROUTES = 20
MAX_CERTIFICATES = 8


def screen(readings: Sequence[tuple[Reading, Reading]], options: Options | None) -> RenderableType:
    """Render the status of the processes, each with its current and previous snapshot; `options` is None without configuration."""
    parts: list[RenderableType] = []
    for now, before in readings:
        parts += _process(now, before, {} if options is None else {route_label(route): route for route in options.policy})
    if options is not None:
        parts += _configured(options)
    return Group(*(each for part in parts for each in (part, "")))


def _process(now: Reading, before: Reading, configured: Mapping[str, Route]) -> Iterator[RenderableType]:
    if now.trouble:
        yield Text(now.trouble if now.address in now.trouble else f"gate at {now.address}: {now.trouble}", style="red")
        return
    yield _head(now, before)
    yield _parts(now)
    if found := routes(now, before):
        yield _routes(found, configured)
    elif now.value("http_server_requests_total") is not None:
        yield Text("per-route metrics need metrics_per_route: true (default with up to 500 routes)", style="dim")
    ends = now.by_label("gate_certificate_expiry_timestamp", "name")
    if ends:
        yield _certificates(
            (name, datetime.fromtimestamp(seconds, UTC)) for name, seconds in sorted(ends.items(), key=lambda each: each[1])
        )


def _head(now: Reading, before: Reading) -> Text:
    service, version = now.label("gate_build_info", "service"), now.label("gate_build_info", "version")
    revision = now.label("gate_build_info", "revision")
    state = "[green]ready[/]" if now.is_ready else "[red]not ready[/]"
    cells = [f"[bold]{escape(service or 'gate')}[/] {escape(version)} {escape(revision)}".rstrip(), f"at {escape(now.address)}", state]
    if (started := now.value("process_start_time_seconds")) is not None:
        cells.append(f"up {_format_duration(time.time() - started)}")
    if (requests := rate(now, before, "http_server_requests_total")) is not None:
        cells.append(f"{requests:.1f} requests/s")
    if (sessions := now.value("gate_sessions_cached")) is not None:
        cells.append(f"{sessions:,.0f} sessions")
    if (memory := now.value("process_resident_memory_bytes")) is not None:
        cells.append(f"{memory / 2**20:.0f} MiB")
    if (loaded := now.value("gate_config_last_reload_success_timestamp")) is not None:
        refused = now.value("gate_config_last_reload_success") == 0
        cells.append(f"configuration of {format_utc(loaded)}" + (", [red]a newer one was rejected[/]" if refused else ""))
    return Text.from_markup("  ".join(cells))


def _parts(now: Reading) -> Table:
    table = _table("part", "state", "reason")
    for part in now.parts:
        table.add_row(escape(part.name), f"[{_COLOURS[part.state]}]{part.state}[/]", escape(part.reason))
    return table


def _routes(found: Sequence[RouteRates], configured: Mapping[str, Route]) -> Table:
    table = _table("route", "requests/s", "5xx/s", "mean ms", "p95 ms", "active", "upstreams", "address", numbers=6)
    for route in found[:MAX_ROUTES]:
        upstreams, known = f"{route.healthy}/{route.upstreams}", configured.get(route.name)
        table.add_row(
            escape(route.name if known is None else known.name or known.title or known.from_.host),
            f"{route.per_second:.1f}",
            f"[red]{route.errors_per_second:.1f}[/]" if route.errors_per_second else "0",
            _milliseconds(route.mean),
            _milliseconds(route.p95),
            str(route.active),
            f"[red]{upstreams}[/]" if route.healthy < route.upstreams else upstreams,
            escape("" if known is None else str(known.from_)),
        )
    if len(found) > MAX_ROUTES:
        table.add_row(f"[dim]{len(found) - MAX_ROUTES} more routes with less traffic[/]")
    return table


def _configured(options: Options) -> Iterator[RenderableType]:
    table = _table("listener", "address", "here")
    for each in listeners(options):
        table.add_row(each.setting, escape(each.address), "[green]open[/]" if each.is_open else "[red]closed[/]")
    yield table
    if found := certificates(options):
        yield _certificates(found)


def _certificates(found: Iterable[tuple[str, datetime]]) -> Table:
    table, now = _table("certificate", "ends"), datetime.now(UTC)
    rows = list(found)
    for name, ends in rows[:MAX_CERTIFICATES]:
        left = (ends - now).total_seconds()
        colour = "red" if left <= 0 else "yellow" if left < 7 * 86400 else "green"
        expiry = "expired" if left <= 0 else f"in {_format_duration(left)}"
        table.add_row(escape(name), f"{format_utc(ends.timestamp())} [{colour}]{expiry}[/]")
    if len(rows) > MAX_CERTIFICATES:
        table.add_row(f"[dim]{len(rows) - MAX_CERTIFICATES} more that expire later[/]")
    return table


def _table(*columns: str, numbers: int = 0) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
    for index, column in enumerate(columns):
        is_last = index == len(columns) - 1
        # On a narrow screen, only the last column of a numeric table shrinks.
        table.add_column(
            column,
            justify="right" if 0 < index <= numbers else "left",
            overflow="ellipsis" if numbers and is_last else "fold",
            no_wrap=bool(numbers) and not is_last,
        )
    return table


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _format_duration(seconds: float) -> str:
    """Format a duration in its two largest units."""
    left = int(seconds)
    units: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or units or unit == "s":
            units.append(f"{number} {unit}")
    return " ".join(units[:2])
