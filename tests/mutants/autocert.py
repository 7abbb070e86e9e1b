"""Defences of certificates that gate gets by itself: proofs for the authority alone, keys for nobody, patience after failures."""

from tests.mutants.mutant import door

before_tls = door("proxy/listener/tls/acme_challenge.py", "unit/proxy/listener/tls/test_acme_challenge.py")
before_tls.without("a proof is for a challenge of TLS", 'if challenge is None or challenge.kind != "tls-alpn-01":', "if challenge is None:")
before_tls.without("who offers other protocols too is a client", "if hello.protocols == (ACME_TLS,):", "if ACME_TLS in hello.protocols:")

hello = door("proxy/listener/tls/client_hello.py", "unit/proxy/listener/tls/test_client_hello.py")
hello.without("a message has a bound", "if whole > MOST_BYTES:", "if False:")
hello.without("records have a bound", "if self._taken > 2 * MOST_BYTES:", "if False:")

self_made = door("proxy/listener/tls/self_signed.py", "unit/proxy/listener/tls/test_self_signed.py")
self_made.without(
    "a proof speaks no HTTP", "if ACME_TLS in offered else SSL.NO_OVERLAPPING_PROTOCOLS", "if ACME_TLS in offered else offered[0]"
)
self_made.without("clients must not take a proof for a certificate", "(identifier, True)", "(identifier, False)")

redirects = door("proxy/listener/https_redirects.py", "unit/proxy/listener/test_https_redirects.py")
redirects.without("a proof is for its token", " or challenge.token != token", "")
redirects.without("a proof is for a challenge of HTTP", ' or challenge.kind != "http-01"', "")
redirects.without("a proof is read, not posted to", ' or scope["method"] not in ("GET", "HEAD")', "")
redirects.without("without autocert there is no proof", "self._obtained.is_on and (found", "(found")

certificates = door("proxy/listener/tls/certificates.py", "unit/proxy/listener/tls/test_certificates.py")
certificates.without("every certificate has its own staple", "obtained.staple(fingerprint)", 'next(iter(obtained.staples.values()), b"")')

storage = door("proxy/autocert/storage.py", "unit/proxy/autocert/test_storage.py")
storage.without(
    "no name leads out of the directory", "        if _HOST.fullmatch(host) is None:  # anybody", "        if False:  # anybody"
)
storage.without("files are for their owner's eyes", '| os.O_CLOEXEC, 0o600), "wb")', '| os.O_CLOEXEC, 0o644), "wb")')
storage.without("a file that others can read is shut", "                    path.chmod(0o600)", "                    pass")
storage.without("a directory that others can read is shut", "                path.chmod(0o700)", "                pass")
storage.without("one process is elected", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB")
storage.without("a challenge is the host's own", 'if found and found["host"] == host else None', "if found else None")

certificate = door("proxy/autocert/certificate.py", "unit/proxy/autocert/test_certificate.py")
certificate.without("a certificate is for its host", "if not covers(names_of(chain.leaf), host):", "if False:")
certificate.without("a certificate belongs to its key", "            check_pair(pair.certificate, pair.key)\n", "")
certificate.without("must-staple is asked for", "        if must_staple:\n", "        if False:\n")

attempts = door("proxy/autocert/attempts.py", "unit/proxy/autocert/test_attempts.py")
attempts.without("nobody asks within the pause", "return now >= self.not_before or", "return True or")
attempts.without("Retry-After is kept to", ", retry_after or 0.0)", ", 0.0)")
attempts.without("pauses grow", "PAUSES[min(self.failures, len(PAUSES) - 1)]", "PAUSES[0]")

renewal = door("proxy/autocert/renewal.py", "unit/proxy/autocert/test_renewal.py")
renewal.without(
    "only the elected asks", "            if not is_elected:\n                return", "            if False:\n                return"
)
renewal.without("a certificate is renewed in time", "now >= shown.certificate.chain.renewal", "now >= shown.certificate.chain.ends")
renewal.without("a revoked certificate is replaced", " or self.staples.is_revoked(shown.certificate.chain)", "")
renewal.without("a failure is kept", "        self.wanted.storage.keep_attempts(attempts)\n        shown", "        shown")
renewal.without("a challenge ends with its order", "            storage.forget_challenge(host)\n", "            pass\n")
renewal.without("a certificate waits for the staple that it must have", "        if waits and before", "        if False and before")
renewal.without("a limit of all stops all", "            attempts[ALL] = of_all.written()\n", "")

authority = door("proxy/autocert/authority.py", "unit/proxy/autocert/test_authority.py")
authority.without("proof is given for the host that was asked for", "if authorization.body.identifier.value != host:", "if False:")
authority.without("an account's key is kept before it is used", "        self._keep(self.account())\n        known", "        known")
authority.without("what an authority says is one line", "letter if letter.isprintable() else", "letter if True else")
authority.without("the authority is who it says", "self._network.verify_ssl = str(trusted_ca)", "self._network.verify_ssl = False")

ocsp = door("proxy/autocert/ocsp.py", "unit/proxy/autocert/test_ocsp.py")
ocsp.without("a response is the authority's", "        _check_signature(parsed, chain.issuer, now)\n", "")
ocsp.without("a response is about this certificate", "if _is_about(each, chain, chain.issuer)", "if True")
ocsp.without("a response is current", " or ends <= now", "")
ocsp.without("a responder was named for it", " and ExtendedKeyUsageOID.OCSP_SIGNING in usages", "")
ocsp.without("a responder's own time counts", "if is_current and", "if")
ocsp.without("a responder was named by the issuer", "            certificate.verify_directly_issued_by(issuer)\n", "")
ocsp.without("a weak signature proves nothing", "algorithm is not None and algorithm.name in _WEAK", "False")
ocsp.without("an answer has a bound", "if len(received) > MOST_BYTES:", "if False:")

staples = door("proxy/autocert/staples.py", "unit/proxy/autocert/test_staples.py")
staples.without("a revocation is shown to nobody", " if not staple.is_revoked}", "}")
staples.without("what has ended is shown to nobody", " and staple.ends > now}", "}")

hosts = door("config/groups/autocert.py", "unit/config/groups/test_autocert.py")
hosts.without("the authority's protocol is https", 'if settings.autocert_ca.scheme != "https":', "if False:")
hosts.without("private names are kept from the public authority", "if settings.autocert_ca is None and _PRIVATE", "if False and _PRIVATE")

DOORS = (before_tls, hello, self_made, redirects, certificates, storage, certificate, attempts, renewal, authority, ocsp, staples, hosts)
