"""A user with access in every way: pages, a client application, forward auth; and a websocket, a download and a tunnel, held open.

person = stage.newcomer()
person.enter(stage)       # signs in, and holds three streams
person.passes(stage)      # {"page": True, ...}: which ways a new request is let in by
person.living(within)     # waits until gate has ended each of them; the names of those that live on
"""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, quote, urljoin, urlsplit

from OpenSSL import SSL

from tests.attack.identity_browser import HTML, Browser, Connections
from tests.attack.identity_pushed import TOKEN, ProvisionedStage
from tests.attack.identity_stage import application, bendable_provider, new_user, shared_stage
from tests.attack.run import expect
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, PEOPLE
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder
from tests.support.raw_http import Broken, RawClient
from tests.support.reloading import reload
from tests.support.tunnels import TunnelClient
from tests.support.upstream import SampleUpstream, TcpUpstream
from tests.support.websockets import CLOSE, TEXT, RawWebSocket, SocketUpstream

PAGES, SOCKETS, CLAIMED, ANY_USER = (f"{name}.localhost" for name in ("pages", "sockets", "claimed", "anybody"))
FORWARD = "forward.localhost"
TUNNEL_PORT = 5432
GROUP, TEAM = "the-group-of-the-standing", "red"
ADMINISTRATOR = "root@corp.example"
INTERVAL = 2  # seconds between two readings of what the provider says about who is signed in
NOWHERE = "http://localhost:9/back?state=mine"
STREAMS = ("websocket", "download", "tunnel")


class StandingStage(ProvisionedStage):
    """`administrator` is signed in to the admin; `policy` is what is in force when nothing was changed."""

    administrator: Browser
    policy: list[dict[str, Any]]
    _followed: list[dict[str, Any]]

    @property
    def forward_host(self) -> str:
        return f"{FORWARD}:{self.gate.port}"

    def newcomer(self) -> "User":
        """Not signed in yet."""
        sub = new_user(team=TEAM, email_verified=True)
        PEOPLE[sub]["email"] = f"{sub}@corp.example"
        user = self.add_user(sub)
        return User(sub, user, self.add_group(GROUP, "Standing", user), self.browser())

    def program_token(self, browser: Browser) -> str:
        """As a program of this person gets it."""
        url = browser.open(self.url(PAGES, f"/.gate/api/v1/login?gate_redirect_uri={quote(NOWHERE, safe='')}")).text
        page = browser.open(url)
        while page.location:
            page = browser.open(urljoin(page.url, page.location))
        fields = {name: unescape(value) for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page.text)}
        headers = (*HTML, ("Origin", self.authenticate.rstrip("/")), ("Content-Type", "application/x-www-form-urlencoded"))
        body = "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())
        agreed = browser.open(page.url, method="POST", headers=headers, body=body)
        while not agreed.location.startswith(NOWHERE):
            expect(agreed.location, f"no token for the program: {agreed.status} {agreed.text[:300]}")
            agreed = browser.open(urljoin(agreed.url, agreed.location))
        return parse_qs(urlsplit(agreed.location).query)["gate_jwt"][0]

    def open_admin(self, sub: str) -> None:
        """The administrator's browser is led to the provider, and back."""
        page = self.administrator.open(self.url(AUTHENTICATE_HOST, "/.gate/admin/"))
        while page.location:
            url = urljoin(page.url, page.location)
            page = self.administrator.open(self.idp.pick(url, sub) if url.startswith(self.idp.issuer) else url)
        expect(page.status == 200, f"the administrator is answered {page.status}: {page.text[:300]}")

    def follow(self, policy: list[dict[str, Any]]) -> None:
        if policy != self._followed:
            self._followed = policy
            reload(self.gate, policy=policy)


@dataclass
class User:
    """`user` and `group` are the provider's ids of them, as it pushes."""

    sub: str
    user: str
    group: str
    browser: Browser
    program: str = ""
    held: dict[str, RawClient] = field(default_factory=dict)

    def enter(self, stage: StandingStage) -> None:
        """A session at every host, a program's token, and three streams."""
        stage.sign_in(self.browser, self.sub, ANY_USER)
        for host, path, status in ((PAGES, "/", 200), (SOCKETS, "/not-here", 404), (CLAIMED, "/", 200)):
            answer = stage.enter(self.browser, host, path)
            expect(answer.status == status, f"a newcomer is answered {answer.status} at {host}")
        self.program = stage.program_token(self.browser)
        self._open_streams(stage)
        expect(all(self.passes(stage).values()), f"a newcomer is let in by these only: {self.passes(stage)}")

    def passes(self, stage: StandingStage) -> dict[str, bool]:
        """By which ways a new request is let in; no cookie that an answer sets or takes away is minded."""
        cookie = ("Cookie", self.browser.cookie_header(PAGES))
        requested_elsewhere = f"/verify?uri={quote(stage.url(PAGES), safe='')}"
        thief = stage.browser()
        answers = {
            "page": thief.open(stage.url(PAGES, "/x"), headers=(*HTML, cookie), cookies=False),
            "fetch": thief.open(stage.url(PAGES, "/x"), headers=(("Accept", "application/json"), cookie), cookies=False),
            "program": thief.open(stage.url(PAGES, "/x"), headers=(("Authorization", f"Gate {self.program}"),), cookies=False),
            "forward auth": thief.open(stage.url(PAGES, requested_elsewhere), headers=(cookie,), host=stage.forward_host, cookies=False),
        }
        return {name: answer.status == 200 for name, answer in answers.items()}

    def is_let_in(self, stage: StandingStage, host: str) -> bool:
        answer = stage.browser().open(stage.url(host), headers=(*HTML, ("Cookie", self.browser.cookie_header(host))), cookies=False)
        return answer.status == 200

    def _open_streams(self, stage: StandingStage) -> None:
        port, tls = stage.gate.port, stage.gate.certificates.client_context()
        socket = self.held["websocket"] = RawWebSocket(port, tls=tls, server_name=SOCKETS)
        lines = (f"Cookie: {self.browser.cookie_header(SOCKETS)}", f"Origin: {stage.url(SOCKETS, '')}")
        expect(socket.open(f"{SOCKETS}:{port}", "/polite", *lines).status == 101, "no websocket")
        socket.send_frame(TEXT, b"hello")
        expect(socket.frame().payload == b"hello", "no echo")
        download = self.held["download"] = RawClient(port, tls=tls, server_name=PAGES)
        head = f"GET /drip HTTP/1.1\r\nHost: {PAGES}:{port}\r\nCookie: {self.browser.cookie_header(PAGES)}\r\n\r\n"
        expect(b" 200 " in download.send(head.encode())._until(b"\r\n\r\n") and download.chunk(), "no download")
        tunnel = self.held["tunnel"] = TunnelClient(port, PAGES)
        expect(tunnel.open(f"{PAGES}:{TUNNEL_PORT}", f"Cookie: {self.browser.cookie_header(PAGES)}") == 200, "no tunnel")
        expect(tunnel.send(b"ping").exactly(4) == b"ping", "no echo through the tunnel")

    def living(self, within: float) -> list[str]:
        """Those streams that gate has not ended when the time is over; all are looked at together."""
        end = time.monotonic() + within
        with ThreadPoolExecutor(len(STREAMS)) as pool:
            ended = list(pool.map(lambda held: _ends(*held, end), self.held.items()))
        return [name for name, is_over in zip(self.held, ended, strict=True) if not is_over]

    def close(self) -> None:
        for client in self.held.values():
            client.__exit__()
        self.held.clear()


def _ends(name: str, client: RawClient, end: float) -> bool:
    """A download is cut within its body; a WebSocket gets the reason."""
    try:
        while time.monotonic() < end:
            if name == "websocket":
                frame = cast("RawWebSocket", client).frame()
                if frame.opcode == CLOSE:
                    expect(frame.close_code == 1008, f"the websocket was closed with {frame.close_code}")
                    return True
            elif name == "download":
                expect(client.chunk(), "the download ended as if it were whole")
            else:
                client.send(b"?").exactly(1)
    except TimeoutError:
        return False  # nothing came for as long as a raw client waits
    except (Broken, OSError, SSL.Error):
        return True
    return False


def standing_stage() -> StandingStage:
    stage = shared_stage("standing", _started)
    assert isinstance(stage, StandingStage)
    return stage


@contextmanager
def _started(directory: Path) -> Iterator[StandingStage]:
    with (
        application() as upstream,
        bendable_provider() as provider,
        SampleUpstream() as pages,
        SocketUpstream() as sockets,
        TcpUpstream(is_echo=True) as echo,
    ):
        builder = GateBuilder(provider.idp.issuer)
        builder.route(PAGES, to=pages.url, allowed_groups=[GROUP])
        builder.route(SOCKETS, to=sockets.url, allowed_groups=[GROUP], allow_websockets=True)
        builder.policy.append({"from": f"tcp+https://{PAGES}:{TUNNEL_PORT}", "to": echo.url, "allowed_groups": [GROUP]})
        builder.route(CLAIMED, to=pages.url, allowed_idp_claims={"team": [TEAM]})
        builder.route(ANY_USER, to=pages.url, allow_any_authenticated_user=True)
        builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, scim_token=TOKEN, groups_claim="")
        builder.setting(forward_auth_url=f"https://{FORWARD}:{builder.port}", idp_refresh_directory_interval=f"{INTERVAL}s")
        builder.setting(admin_allowed_users=[ADMINISTRATOR])
        with builder.start(directory) as gate:
            connections = Connections(gate.port, gate.certificates.client_context())
            try:
                stage = StandingStage(gate, provider, upstream, connections, gate.certificates.client_context())
                stage.administrator = stage.browser()
                stage.policy = stage._followed = builder.policy
                root = new_user(email=ADMINISTRATOR, email_verified=True)
                stage.open_admin(root)
                yield stage
            finally:
                with suppress(OSError):
                    connections.close()
