"""Defences of the decision: one reading of a request, the right route, the right person."""

from tests.mutants.mutant import door

canonical = door("authorize/policy/canonical.py", "unit/authorize/policy/test_canonical.py")
canonical.without("a backslash in a path is refused", r'rb"[^\x21-\x7e]|[#?\\]"', r'rb"[^\x21-\x7e]|[#?]"')
canonical.without("raw controls, spaces and non-ASCII in a path are refused", r'rb"[^\x21-\x7e]|[#?\\]"', r'rb"[#?\\]"')
canonical.without(
    "a malformed escape is refused",
    """raise BadRequest("the path holds a '%' that is not followed by two hexadecimal digits")""",
    "return escape[0]",
)
canonical.without("encoded controls and backslashes are refused", "if code < 0x20 or code in (0x5C, 0x7F):", "if False:")
canonical.without("overlong UTF-8 is refused", """raise BadRequest("the path's percent-encoded bytes are not UTF-8") from error""", "pass")
canonical.without("dot segments are resolved", "            del kept[-1:]\n", "            pass\n")
canonical.without("a parent hidden in a segment is refused", "            _refuse_hidden_parent(segment)\n", "")

request = door("authorize/policy/request.py", "unit/authorize/policy/test_request.py", "unit/authorize/policy/test_canonical.py")
request.without("controls in a query are refused", "if _REFUSED_IN_QUERY.search(query):", "if False:")
request.without("another port is another host", "port=None if port in default_ports and method != CONNECT else port", "port=None")
request.without("a tunnel's port is kept", " and method != CONNECT else port", " else port")

route_table = door("authorize/policy/route_table.py", "unit/authorize/policy/test_route_table.py")
route_table.without(
    "a path that upstreams may read as an earlier route's is refused", "                self._refuse_two_readings(path, route)\n", ""
)
route_table.without(
    "an exact host comes before a wildcard",
    """self._by_host.get((host, port, is_tunnel)) or self._by_host.get((f"*.{host.partition('.')[2]}", port, is_tunnel))""",
    """self._by_host.get((f"*.{host.partition('.')[2]}", port, is_tunnel)) or self._by_host.get((host, port, is_tunnel))""",
)
route_table.without("a wildcard stands for one label", "{host.partition('.')[2]}\", port", "{'.'.join(host.split('.')[-2:])}\", port")
route_table.without(
    "a request never matches a route for TCP",
    "setdefault((route.from_.host, port, route.is_tcp), [])",
    "setdefault((route.from_.host, port, False), [])",
)
route_table.without(
    "the first route in the list wins",
    "for route in self.routes:\n            if route.matches(path):",
    "for route in reversed(self.routes):\n            if route.matches(path):",
)

compiled_route = door("authorize/policy/compiled_route.py", "unit/authorize/policy/test_compiled_route.py")
compiled_route.without(
    "what is open to everyone waits for nobody",
    "all(criterion.look.nobody is not None for criterion in grants_of(self.route))",
    "True",
)
compiled_route.without("a regex matches the whole path", "re2.compile(text).fullmatch", "re2.compile(text).search")

criteria = door("authorize/policy/criteria.py", "unit/authorize/policy/test_criteria.py", "unit/authorize/policy/test_decision.py")
criteria.without("a preflight names its origin and method", " and request.origin and request.access_control_request_method", "")
criteria.without("a preflight is an OPTIONS request", 'request.method == "OPTIONS" and request.origin', "request.origin")
criteria.without("a bare subject that looks like an address is none", '"@" not in entry and ', "")
criteria.without(
    "a mailbox never passes for a user id",
    '(canonical_email(entry) for entry in listed if "/" not in entry)',
    "map(canonical_email, listed)",
)
criteria.without(
    "a domain is compared whole",
    "identity.rule_domain in listed",
    "identity.rule_email.endswith(tuple(listed))",
)
criteria.without("groups that are not told are in doubt", "    if identity.has_untold_groups:\n        return UNKNOWN\n", "")
criteria.without("true is not one", "return isinstance(value, bool), value", "return False, value")

decision = door(
    "authorize/policy/decision.py", "unit/authorize/policy/test_decision.py", "unit/authorize/policy/test_expressions.py",
    "unit/authorize/test_client_certificates.py",
)  # fmt: skip
decision.without("a rule must hold", "if value == TRUE and (not", "if value & TRUE and (not")
decision.without("a requirement must hold", "if step.value != TRUE:", "if False:")
decision.without("a deny that is not known not to hold denies", "        if value == FALSE:\n", "        if value != TRUE:\n")
decision.without("a deny that nobody can change denies", "if identity is not None or not value & FALSE:", "if identity is not None:")
decision.without("who decides a deny must sign in", "        is_open_question = True\n", "        pass\n")

truth = door("authorize/policy/truth.py", "unit/authorize/policy/test_truth.py", "unit/authorize/policy/test_expressions.py")
truth.without("the opposite of unknown is unknown", "UNKNOWN: UNKNOWN}[value]", "UNKNOWN: TRUE}[value]")
truth.without("unknown and yes is not yes", "return UNKNOWN if UNKNOWN in (one, other) else TRUE", "return TRUE")

expressions = door("authorize/policy/expressions.py", "unit/authorize/policy/test_expressions.py")
expressions.without("nor and not turn the answer round", "return NOT[some(case, trace)]", "return some(case, trace)")
expressions.without(
    "a reason that counts the other way round is not told",
    'is_told = is_told and expression.operator in ("and", "or")',
    "is_told = is_told",
)

people = door("authorize/policy/about_people.py", "unit/authorize/policy/test_about_people.py")
people.without("a claim that is missing is not known", "            if not values:\n                return UNKNOWN\n", "")
people.without("a claim that is true is not one", "truths if value is True or value is False else others", "truths | others")
people.without(
    "a value that is no text leaves in doubt", "FALSE if texts and len(texts) == len(values) else UNKNOWN", "FALSE if texts else UNKNOWN"
)
people.without(
    "several kinds of sign-in are none",
    "if len(found) != 1 or not isinstance(found[0], str):",
    "if not found or not isinstance(found[0], str):",
)

requests = door("authorize/policy/about_requests.py", "unit/authorize/policy/test_about_requests.py")
requests.without(
    "an address that is not known matches nothing",
    "return is_inside(address) if address else UNKNOWN",
    "return is_inside(address) if address else FALSE",
)
requests.without("a path is compared as upstreams may read it", "and fits_decoded(reading) is not holds:", "and False:")
requests.without("a secret header is not shown", "if found and is_secret_header(comparison.argument):", "if False:")
requests.without("a method that is not known matches nothing", "return UNKNOWN if not method else TRUE", "return TRUE")

cases = door("authorize/policy/criterion.py", "unit/authorize/policy/test_criterion.py", "unit/authorize/policy/test_about_requests.py")
cases.without("on nobody a person's criterion may be either", "step = nobody\n", "step = yes\n")
cases.without("a header that comes twice has no value", "None if name in folded else value", "value")
cases.without("what can't be evaluated is unknown", "step = steps[UNKNOWN]\n            look_at", "step = yes\n            look_at")

moments = door("authorize/policy/moments.py", "unit/authorize/policy/test_moments.py")
moments.without("a session from the future has no age", "issued > case.now + _CLOCKS_DIFFER", "False")
moments.without("a zone counts", "here = datetime.fromtimestamp(moment, zone)", 'here = datetime.fromtimestamp(moment, ZoneInfo("UTC"))')

language = door("gateproject/config/policy_language.py", "unit/gateproject/config/test_policy_language.py")
language.without("two keys in one map are no guess", "        if len(value) > 1:\n", "        if False:\n")
language.without(
    "an empty list lets nobody in",
    'if not isinstance(value, list) or not value:\n            raise self._wrong(place, "must be a list with at',
    'if not isinstance(value, list):\n            raise self._wrong(place, "must be a list with at',
)

values = door("gateproject/config/policy_values.py", "unit/gateproject/config/test_policy_language.py")
values.without("what trusted proxies alone may say is no criterion", 'if name.startswith("x-forwarded-"):', "if False:")
values.without("the end of a domain begins with a dot", 'if not end.startswith("."):', "if False:")
values.without("the end of an address is a whole domain", 'if not each.startswith((".", "@")):', "if False:")

certificates = door("authorize/client_certificates.py", "unit/authorize/test_client_certificates.py")
certificates.without("a certificate is for clients", "if ExtendedKeyUsageOID.CLIENT_AUTH not in usage:", "if False:")
certificates.without(
    "the use of a certificate is said",
    ".require_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _is_for_clients)",
    ".may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, None)",
)
certificates.without("an issuer may sign certificates", "if usage is not None and not usage.key_cert_sign:", "if False:")
certificates.without("an issuer for servers vouches for no client", "if usage is not None and not {", "if False and not {")
certificates.without("an authority is no client", "if constraints is not None and constraints.ca:", "if False:")
certificates.without("a verdict ends with the certificate", "known.first <= now <= known.last", "True")
certificates.without("a verdict is one authority's", "key = authority.id, chain", 'key = "", chain')
certificates.without(
    "what was said before is forgotten", "verdicts={authority.id: problem}", "verdicts={authority.id: problem, **shown.verdicts}"
)

email_address = door("authorize/policy/email_address.py", "unit/authorize/policy/test_email_address.py")
email_address.without("look-alike letters stay apart", "local.translate(_ASCII_LOWER)", "local.lower()")
email_address.without(
    "a domain that IDNA folds away is none",
    'return encoded if idna.ToUnicode(encoded) == label.lower() else ""',
    "return encoded",
)

identity_facts = door("authorize/identity_facts.py", "unit/authorize/test_identity_facts.py")
identity_facts.without("an unverified address matches no rule", ' if _may_match_by_email(facts) else ""', "")
identity_facts.without("every source must vouch for an address", "return all(_is_yes(value)", "return any(_is_yes(value)")
identity_facts.without("a claim rule can't reach an unverified address", 'claims.pop("email", None)', "pass")

identity_loader = door("authorize/identity_loader.py", "unit/authorize/test_identity_loader.py", "unit/authorize/test_bearers.py")
identity_loader.without(
    "no token lets in the deactivated", 'if directory_record is not None and directory_record.data.get("is_deactivated"):', "if False:"
)
identity_loader.without("an expired session is none", "        if now >= identity.expires:\n            return None\n", "")
identity_loader.without("a cached identity ends in time", "if now < identity.expires and sources", "if sources")
identity_loader.without(
    "a changed record makes another identity", " and sources.are_current(self._replica, identity.user_id) else None", " else None"
)
identity_loader.without(
    "group names count for some providers only", " if session.provider in PROVIDERS_WITH_GROUP_NAMES else frozenset()", ""
)
identity_loader.without("a group named like another's id does not take its rule", " if same_id is None)", ")")
identity_loader.without("a changed group is seen", "change is EVERYTHING or change.type == DIRECTORY_GROUP", "change is EVERYTHING")

service = door("authorize/service.py", "unit/authorize/test_service.py")
service.without("identity headers are for the allowed", "is_told = decision.is_allowed and not decision.is_preflight", "is_told = True")
service.without(
    "a preflight carries nobody's identity", "is_told = decision.is_allowed and not decision.is_preflight", "is_told = decision.is_allowed"
)
service.without(
    "a planted cookie hides no session",
    "            except SealError:\n                continue\n",
    "            except SealError:\n                break\n",
)
hosts = door("authorize/hosts.py", "unit/authorize/test_service.py", "unit/authorize/test_hosts.py")
hosts.without("an origin has the scheme of its route", " and scheme == self.scheme_of(host, port)", "")

_LANGUAGE = (truth, expressions, people, requests, cases, moments, language, values, certificates)
DOORS = (
    canonical, request, route_table, compiled_route, criteria, decision, *_LANGUAGE, email_address, identity_facts, identity_loader,
    service, hosts,
)  # fmt: skip
