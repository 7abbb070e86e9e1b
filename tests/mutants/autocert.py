"""Defences of certificates that gate gets by itself: proofs for the authority alone, keys for nobody, patience after failures."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced, skips

before_tls = door("proxy.listener.tls.acme_challenge", "unit/proxy/listener/tls/test_acme_challenge.py")
before_tls.without("a proof is for a challenge of TLS", "HelloReader._validate", never('challenge.kind != "tls-alpn-01"'))
before_tls.without(
    "who offers other protocols too is a client",
    "HelloReader.look",
    replaced("hello.protocols == (ACME_TLS,)", "ACME_TLS in hello.protocols"),
)

hello = door("proxy.listener.tls.client_hello", "unit/proxy/listener/tls/test_client_hello.py")
hello.without("a message has a bound", "ClientHelloParser._whole", never("whole > MOST_BYTES"))
hello.without("records have a bound", "ClientHelloParser.take", never("self._taken > 2 * MOST_BYTES"))

self_made = door("proxy.listener.tls.self_signed", "unit/proxy/listener/tls/test_self_signed.py")
self_made.without("a proof speaks no HTTP", "_select_acme", replaced("SSL.NO_OVERLAPPING_PROTOCOLS", "offered[0]"))
self_made.without("clients must not take a proof for a certificate", "proof", replaced("(identifier, True)", "(identifier, False)"))

redirects = door("proxy.listener.https_redirects", "unit/proxy/listener/test_https_redirects.py")
redirects.without("a proof is for its token", "HttpsRedirects._proof", never("challenge.token != token"))
redirects.without("a proof is for a challenge of HTTP", "HttpsRedirects._proof", never('challenge.kind != "http-01"'))
redirects.without("a proof is read, not posted to", "HttpsRedirects._proof", never('scope["method"] not in ("GET", "HEAD")'))

certificates = door("proxy.listener.tls.certificates", "unit/proxy/listener/tls/test_certificates.py")
certificates.without(
    "every certificate has its own staple",
    "ready_context",
    replaced("obtained.staple(fingerprint)", 'next(iter(obtained.staples.values()), b"")'),
)

storage = door("proxy.autocert.storage", "unit/proxy/autocert/test_storage.py")
storage.without("no name leads out of the directory", "CertificateStorage.challenge", never("_HOST.fullmatch(host) is None"))
storage.without("files are for their owner's eyes", "CertificateStorage._write", replaced("0o600", "0o644"))
storage.without("a file that others can read is shut", "CertificateStorage._read", skips("path.chmod(0o600)"))
storage.without("a directory that others can read is shut", "CertificateStorage.open", skips("path.chmod(0o700)"))
storage.without("one process is elected", "CertificateStorage.elected", replaced("fcntl.LOCK_EX", "fcntl.LOCK_SH"))
storage.without("a challenge is the host's own", "CertificateStorage.challenge", always('found["host"] == host'))

certificate = door("proxy.autocert.certificate", "unit/proxy/autocert/test_certificate.py")
certificate.without("a certificate is for its host", "ObtainedCertificate.read", never("not covers(names_of(chain.leaf), host)"))
certificate.without("a certificate belongs to its key", "ObtainedCertificate.read", skips("check_pair(pair.certificate, pair.key)"))
certificate.without("must-staple is asked for", "CertificateRequest.make", never("must_staple"))

attempts = door("proxy.autocert.attempts", "unit/proxy/autocert/test_attempts.py")
attempts.without("nobody asks within the pause", "Attempt.may_begin", always("now >= self.not_before"))
attempts.without("Retry-After is kept to", "Attempt.failed", never("retry_after"))
attempts.without("pauses grow", "Attempt.failed", replaced("min(self.failures, len(PAUSES) - 1)", "0"))

renewal = door("proxy.autocert.renewal", "unit/proxy/autocert/test_renewal.py")
renewal.without("only the elected asks", "CertificateRenewal._obtain_all", never("not is_elected"))
renewal.without(
    "a certificate is renewed in time",
    "CertificateRenewal._is_due",
    replaced("shown.certificate.chain.renewal", "shown.certificate.chain.ends"),
)
renewal.without(
    "a revoked certificate is replaced", "CertificateRenewal._is_due", never("self.staples.is_revoked(shown.certificate.chain)")
)
renewal.without("a failure is kept", "CertificateRenewal._failed", skips("self.wanted.storage.keep_attempts(...)"))
renewal.without("a challenge ends with its order", "CertificateRenewal._obtain", skips("storage.forget_challenge(host)"))
renewal.without("a certificate waits for the staple that it must have", "CertificateRenewal._served", never("self._lacks_staple(shown)"))
renewal.without("who insists on a staple gets one", "CertificateRenewal._show", always("not self._lacks_staple(each)"))

of_envoy = door("proxy.envoy.resources.certificates", "unit/proxy/envoy/resources/test_certificates.py")
of_envoy.without(
    "Envoy's certificates have their own staples",
    "shown_certificates",
    replaced("obtained.staple(_fingerprint(pair.certificate))", "next(iter(obtained.staples.values()))"),
)
renewal.without("a limit of all stops all", "CertificateRenewal._failed", skips("attempts[ALL] = ..."))

authority = door("proxy.autocert.authority", "unit/proxy/autocert/test_authority.py", "integration/proxy/autocert/test_authority.py")
authority.without(
    "proof is given for the host that was asked for", "AcmeAuthority._obtain", never("authorization.body.identifier.value != host")
)
authority.without(
    "an account's key is kept before it is used",
    "AcmeAuthority._new_account",
    replaced("self._keep(self.account())\nknown = ...", "known = ..."),
)
authority.without("what an authority says is one line", "_said", always("letter.isprintable()"))
authority.without("the authority is who it says", "AcmeAuthority.__init__", replaced("str(trusted_ca)", "False", 2))

ocsp = door("proxy.autocert.ocsp", "unit/proxy/autocert/test_ocsp.py")
ocsp.without("a response is the authority's", "verify", skips("_check_signature(...)"))
ocsp.without("a response is about this certificate", "verify", always("_is_about(each, chain, chain.issuer)"))
ocsp.without("a response is current", "verify", never("ends <= now"))
ocsp.without("a responder was named for it", "_signers", always("ExtendedKeyUsageOID.OCSP_SIGNING in usages"))
ocsp.without("a responder's own time counts", "_signers", always("is_current"))
ocsp.without("a responder was named by the issuer", "_signers", skips("certificate.verify_directly_issued_by(...)"))
ocsp.without("a weak signature proves nothing", "_verify", never("algorithm is not None and algorithm.name in _WEAK"))
ocsp.without("an answer has a bound", "ask", never("len(received) > MOST_BYTES"))

staples = door("proxy.autocert.staples", "unit/proxy/autocert/test_staples.py")
staples.without("a revocation is shown to nobody", "StapleCache.shown", always("not staple.is_revoked"))
staples.without("what has ended is shown to nobody", "StapleCache.shown", always("staple.ends > now"))

hosts = door("config.settings.autocert", "unit/config/settings/test_autocert.py")
hosts.without("the authority's protocol is https", "_authority_is_one", never('settings.autocert_ca.scheme != "https"'))
hosts.without("private names are kept from the public authority", "why_not", never("settings.autocert_ca is None"))

DOORS = (
    before_tls,
    hello,
    self_made,
    redirects,
    certificates,
    of_envoy,
    storage,
    certificate,
    attempts,
    renewal,
    authority,
    ocsp,
    staples,
    hosts,
)
