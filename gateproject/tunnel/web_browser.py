"""The user's web browser."""

import asyncio
import sys
from collections.abc import Mapping

from gateproject.tunnel.tls_connection import TunnelError

# BROWSER as in the module `webbrowser`. Without a display, that module would start a text browser in this terminal.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
_NEED_DISPLAY = ("linux", "freebsd")
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


async def open_browser(url: str, environ: Mapping[str, str]) -> None:
    """Open a URL; return when the starting program has ended. Raise TunnelError.

    A separate process starts it, because that program may wait until the browser ends, and may print to standard output.
    """
    if sys.platform.startswith(_NEED_DISPLAY) and not any(environ.get(name) for name in _DISPLAYS):
        raise TunnelError("this session has no display for a browser. Use --no-browser to sign in with a browser on another machine")
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _OPEN, url), stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environ, start_new_session=True
    )
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if status != 0:
        raise TunnelError("no browser can be started. Use --no-browser to sign in with a browser on another machine")
