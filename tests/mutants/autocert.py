"""Defences of certificates that gate gets by itself: proofs for the authority alone, keys for nobody, patience after failures."""

from tests.mutants.mutant import door
from tests.mutants.operations import replaced

before_tls = door("proxy.listener.tls.acme_challenge", "unit/proxy/listener/tls/test_acme_challenge.py")
before_tls.without(
    "who offers other protocols too is a client",
    "HelloReader.look",
    replaced("hello.protocols == (ACME_TLS,)", "ACME_TLS in hello.protocols"),
)

self_made = door("proxy.listener.tls.self_signed", "unit/proxy/listener/tls/test_self_signed.py")
self_made.without("a proof speaks no HTTP", "_select_acme", replaced("SSL.NO_OVERLAPPING_PROTOCOLS", "offered[0]"))
self_made.without("clients must not take a proof for a certificate", "proof", replaced("(identifier, True)", "(identifier, False)"))

certificates = door("proxy.listener.tls.certificates", "unit/proxy/listener/tls/test_certificates.py")
certificates.without(
    "every certificate has its own staple",
    "ready_context",
    replaced("obtained.staple(fingerprint)", 'next(iter(obtained.staples.values()), b"")'),
)

storage = door("proxy.autocert.storage", "unit/proxy/autocert/test_storage.py")
storage.without("files are for their owner's eyes", "CertificateStorage._write", replaced("0o600", "0o644"))
storage.without("one process is elected", "CertificateStorage.elected", replaced("fcntl.LOCK_EX", "fcntl.LOCK_SH"))

attempts = door("proxy.autocert.attempts", "unit/proxy/autocert/test_attempts.py")
attempts.without("pauses grow", "Attempt.failed", replaced("min(self.failures, len(PAUSES) - 1)", "0"))

renewal = door("proxy.autocert.renewal", "unit/proxy/autocert/test_renewal.py")
renewal.without(
    "a certificate is renewed in time",
    "CertificateRenewal._is_due",
    replaced("shown.certificate.chain.renewal", "shown.certificate.chain.ends"),
)

of_envoy = door("proxy.envoy.resources.certificates", "unit/proxy/envoy/resources/test_certificates.py")
of_envoy.without(
    "Envoy's certificates have their own staples",
    "shown_certificates",
    replaced("obtained.staple(_fingerprint(pair.certificate))", "next(iter(obtained.staples.values()))"),
)

authority = door("proxy.autocert.authority", "unit/proxy/autocert/test_authority.py", "integration/proxy/autocert/test_authority.py")
authority.without("the authority is who it says", "AcmeAuthority.__init__", replaced("str(trusted_ca)", "False", 2))

DOORS = (before_tls, self_made, certificates, storage, attempts, renewal, of_envoy, authority)
