"""Listeners of a configuration, and whether a process accepts there; certificates by expiry."""

import socket
from pathlib import Path

from gateproject.status.local_config import certificates, listeners
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.options import make_options


def test_each_address_is_tried(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_one:
        port, closed = open_one.getsockname()[1], free_port()
        options = make_options(tmp_path, address=f":{port}", metrics_address=f"127.0.0.1:{closed}", grpc_address="")
        assert [tuple(each) for each in listeners(options)] == [
            ("address", f":{port}", True),
            ("metrics_address", f"127.0.0.1:{closed}", False),
        ]


def test_certificates_have_a_name_and_an_end(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "auth.example.com", "wiki.example.com")
    pair = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    (found,) = certificates(make_options(tmp_path, **pair))
    assert found.name in ("auth.example.com", "wiki.example.com")
    assert found.ends.tzinfo is not None
    assert certificates(make_options(tmp_path)) == []
