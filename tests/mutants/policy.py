"""Defences of the decision: one reading of a request, the right route, the right person."""

from tests.mutants.mutant import door

canonical = door("authorize/policy/paths/canonical.py", "unit/authorize/policy/paths/test_canonical.py")
canonical.without("a backslash in a path is refused", r'set(b"#?\\")', r'set(b"#?")')
canonical.without(
    "raw controls, spaces and non-ASCII in a path are refused",
    "_WRITTEN = bytes(set(range(0x21, 0x7F))",
    "_WRITTEN = bytes(set(range(0x100))",
)
canonical.without(
    "a malformed escape is refused",
    """raise BadRequest("the path holds a '%' that is not followed by two hexadecimal digits") from error""",
    'return raw.decode("ascii")',
)
canonical.without("encoded controls and backslashes are refused", "if len(decoded.translate(None, _NEVER_ESCAPED)) <", "if len(decoded) <")
canonical.without("overlong UTF-8 is refused", """raise BadRequest("the path's percent-encoded bytes are not UTF-8") from error""", "pass")
canonical.without("dot segments are resolved", "        del kept[-1:]\n", "")
canonical.without("a parent hidden in a segment is refused", "    _refuse_hidden_parents(named)\n", "")
canonical.without("a parent hidden before a question mark is refused", ', ("%3F", "?"), ("%23", "?"))', ")")
canonical.without("a parent that was escaped again is refused", '_ESCAPED_AGAIN.sub("%", named.upper())', "named.upper()")
canonical.without("a parent in escapes of either case is refused", "named.upper()", "named")
canonical.without("a path with a dot segment is not plain", ' and b"/." not in raw and', " and")

request = door("authorize/policy/request.py", "unit/authorize/policy/test_request.py", "unit/authorize/policy/paths/test_canonical.py")
request.without("a method in another spelling is refused", "|~0-9A-Z]{1,32}", "|~0-9A-Za-z]{1,32}")
request.without("what is judged has a method in capitals", "    if method:\n        require_method(method)\n", "")
request.without(
    "a preflight asks for a method in capitals",
    '        require_method(access_control_request_method.decode("latin-1"))\n',
    "        pass\n",
)
request.without("controls in a query are refused", "if _REFUSED_IN_QUERY.search(query):", "if False:")
request.without("another port is another host", "port=None if port in default_ports and method != CONNECT else port", "port=None")
request.without("a tunnel's port is kept", " and method != CONNECT else port", " else port")

readings = door("authorize/policy/paths/readings.py", "unit/authorize/policy/paths/test_readings.py", "contract/test_path_readings.py")
readings.without("a path that is read alike by all has neither parameters nor double slashes", 'if ";" in path or "//" in path or', "if")
readings.without("parameters are cut before decoding", "found = _cut((written,))", "found = dict.fromkeys((written,))")
readings.without("parameters are cut after decoding", "found |= _cut(decoded)", "found |= decoded")
readings.without("parameters are cut segment by segment", '            found[_PARAMETERS.sub("", text)] = None\n', "")
readings.without("parameters of the last segment are cut alone", '            found[front + slash + last.partition(";")[0]] = None\n', "")
readings.without("all is cut from the first semicolon", '            found[text.partition(";")[0]] = None\n', "")
readings.without("an encoded slash is decoded", 'once = most.replace("%2F", "/")', "once = most")
readings.without("an encoded slash is left alone", "return (most, once)", "return (once,)")
readings.without("an encoded semicolon is decoded", 'most = text.replace("%3B", ";")', "most = text")
readings.without("some decode twice", "return (most, once, twice, ", "return (most, once, ")
readings.without("some decode until nothing changes", '_ESCAPED_AGAIN.sub(_decoded_again, once) if "%2525" in once else twice', "twice")
readings.without(
    "a decoded question mark ends the path",
    "        found |= _without_queries(found)\n        decoded",
    "        decoded",
)
readings.without(
    "a question mark that was encoded twice ends the path",
    "            found |= _without_queries(found)\n            #",
    "            #",
)
readings.without("a backslash that was encoded twice is a slash", 'text.replace("%5C", "/")', "text")
readings.without("slashes are merged", "found[_merged(text)] = None", "pass")
readings.without("two slashes begin a host", '(text[2:], text.lstrip("/"))', '(text.lstrip("/"),)')
readings.without("a session in the path is dropped", '_COOKIELESS.sub("", text) or "/"', "text")
readings.without("a session behind slashes is dropped with them", '_COOKIELESS_OF_MERGED.sub("", text) or "/"', "text")
readings.without("a session in the path is seen", ' or ("(" in path and _COOKIELESS.search(path) is not None)', "")
readings.without("a path holds few marks", "if marks > MOST_MARKS or", "if")
readings.without("a long path holds fewer marks", " or marks * len(path) > MOST_MARKS * LONGEST_WITH_MOST_MARKS:", ":")
readings.without("marks are counted before readings are made", "    _require_few_marks(path)\n    return", "    return")
readings.without("a path has few readings", "if len(found) > MOST_READINGS:", "if False:")
readings.without("readings of merged slashes are counted", "    _require_few(found)\n    return", "    return")
readings.without("many slashes begin a host", '(text[2:], text.lstrip("/"))', "(text[2:],)")
readings.without("escapes of what ends nothing are decoded", "return _forms(_named(path))", "return _forms(path)")
readings.without(
    "marks are counted before names are looked for",
    "    _require_few_marks(path)\n    forms",
    "    forms",
)

route_table = door("authorize/policy/route_table.py", "unit/authorize/policy/test_route_table.py", "contract/test_path_readings.py")
route_table.without(
    "all readings belong to the route that was found",
    "                    self._require_all_readings(path, route)\n",
    "                    pass\n",
)
route_table.without(
    "later routes are asked for readings, too",
    "if owner is not found and not",
    "if owner in self.routes[: self.routes.index(found)] and not",
)
route_table.without(
    "a reading that no route has is refused", "if owner is not found and not", "if owner is not None and owner is not found and not"
)
route_table.without("every reading is asked about", "for reading in taken_for:", "for reading in taken_for[-1:]:")
route_table.without("an earlier route has its decoded names", "not (is_behind and all(", "not (all(")
route_table.without(
    "a later route has its decoded names",
    "route.resembles(reading) and not (is_behind and all(map(route.resembles, written))):",
    "route.resembles(reading) and not is_behind:",
)
route_table.without("only an expression that speaks of escapes takes them", "if found.names_percent else {}", "if True else {}")
route_table.without(
    "a path of too many readings is refused without a route, too",
    "        readings(path)  # refused alike where there is a route and where there is none\n",
    "",
)
route_table.without("only the first route of all paths spares readings", " and not self.routes[0].takes_all:", " and not route.takes_all:")
route_table.without(
    "routes that name escapes are asked about plain paths",
    "if (self.have_escapes or not is_read_alike(path))",
    "if not is_read_alike(path)",
)
route_table.without(
    "an exact host comes before a wildcard",
    """self._by_host.get((host, port, is_tunnel)) or self._by_host.get((self._wildcard_of(host), port, is_tunnel))""",
    """self._by_host.get((self._wildcard_of(host), port, is_tunnel)) or self._by_host.get((host, port, is_tunnel))""",
)
route_table.without("a wildcard stands for one label", "{host.partition('.')[2]}", "{'.'.join(host.split('.')[-2:])}")
route_table.without("no wildcard stands for a host of ours", "if host in self._own_hosts else", "if False else")
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

errors = door("foundation/errors.py", "unit/proxy/observe/test_access_log.py")
errors.without(
    "a client learns nothing of other routes",
    'super().__init__("the path can be read in more than one way")',
    'super().__init__(f"it belongs to {owner}")',
)
errors.without("the log says whose the path is to others", "return self._facts", "return str(self)")

compiled_route = door("authorize/policy/compiled_route.py", "unit/authorize/policy/test_compiled_route.py")
compiled_route.without(
    "what is open to everyone waits for nobody",
    "all(criterion.look.nobody is not None for criterion in grants_of(self.route))",
    "True",
)
compiled_route.without(
    "a regex matches the whole path",
    "re2.compile(expression, _WITHOUT_GROUPS).fullmatch",
    "re2.compile(expression, _WITHOUT_GROUPS).search",
)

ENTRIES = ("contract/test_user_entries.py",)
criteria = door("authorize/policy/criteria.py", "unit/authorize/policy/test_criteria.py", "unit/authorize/policy/test_decision.py")
criteria.without("a preflight names its origin and method", " and request.origin and request.access_control_request_method", "")
criteria.without("a preflight is an OPTIONS request", 'request.method == "OPTIONS" and request.origin', "request.origin")
criteria.without("a subject is of the configured provider", "identity.own_subject in subjects", "identity.subject in subjects", *ENTRIES)
criteria.without(
    "a rule about our people says nothing of a foreign token",
    "        if identity.is_foreign:\n            return FALSE if identity.issuer in issuers else UNKNOWN\n",
    "",
    *ENTRIES,
)
criteria.without(
    "groups are not known of a foreign token", " or identity.is_foreign:\n        return UNKNOWN", ":\n        return UNKNOWN", *ENTRIES
)
criteria.without("no foreign token is any signed-in person", "FALSE if identity.is_foreign else TRUE", "TRUE", *ENTRIES)
criteria.without(
    "a domain is compared whole",
    "identity.rule_domain in listed",
    "identity.rule_email.endswith(tuple(listed))",
)
criteria.without("groups that are not told are in doubt", "if identity.has_untold_groups or identity.is_foreign", "if identity.is_foreign")
criteria.without("true is not one", "return isinstance(value, bool), value", "return False, value")

user_entry = door("authorize/policy/user_entry.py", *ENTRIES)
user_entry.without(
    "an entry with a slash is a whole user id", '    if "/" in written:\n', '    if "/" in written and "@" not in written:\n'
)
user_entry.without("an entry with an @ is no subject", '    if "@" in written:\n', '    if "@" in written and False:\n')

decision = door(
    "authorize/policy/decision.py", "unit/authorize/policy/test_decision.py", "unit/authorize/policy/language/test_expressions.py",
    "unit/authorize/identity/test_client_certificates.py",
)  # fmt: skip
decision.without("a rule must hold", "if value == TRUE and (not", "if value & TRUE and (not")
decision.without("a requirement must hold", "if step.value != TRUE:", "if False:")
decision.without("a deny that is not known not to hold denies", "        if value == FALSE:\n", "        if value != TRUE:\n")
decision.without("a deny that nobody can change denies", "if identity is not None or not value & FALSE:", "if identity is not None:")
decision.without("who decides a deny must sign in", "        is_open_question = True\n", "        pass\n")

truth = door("authorize/policy/truth.py", "unit/authorize/policy/test_truth.py", "unit/authorize/policy/language/test_expressions.py")
truth.without("the opposite of unknown is unknown", "UNKNOWN: UNKNOWN}[value]", "UNKNOWN: TRUE}[value]")
truth.without("unknown and yes is not yes", "return UNKNOWN if UNKNOWN in (one, other) else TRUE", "return TRUE")

expressions = door("authorize/policy/language/expressions.py", "unit/authorize/policy/language/test_expressions.py")
expressions.without("nor and not turn the answer round", "return NOT[some(case, trace)]", "return some(case, trace)")
expressions.without(
    "a reason that counts the other way round is not told",
    'is_told = is_told and expression.operator in ("and", "or")',
    "is_told = is_told",
)

people = door("authorize/policy/language/person_criteria.py", "unit/authorize/policy/language/test_person_criteria.py")
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

requests = door("authorize/policy/language/request_criteria.py", "unit/authorize/policy/language/test_request_criteria.py")
requests.without(
    "an address that is not known matches nothing",
    "return is_inside(address) if address else UNKNOWN",
    "return is_inside(address) if address else FALSE",
)
requests.without(
    "a path is compared as upstreams may read it",
    " and any(fits_reading(reading) is not holds for reading in others or (path,)):",
    " and False:",
)
requests.without(
    "a path is compared as each upstream may read it",
    "for reading in others or (path,)):",
    "for reading in others[-1:] or (path,)):",
)
requests.without("a path of too many readings is unknown", "        if others is UNTOLD:\n            return UNKNOWN\n", "")
requests.without("an escape that a rule names is compared decoded, too", "(others or has_escapes)", "others")
requests.without("a secret header is not shown", "if found and is_secret_header(comparison.argument):", "if False:")
requests.without("a method that is not known matches nothing", "return UNKNOWN if not method else TRUE", "return TRUE")

cases = door(
    "authorize/policy/criterion.py", "unit/authorize/policy/test_criterion.py", "unit/authorize/policy/language/test_request_criteria.py"
)
cases.without("on nobody a person's criterion may be either", "step = nobody\n", "step = yes\n")
cases.without("a header that comes twice has no value", "None if name in folded else value", "value")
cases.without("what can't be evaluated is unknown", "step = steps[UNKNOWN]\n            look_at", "step = yes\n            look_at")

moments = door("authorize/policy/language/time_criteria.py", "unit/authorize/policy/language/test_time_criteria.py")
moments.without("a session from the future has no age", "issued > case.now + _CLOCKS_DIFFER", "False")
moments.without("a zone counts", "here = datetime.fromtimestamp(moment, zone)", 'here = datetime.fromtimestamp(moment, ZoneInfo("UTC"))')

language = door("config/routes/policy_language.py", "unit/config/routes/test_policy_language.py")
language.without("two keys in one map are no guess", "        if len(value) > 1:\n", "        if False:\n")
language.without(
    "an empty list lets nobody in",
    'if not isinstance(value, list) or not value:\n            raise self._wrong(place, "must be a list with at',
    'if not isinstance(value, list):\n            raise self._wrong(place, "must be a list with at',
)

values = door("config/routes/policy_values.py", "unit/config/routes/test_policy_language.py")
values.without("what trusted proxies alone may say is no criterion", 'if name.startswith("x-forwarded-"):', "if False:")
values.without("the end of a domain begins with a dot", 'if not end.startswith("."):', "if False:")
values.without("the end of an address is a whole domain", 'if not each.startswith((".", "@")):', "if False:")

certificates = door("authorize/identity/client_certificates.py", "unit/authorize/identity/test_client_certificates.py")
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

identity_facts = door("authorize/identity/person_records.py", "unit/authorize/identity/test_person_records.py")
identity_facts.without("an unverified address matches no rule", "may_match = _may_match_by_email(facts)", "may_match = True")
identity_facts.without("another issuer's address is none of ours", "if may_match and not is_foreign else", "if may_match else", *ENTRIES)
identity_facts.without(
    "another issuer's groups are none of ours, and its people not in our directory",
    "() if is_foreign else tuple(dict.fromkeys([*person",
    "tuple(dict.fromkeys([*person",
    *ENTRIES,
)
identity_facts.without(
    "a foreign token is known by its id", 'email="" if is_foreign else _text(user.email)', "email=_text(user.email)", *ENTRIES
)
identity_facts.without(
    "groups that were to be told and were not are in doubt", "return is_expected and not any(", "return False and not any("
)
identity_facts.without("every source must vouch for an address", "return all(_is_yes(value)", "return any(_is_yes(value)")
identity_facts.without("a claim rule can't reach an unverified address", 'claims.pop("email", None)', "pass")

identity_facts.without("who is not in the directory's records has unknown groups", "(expects_record and facts.person is None)", "False")

identity_loader = door(
    "authorize/identity/loader.py", "unit/authorize/identity/test_loader.py", "unit/authorize/identity/test_bearer_port.py"
)
identity_loader.without(
    "no token lets in the deactivated",
    "if (person := person_of(session, directory_record)) is not None and person.is_deactivated:",
    "if False:",
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
hosts = door("authorize/route_hosts.py", "unit/authorize/test_service.py", "unit/authorize/test_route_hosts.py")
hosts.without("an origin has the scheme of its route", " and scheme == self.scheme_of(host, port)", "")

_LANGUAGE = (truth, expressions, people, requests, cases, moments, language, values, certificates)
DOORS = (
    canonical, request, readings, route_table, errors, compiled_route, criteria, user_entry, decision, *_LANGUAGE, email_address,
    identity_facts, identity_loader, service, hosts,
)  # fmt: skip
