"""The demo as its visitors see it: `manage.py demo` and a real browser."""

import asyncio
import hashlib
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from mcp import MCPError

from authorize.policy.reasons import Reason
from examples.demo import loopback
from examples.demo.configuration import Ports
from examples.demo.people import ALICE, AUTHENTICATE_HOST, BOB, DemoUser
from tests.support.browser import Browser, headless_browser
from tests.support.certs import spki_hash
from tests.support.children import Child, clean_environment, free_port, wait_until
from tests.support.eventually import PATIENCE
from tests.support.fork_server import python
from tests.support.mcp_client import ClientStorage, mcp_client, oauth_provider


class RunningDemo:
    def __init__(self, folder: Path, *more: str):
        self.folder = folder
        self.ports = Ports(free_port(), free_port())
        self.child = python(
            "manage.py", "demo", "--port", str(self.ports.gate), "--idp-port", str(self.ports.provider), "--folder", folder, *more
        )

    def url(self, name: str, path: str = "/") -> str:
        return self.ports.url(f"{name}.localhost", path)

    @property
    def trusted_spki(self) -> str:
        return spki_hash(x509.load_pem_x509_certificate((self.folder / "certificate.pem").read_bytes()))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    running = RunningDemo(tmp_path_factory.mktemp("demo"))
    with running.child as child:
        child.wait_for_line("gate is ready: ", timeout=60)
        yield running


@pytest.fixture(scope="module")
def one_browser(demo: RunningDemo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=demo.trusted_spki) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Browser:
    one_browser.forget_everything()
    return one_browser


def pick(browser: Browser, demo: RunningDemo, user: str) -> None:
    browser.wait_for_url(demo.ports.provider_url)
    browser.click(f'button[value="{user}"]')


def sign_in(browser: Browser, demo: RunningDemo, user: str, url: str) -> None:
    browser.open(url)
    pick(browser, demo, user)
    browser.wait_for_url(url)


def test_alice_signs_in_and_hello_verifies_the_assertion(demo: RunningDemo, browser: Browser) -> None:
    browser.open(demo.url("hello", "/a%20page?first=1&second=two"))
    browser.wait_for_url(demo.ports.provider_url)
    browser.picture("provider")
    pick(browser, demo, "alice")
    browser.wait_for_url(demo.url("hello", "/a%20page?first=1&second=two"))
    browser.picture("hello")
    assert browser.find("#verdict").get_attribute("data-verified") == "yes"
    assert browser.find("#visitor").text == ALICE.email
    headers = browser.find("#headers").text
    assert "x-gate-claim-groups engineering" in headers.lower()
    assert "_gate" not in headers


def test_bob_is_denied_at_finance(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "bob", demo.url("finance"))
    browser.picture("refused")
    assert "You don't have access" in browser.text
    assert Reason.USER_NOT_LISTED.value in browser.text
    assert "Request id" in browser.text
    assert "This quarter" not in browser.text


def test_one_sign_in_serves_every_site(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "alice", demo.url("hello"))
    browser.open(demo.url("finance"))
    browser.wait_for_url(demo.url("finance"))
    browser.picture("finance")
    assert "This quarter" in browser.text


def test_session_page_has_user_and_groups(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "alice", demo.url("hello"))
    browser.open(demo.ports.url(AUTHENTICATE_HOST, "/.gate/"))
    browser.picture("session")
    assert ALICE.email in browser.text
    assert "Engineering team" in browser.text


def test_portal_lists_applications_that_each_user_may_open(demo: RunningDemo, browser: Browser) -> None:
    portal = demo.ports.url(AUTHENTICATE_HOST, "/.gate/")
    sign_in(browser, demo, "bob", portal)
    browser.picture("portal-of-bob")
    assert [each.text for each in browser.driver.find_elements("css selector", ".apps b")] == ["Chat", "Echo", "Hello", "Public", "Notes"]
    assert "Finance" not in browser.driver.page_source


def test_after_signing_out_the_session_is_gone_at_every_site(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "alice", demo.url("hello"))
    browser.open(demo.url("finance"))
    browser.wait_for_url(demo.url("finance"))
    browser.click("#sign-out")
    browser.wait_for_url(demo.ports.url(AUTHENTICATE_HOST))
    browser.picture("sign-out")
    browser.click("main form button")
    browser.wait_for_url(demo.ports.provider_url + "/oauth2/end_session")
    browser.picture("provider-sign-out")
    browser.click("main form button")
    browser.wait_for_url(demo.url("public"))
    for site in ("hello", "finance"):
        browser.open(demo.url(site))
        browser.wait_for_url(demo.ports.provider_url)


def start_command(demo: RunningDemo, name: str, home: Path, *more: str) -> Child:
    """Start the command that the demo prints; its browser writes the URL to a file."""
    (line,) = [line for line in demo.child.lines if f"manage.py {name}" in line]
    arguments = shlex.split(line.rpartition("$(")[2].partition(")")[0])[1:]
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {home}/url.new && mv {home}/url.new {home}/url\n')
    browser.chmod(0o755)
    environment = clean_environment(HOME=str(home), XDG_CACHE_HOME="", BROWSER=f"{browser} %s")
    return python(*arguments, *more, environment=environment)


def allow_command(demo: RunningDemo, browser: Browser, home: Path, user: str) -> None:
    wait_until((home / "url").exists, "the command opens the browser")
    browser.open((home / "url").read_text().strip())
    pick(browser, demo, user)
    browser.wait_for_url(demo.ports.url(AUTHENTICATE_HOST, "/.gate/oauth/authorize"))
    browser.picture("tunnel")
    browser.submit('button[value="allow"]')
    if browser.url.startswith(demo.ports.provider_url):
        pick(browser, demo, user)
    browser.wait_for_url("http://127.0.0.1:")
    assert "The sign-in is complete" in browser.text


def test_a_tunnel_for_tcp_opens_by_the_line_that_is_printed(demo: RunningDemo, browser: Browser, tmp_path: Path) -> None:
    with start_command(demo, "tunnel", tmp_path, "--listen", "127.0.0.1:0") as tunnel:
        port = int(tunnel.wait_for_line("listening on").split(" for ")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            allow_command(demo, browser, tmp_path, "carol")
            client.sendall(b"through gate")
            assert client.recv(100) == b"through gate"


async def test_a_program_gets_a_token_by_the_line_that_is_printed(demo: RunningDemo, browser: Browser, tmp_path: Path) -> None:
    with start_command(demo, "token", tmp_path) as command:
        allow_command(demo, browser, tmp_path, "alice")
        assert command.ended(PATIENCE) == 0
    async with loopback.client(demo.folder / "ca.pem") as client:
        page = await client.get(demo.url("hello"), headers={"Authorization": f"Bearer {command.lines[-1]}"})
    assert (page.status_code, "alice@example.com" in page.text) == (200, True)


@pytest.mark.parametrize(("user", "tools"), [("alice", ["list_notes", "add_note", "delete_note"]), ("bob", ["list_notes", "add_note"])])
async def test_agent_connects_by_the_url_that_is_printed(demo: RunningDemo, browser: Browser, user: str, tools: list[str]) -> None:
    (line,) = [line for line in demo.child.lines if "claude mcp add" in line]
    url = line.split()[-1]
    storage = ClientStorage(client_name="Notes agent", redirect_uri=demo.url("public", "/callback"))

    def authorize(address: str) -> str:
        browser.open(address)
        pick(browser, demo, user)
        browser.wait_for_url(demo.ports.url(AUTHENTICATE_HOST, "/.gate/oauth/authorize"))
        browser.picture("agent-consent")
        browser.click('button[value="allow"]')
        pick(browser, demo, user)  # again, because the agent's session gets separate provider tokens
        browser.wait_for_url(storage.redirect_uri)
        return browser.url

    auth = oauth_provider(url, storage, lambda address: asyncio.to_thread(authorize, address))
    async with mcp_client(url, demo.folder / "ca.pem", mode="auto", auth=auth) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == tools
        assert "Added note" in (await client.call_tool("add_note", {"text": f"written for {user}"})).content[0].text
        if "delete_note" not in tools:
            with pytest.raises(MCPError, match="The tool delete_note is not allowed"):
                await client.call_tool("delete_note", {"number": 1})
    await asyncio.to_thread(browser.open, demo.url("notes"))
    browser.picture("notes")
    assert f"{user}@example.com written for {user}" in browser.find("#notes").text
    assert browser.find("#mcp-url").text == url


def test_public_site_without_sign_in(demo: RunningDemo, browser: Browser) -> None:
    browser.open(demo.url("public"))
    browser.picture("public")
    assert browser.url == demo.url("public")
    assert "Open to everybody" in browser.text


def test_upload_arrives_completely_and_is_hashed(demo: RunningDemo, browser: Browser, tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    file = tmp_path / "sample.bin"
    file.write_bytes(content)
    sign_in(browser, demo, "alice", demo.url("files"))
    browser.find("#file").send_keys(str(file))
    browser.click("#upload button")
    demo.child.wait_for(lambda: "SHA-256" in browser.find("#result").text, "the upload's result")
    browser.picture("files")
    assert not browser.find("#stop").is_displayed()
    assert browser.find("#result").text == f"All 5.1 MB arrived. SHA-256 {hashlib.sha256(content).hexdigest()}"


def test_two_users_chat_with_names(demo: RunningDemo, browser: Browser, tmp_path: Path) -> None:
    sign_in(browser, demo, "alice", demo.url("chat"))
    with headless_browser(tmp_path / "bob", trusted_spki=demo.trusted_spki) as other:
        sign_in(other, demo, "bob", demo.url("chat"))
        for each in (browser, other):
            demo.child.wait_for(lambda each=each: "bob@example.com" in each.find("#here").text, "both are in the room")
        send(browser, "Hello Bob, did the new release reach you?")
        demo.child.wait_for(lambda: "did the new release reach you" in other.find("#messages").text, "alice's message at bob's")
        send(other, "It did. <b>Thanks</b> & all the best!")
        demo.child.wait_for(lambda: "all the best" in browser.find("#messages").text, "bob's message at alice's")
        browser.picture("chat")
        assert "It did. <b>Thanks</b> & all the best!" in browser.find("#messages").text
        assert [sender.text for sender in browser.driver.find_elements("css selector", "#messages .who b")] == names_of(ALICE, BOB)
        assert browser.find("#messages li.mine .text").text == "Hello Bob, did the new release reach you?"
        assert other.find("#messages li.mine .text").text == "It did. <b>Thanks</b> & all the best!"


def test_sign_out_closes_chat(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "bob", demo.url("chat"))
    demo.child.wait_for(lambda: browser.find("#state").get_attribute("data-open") == "yes", "the websocket is open")
    browser.driver.switch_to.new_window("tab")
    browser.open(demo.url("hello"))
    browser.submit("#sign-out")
    browser.click("main form button")
    browser.wait_for_url(demo.ports.provider_url + "/oauth2/end_session")
    browser.driver.close()
    browser.driver.switch_to.window(browser.driver.window_handles[0])
    demo.child.wait_for(lambda: "Your access has ended" in browser.find("#state").text, "the page says so")
    browser.picture("chat-ended")
    assert not browser.find("#say button").is_enabled()


def test_carol_is_refused_at_the_chat(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "carol", demo.url("chat"))
    assert "You don't have access" in browser.text


def send(browser: Browser, text: str) -> None:
    browser.find("#text").send_keys(text)
    browser.click("#say button")


def names_of(*people: DemoUser) -> list[str]:
    return [user.full_name for user in people]


def test_the_admin_shows_alice_sessions_users_groups_and_routes(demo: RunningDemo, browser: Browser) -> None:
    front_page = demo.ports.url(AUTHENTICATE_HOST, "/.gate/admin/")
    sign_in(browser, demo, "alice", front_page)
    browser.picture("admin")
    for page, expected in (
        ("Sessions", ALICE.email),
        ("Users", "Alice Archer"),
        ("Groups", "Engineering"),
        ("Routes", "finance.localhost"),
    ):
        browser.open(front_page)
        link = browser.driver.find_element("link text", page)
        address = str(link.get_attribute("href"))
        link.click()
        browser.wait_for_url(address)
        browser.picture(f"admin-{page.lower()}")
        assert expected in browser.find("#content").text


def test_carol_is_refused_at_the_admin(demo: RunningDemo, browser: Browser) -> None:
    sign_in(browser, demo, "carol", demo.ports.url(AUTHENTICATE_HOST, "/.gate/admin/"))
    browser.picture("admin-refused")
    assert "carol@example.com, who" in browser.text
    assert "Sessions" not in browser.text


def test_it_runs_by_daphnes_command_too(tmp_path: Path) -> None:
    demo = RunningDemo(tmp_path / "demo", "--daphne")
    with demo.child as child:
        child.wait_for_line("gate is ready: ", timeout=60)
        with headless_browser(tmp_path / "profile", trusted_spki=demo.trusted_spki) as browser:
            sign_in(browser, demo, "alice", demo.url("hello"))
            assert browser.find("#verdict").get_attribute("data-verified") == "yes"
        assert child.stop(signal.SIGINT) == 0
    assert "Traceback" not in child.output


def test_ctrl_c_stops_cleanly(tmp_path: Path) -> None:
    demo = RunningDemo(tmp_path / "demo")
    with demo.child as child:
        child.wait_for_line("gate is ready: ", timeout=60)
        assert child.stop(signal.SIGINT) == 0
    assert "Traceback" not in child.output
    for port in (demo.ports.gate, demo.ports.provider):
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_taken_port_is_an_error_that_names_it_and_the_way_out(tmp_path: Path) -> None:
    demo_ports = Ports(free_port(), free_port())
    with socket.create_server(("127.0.0.1", demo_ports.provider)):
        arguments = ("--port", str(demo_ports.gate), "--idp-port", str(demo_ports.provider), "--folder", str(tmp_path))
        with python("manage.py", "demo", *arguments) as child:
            assert child.process.wait(30) == 1
    assert f"port {demo_ports.provider}" in child.output
    assert "IDP_PORT=" in child.output
