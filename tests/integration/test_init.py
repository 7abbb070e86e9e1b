"""`gate init` as a person meets it: at a terminal, with a provider that says who it knows, until gate runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support import fork_server
from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, CertifiedProvider, why_not_here
from tests.support.certs import certificate_files
from tests.support.children import ROOT, clean_environment, free_port
from tests.support.faulty_servers import server, tls
from tests.support.fork_server import manage
from tests.support.raw_http import RawClient
from tests.support.terminal import terminal
from tests.support.upstream import SampleUpstream

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())
DOMAIN = "corp.localhost"
SIGN_IN, APP = f"authenticate.{DOMAIN}", f"app.{DOMAIN}"


def test_init_answers_produce_a_running_gate(tmp_path: Path) -> None:
    port, files = free_port(), certificate_files(tmp_path, SIGN_IN, APP)
    (tmp_path / "gate").mkdir()
    callback = f"https://{SIGN_IN}:{port}/oauth2/callback"
    with CertifiedProvider(callback) as provider, terminal("manage.py", "init", tmp_path / "gate") as user:
        user.answer("Domain of your applications", "https://no")
        user.answer("write the domain only", DOMAIN)
        user.answer("Source of certificates", "letters")
        user.answer("write autocert, files or balancer", "files")
        user.answer("certificate chain", "missing.pem, missing.pem")
        user.answer("can't be read", f"{files.certificate}, {files.key}")
        user.answer("Address to listen on", f"127.0.0.1:{port}")
        user.answer(f"[https://{SIGN_IN}:{port}]")
        user.answer("Kind of identity provider", "")
        user.answer("Issuer URL", f"{provider.url}/other")
        user.answer("Press Enter to continue")
        user.answer("Client id", CLIENT_ID)
        user.answer("Client secret", "wrong")
        user.answer("change the provider answers", "c")
        user.answer("Kind of identity provider", "")
        user.answer("Issuer URL", provider.url)
        user.answer("Client id", "")
        user.answer("Client secret [unchanged]", "")
        user.answer("change the provider answers", "c")
        user.answer("Kind of identity provider", "")
        user.answer("Issuer URL", "")
        user.answer("Client id", "")
        user.answer("Client secret [unchanged]", CLIENT_SECRET)
        user.answer("accepts this client", "")
        user.answer("URL of its upstream", "http://127.0.0.1:9")
        user.answer("Users to allow", "everybody")
        user.answer("is neither", "everyone")
        user.answer("Administrators", "alice@corp.example")
        user.answer("Start gate now?", "n")
        assert user.ended() == 0
        displayed = user.screen
        assert f"redirect URI               {callback}" in displayed
        assert CLIENT_SECRET not in displayed
        assert re.search(r"idp_client_secret: .*invalid_client", displayed)
        assert "another program" not in displayed
        written = tmp_path / "gate" / "config.yaml"
        assert written.stat().st_mode & 0o777 == 0o600
        with manage("rungate", "-config", written) as child:
            child.wait_for_line("gate is ready")
            with RawClient(port, tls=files.client_context(), server_name=APP) as client:
                head = f"GET / HTTP/1.1\r\nHost: {APP}:{port}\r\nAccept: text/html\r\n\r\n"
                answer = client.send(head.encode()).response()
            again = run(tmp_path / "gate", "--offline")
        assert answer.status == 302
        assert "already running" in again.stdout
        assert "another program" not in again.stdout
        assert dict(answer.headers)["location"].startswith(f"https://{SIGN_IN}:{port}/")


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return fork_server.run("manage.py", "init", *arguments)


def test_init_from_file_checks_provider_first(upstream: SampleUpstream, tmp_path: Path) -> None:
    answers = {
        "domain": DOMAIN,
        "certificates": "balancer",
        "address": f"127.0.0.1:{free_port()}",
        "client_id": CLIENT_ID,
        "client_secret": "wrong",
        "upstream": upstream.url,
        "who": ["@corp.example", "group:ops"],
    }
    with CertifiedProvider(f"https://{SIGN_IN}/oauth2/callback") as provider:
        file, folder = tmp_path / "answers.yaml", tmp_path / "gate"
        file.write_text(yaml.safe_dump({**answers, "issuer": provider.url}))
        refused = run(folder, "--answers", file)
        assert refused.returncode == 1
        assert "nothing was written" in refused.stderr
        assert re.search(r"^idp_client_secret: .*invalid_client", refused.stderr, re.MULTILINE)
        assert "Traceback" not in refused.stderr
        assert not (folder / "config.yaml").exists()
        file.write_text(yaml.safe_dump({**answers, "issuer": provider.url, "client_secret": CLIENT_SECRET}))
        done = run(folder, "--answers", file)
        assert done.returncode == 0, done.stderr
        before = (folder / "config.yaml").read_bytes()
        again = run(folder, "--answers", file)
        assert again.returncode == 0, again.stderr
        assert "was not changed" in again.stdout
        assert "0 errors" in again.stdout, again.stdout
        assert (folder / "config.yaml").read_bytes() == before
    away = run(folder)
    assert away.returncode == 1
    assert re.search(r"idp_provider_url: the identity provider .* (refuses|refused|can't be reached)", away.stdout), away.stdout


def test_two_at_once_write_one_configuration(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(
        f"domain: {DOMAIN}\ncertificates: balancer\nissuer: https://idp.invalid\nclient_id: a\nclient_secret: b\n"
        "upstream: http://127.0.0.1:9\nwho: everyone\n"
    )
    command = [sys.executable, "manage.py", "init", str(tmp_path / "gate"), "--answers", str(file), "--offline"]
    both = [
        subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    output = [child.communicate(timeout=60)[0] for child in both]
    assert sum("readable by you only" in each for each in output) == 1, output
    assert sum("already exists" in each for each in output) == 1, output
    assert "Traceback" not in "".join(output)


def test_self_signed_provider_has_a_clear_error(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "localhost")
    with server(tls(files)) as port:
        file = tmp_path / "answers.yaml"
        file.write_text(
            f"domain: {DOMAIN}\ncertificates: balancer\nissuer: https://localhost:{port}\nclient_id: a\nclient_secret: b\n"
            "upstream: http://127.0.0.1:9\nwho: everyone\n"
        )
        refused = run(tmp_path / "gate", "--answers", file)
    assert refused.returncode == 1
    assert "its CA is unknown" in refused.stderr, refused.stderr
