"""A configured CA is trusted in addition to the system's."""

import ssl
from pathlib import Path

from foundation.client_tls import client_context
from tests.support.certs import certificate_files


def test_custom_authority_is_used_alongside_the_system_s(tmp_path: Path) -> None:
    pem = certificate_files(tmp_path, "localhost").authority.read_bytes()
    both, own = client_context(pem), ssl.PEM_cert_to_DER_cert(pem.decode())
    assert {*client_context(None).get_ca_certs(binary_form=True), own} == {*both.get_ca_certs(binary_form=True)}
    assert (both.verify_mode, both.check_hostname) == (ssl.CERT_REQUIRED, True)
