"""Defences of the decision: one reading of a request, the right route, the right person."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, returns, skips

canonical = door("authorize.policy.paths.canonical", "unit/authorize/policy/paths/test_canonical.py")
canonical.without("a backslash in a path is refused", "_WRITTEN", replaced(r'set(b"#?\\")', 'set(b"#?")'))
canonical.without(
    "raw controls, spaces and non-ASCII in a path are refused",
    "_WRITTEN",
    replaced("range(0x21, 0x7F)", "range(0x100)"),
)
canonical.without(
    "a malformed escape is refused",
    "_with_canonical_escapes",
    replaced(
        "raise BadRequest(Message(\"the path contains a '%' that is not followed by two hexadecimal digits\")) from error",
        'return raw.decode("ascii")',
    ),
)
canonical.without(
    "encoded controls and backslashes are refused", "_refuse_octets", replaced("decoded.translate(None, _NEVER_ESCAPED)", "decoded")
)
canonical.without(
    "overlong UTF-8 is refused",
    "_with_canonical_escapes",
    skips('raise BadRequest(Message("the path\'s percent-encoded bytes are not UTF-8")) from error'),
)
canonical.without("dot segments are resolved", "_without_dot_segments", skips("del kept[-1:]"))
canonical.without("a parent hidden in a segment is refused", "_without_dot_segments", skips("_refuse_hidden_parents(named)"))
canonical.without(
    "a parent hidden before a question mark is refused",
    "_READ_AS",
    replaced(
        '(("%2E", "."), (";", "/"), ("%2F", "/"), ("%3B", "/"), ("%5C", "/"), ("%3F", "?"), ("%23", "?"))',
        '(("%2E", "."), (";", "/"), ("%2F", "/"), ("%3B", "/"), ("%5C", "/"))',
    ),
)
canonical.without(
    "a parent that was escaped again is refused",
    "_refuse_hidden_parents",
    replaced('_ESCAPED_AGAIN.sub("%", named.upper())', "named.upper()"),
)
canonical.without("a parent in escapes of either case is refused", "_refuse_hidden_parents", replaced("named.upper()", "named"))
canonical.without("a path with a dot segment is not plain", "canonical_path", always('b"/." not in raw'))

request = door("authorize.policy.request", "unit/authorize/policy/test_request.py", "unit/authorize/policy/paths/test_canonical.py")
request.without("a method in another spelling is refused", "_METHOD", in_text("Z", "Za-z"))
request.without("what is judged has a method in capitals", "access_request", never("method"))
request.without(
    "a preflight asks for a method in capitals",
    "access_request",
    skips('require_method(access_control_request_method.decode("latin-1"))'),
)
request.without("controls in a query are refused", "access_request", never("_REFUSED_IN_QUERY.search(query)"))
request.without("another port is another host", "access_request", always("port in default_ports and method != CONNECT"))
request.without("a tunnel's port is kept", "access_request", always("method != CONNECT"))

readings = door("authorize.policy.paths.readings", "unit/authorize/policy/paths/test_readings.py", "contract/test_path_readings.py")
readings.without(
    "a path that is read alike by all has neither parameters nor double slashes",
    "is_read_alike",
    replaced(
        '";" in path or "//" in path or ("(" in path and _COOKIELESS.search(path) is not None)',
        '"(" in path and _COOKIELESS.search(path) is not None',
    ),
)
readings.without(
    "parameters are cut before decoding", "_forms", replaced("_cut((written, *_after_host(written)))", "dict.fromkeys((written,))")
)
readings.without("parameters are cut after decoding", "_forms", replaced("_cut(decoded)", "decoded"))
readings.without("parameters are cut segment by segment", "_cut", skips("found[_PARAMETERS.sub('', text)] = ..."))
readings.without("parameters of the last segment are cut alone", "_cut", skips("found[front + slash + last.partition(';')[0]] = ..."))
readings.without("all is cut from the first semicolon", "_cut", skips("found[text.partition(';')[0]] = ..."))
readings.without("an encoded slash is decoded", "_decoded", replaced('most.replace("%2F", "/")', "most"))
readings.without("an encoded slash is left alone", "_decoded", replaced("(most, once)", "(once,)"))
readings.without("an encoded semicolon is decoded", "_decoded", replaced('text.replace("%3B", ";")', "text"))
readings.without("some decode twice", "_decoded", lacks("twice"))
readings.without("some decode until nothing changes", "_decoded", never('"%2525" in once'))
readings.without(
    "a decoded question mark ends the path",
    "_forms",
    replaced("found |= _without_queries(found)\ndecoded = ...", "decoded = ..."),
)
readings.without(
    "a question mark that was encoded twice ends the path",
    "_forms",
    replaced("found |= _without_queries(found)\nfound |= dict.fromkeys(...)", "found |= dict.fromkeys(...)"),
)
readings.without("a backslash that was encoded twice is a slash", "_forms", replaced('text.replace("%5C", "/")', "text"))
readings.without("slashes are merged", "_forms", skips("found[_merged(text)] = ..."))
readings.without("two slashes begin a host", "_after_host", lacks("'/' + text[2:].partition('/')[2]"))
readings.without("a session in the path is dropped", "_forms", replaced('_COOKIELESS.sub("", text) or "/"', "text"))
readings.without("a session behind slashes is dropped with them", "_forms", replaced('_COOKIELESS_OF_MERGED.sub("", text) or "/"', "text"))
readings.without("a session in the path is seen", "is_read_alike", never('"(" in path and _COOKIELESS.search(path) is not None'))
readings.without("a path holds few marks", "_require_few_marks", never("marks > MOST_MARKS"))
readings.without("a long path holds fewer marks", "_require_few_marks", never("marks * len(path) > MOST_MARKS * LONGEST_WITH_MOST_MARKS"))
readings.without("marks are counted before readings are made", "readings", skips("_require_few_marks(path)"))
readings.without("a path has few readings", "_require_few", never("len(found) > MOST_READINGS"))
readings.without("readings of merged slashes are counted", "_forms", replaced("_require_few(found)\nreturn ...", "return ..."))
readings.without("many slashes begin a host", "_after_host", lacks("'/' + text.lstrip('/').partition('/')[2]"))
readings.without("what is left behind a host is decoded", "_forms", lacks("*_after_host(written)"))
readings.without("escapes of what ends nothing are decoded", "_all", returns("_forms(path)"))
readings.without(
    "marks are counted before names are looked for",
    "names_left",
    skips("_require_few_marks(path)"),
)

route_table = door("authorize.policy.route_table", "unit/authorize/policy/test_route_table.py", "contract/test_path_readings.py")
route_table.without(
    "all readings belong to the route that was found",
    "HostRoutes.match",
    skips("self._require_all_readings(path, route)"),
)
route_table.without(
    "later routes are asked for readings, too",
    "HostRoutes._require_all_readings",
    replaced("owner is not found", "owner in self.routes[: self.routes.index(found)]"),
)
route_table.without(
    "a reading that no route has is refused",
    "HostRoutes._require_all_readings",
    replaced(
        "owner is not found and not self._is_meant(reading, written.get(reading, ()), found)",
        "owner is not None and owner is not found and not self._is_meant(reading, written.get(reading, ()), found)",
    ),
)
route_table.without(
    "every reading is asked about",
    "HostRoutes._require_all_readings",
    replaced("for reading in taken_for: ...", "for reading in taken_for[-1:]: ..."),
)
route_table.without("an earlier route has its decoded names", "HostRoutes._is_meant", always("is_behind"))
route_table.without(
    "a later route has its decoded names",
    "HostRoutes._is_meant",
    always("all(map(route.resembles, written))"),
)
route_table.without(
    "only an expression that speaks of escapes takes them", "HostRoutes._require_all_readings", always("found.names_percent")
)
route_table.without(
    "a path of too many readings is refused without a route, too",
    "HostRoutes.match",
    skips("readings(path)"),
)
route_table.without("only the first route of all paths spares readings", "HostRoutes.match", replaced("self.routes[0]", "route"))
route_table.without(
    "routes that name escapes are asked about plain paths",
    "HostRoutes.match",
    never("self.have_escapes"),
)
route_table.without(
    "an exact host comes before a wildcard",
    "RouteTable._host_routes",
    replaced(
        "self._by_host.get((host, port, is_tunnel)) or self._by_host.get((self._wildcard_of(host), port, is_tunnel))",
        "self._by_host.get((self._wildcard_of(host), port, is_tunnel)) or self._by_host.get((host, port, is_tunnel))",
    ),
)
route_table.without(
    "a wildcard stands for one label", "RouteTable._wildcard_of", replaced("host.partition('.')[2]", "'.'.join(host.split('.')[-2:])")
)
route_table.without("no wildcard stands for a host of ours", "RouteTable._wildcard_of", never("host in self._own_hosts"))
route_table.without(
    "a request never matches a route for TCP",
    "_address",
    replaced("(route.from_.host, port, route.is_tcp)", "(route.from_.host, port, False)"),
)
route_table.without(
    "the first route in the list wins",
    "HostRoutes.match",
    replaced("for route in self.routes: ...", "for route in reversed(self.routes): ..."),
)

errors = door("foundation.errors", "unit/proxy/observe/test_access_log.py")
errors.without(
    "a client learns nothing of other routes",
    "TwoReadings.__init__",
    replaced('super().__init__(Message("the path is ambiguous"))', 'super().__init__(f"it belongs to {owner}")'),
)
errors.without("the log says whose the path is to others", "TwoReadings.in_full", returns("str(self)"))

compiled_route = door("authorize.policy.compiled_route", "unit/authorize/policy/test_compiled_route.py")
compiled_route.without(
    "what is open to everyone waits for nobody",
    "CompiledRoute.__getattr__",
    always("all((criterion.look.nobody is not None for criterion in grants_of(self.route)))"),
)
compiled_route.without(
    "a regex matches the whole path",
    "_fullmatch",
    replaced("re2.compile(...).fullmatch", "re2.compile(...).search"),
)

ENTRIES = ("contract/test_user_entries.py",)
criteria = door("authorize.policy.criteria", "unit/authorize/policy/test_criteria.py", "unit/authorize/policy/test_decision.py")
criteria.without(
    "a preflight names its origin and method",
    "preflight.judge",
    replaced('request.method == "OPTIONS" and request.origin and request.access_control_request_method', 'request.method == "OPTIONS"'),
)
criteria.without("a preflight is an OPTIONS request", "preflight.judge", always('request.method == "OPTIONS"'))
criteria.without("a subject is of the configured provider", "users.judge", replaced("identity.own_subject", "identity.subject"), *ENTRIES)
criteria.without(
    "a rule about our people says nothing of a foreign token",
    "users.judge",
    never("identity.is_foreign"),
    *ENTRIES,
)
criteria.without("groups are not known of a foreign token", "no_group_fits", never("identity.is_foreign"), *ENTRIES)
criteria.without("no foreign token is any signed-in person", "any_user", never("identity.is_foreign"), *ENTRIES)
criteria.without(
    "a domain is compared whole",
    "domains.judge",
    replaced("identity.rule_domain in listed", "identity.rule_email.endswith(tuple(listed))"),
)
criteria.without("groups that are not told are in doubt", "no_group_fits", never("identity.has_untold_groups"))
criteria.without("true is not one", "with_type", returns("False, value"))

user_entry = door("authorize.policy.user_entry", *ENTRIES)
user_entry.without(
    "an entry with a slash is a whole user id", "user_entry", replaced('"/" in written', '"/" in written and "@" not in written')
)
user_entry.without("an entry with an @ is no subject", "user_entry", replaced('"@" in written', '"@" in written and False'))

decision = door(
    "authorize.policy.decision", "unit/authorize/policy/test_decision.py", "unit/authorize/policy/language/test_expressions.py",
    "unit/authorize/identity/test_client_certificates.py",
)  # fmt: skip
decision.without("a rule must hold", "_granted", replaced("value == TRUE", "value & TRUE"))
decision.without("a requirement must hold", "_judged", never("step.value != TRUE"))
decision.without("a deny that is not known not to hold denies", "_judged", replaced("value == FALSE", "value != TRUE"))
decision.without("a deny that nobody can change denies", "_judged", always("value & FALSE"))
decision.without("who decides a deny must sign in", "_judged", skips("is_open_question = True"))

truth = door("authorize.policy.truth", "unit/authorize/policy/test_truth.py", "unit/authorize/policy/language/test_expressions.py")
truth.without(
    "the opposite of unknown is unknown",
    "_not",
    replaced("{TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}", "{TRUE: FALSE, FALSE: TRUE, UNKNOWN: TRUE}"),
)
truth.without("unknown and yes is not yes", "_and", never("UNKNOWN in (one, other)"))

expressions = door("authorize.policy.language.expressions", "unit/authorize/policy/language/test_expressions.py")
expressions.without("nor and not turn the answer round", "_none.evaluate", returns("some(case, trace)"))
expressions.without(
    "a reason that counts the other way round is not told",
    "_evaluation",
    always('expression.operator in ("and", "or")'),
)

people = door("authorize.policy.language.person_criteria", "unit/authorize/policy/language/test_person_criteria.py")
people.without("a claim that is missing is not known", "_claim_judge.judge_values", always("values"))
people.without(
    "a claim that is true is not one",
    "_claim_judge.judge_values",
    replaced("truths if value is True or value is False else others", "truths | others"),
)
people.without(
    "a claim whose dots are escaped otherwise is not missing",
    "_exists.judge",
    never("values is None and without_escapes in identity.claims"),
)
people.without("a value that is no text leaves in doubt", "_claim_judge.judge_texts", always("len(texts) == len(values)"))
people.without("what can't be compared leaves in doubt", "_claim_judge.judge_values", never("is_partial(values)"))
people.without("and a text beside it", "_claim_judge.judge_texts", always("not is_partial(values)"))
people.without("and how somebody signed in", "acr_among.judge", never("is_partial(found)"))
claim_values = door("foundation.claim_values", "unit/authorize/policy/language/test_person_criteria.py")
claim_values.without(
    "a claim of null is not known to be there",
    "claim_exists",
    replaced("True if values or type(values) is PartialValues else None", "True"),
)
claim_values.without(
    "a claim that can't be compared is there", "claim_exists", replaced("values or type(values) is PartialValues", "values")
)
people.without(
    "several kinds of sign-in are none",
    "acr_among.judge",
    replaced("len(found) != 1", "not found"),
)

requests = door("authorize.policy.language.request_criteria", "unit/authorize/policy/language/test_request_criteria.py")
requests.without(
    "an address that is not known matches nothing",
    "source_ip.judge",
    replaced("is_inside(address) if address else UNKNOWN", "is_inside(address) if address else FALSE"),
)
requests.without(
    "a path is compared as upstreams may read it",
    "http_path.judge",
    never("any((fits_reading(reading) is not holds for reading in others or (path,)))"),
)
requests.without(
    "a path is compared as each upstream may read it",
    "http_path.judge",
    replaced("others or (path,)", "others[-1:] or (path,)"),
)
requests.without("a path of too many readings is unknown", "http_path.judge", never("others is UNTOLD"))
requests.without("an escape that a rule names is compared decoded, too", "http_path.judge", never("has_escapes"))
requests.without(
    "the value that a rule compares a header with is not shown",
    "http_header",
    replaced('comparison.operator != "exists"', "False"),
    "unit/authorize/decision_log/test_recorded_facts.py",
)
requests.without("a method that is not known matches nothing", "http_method.judge", always("method"))

cases = door(
    "authorize.policy.criterion", "unit/authorize/policy/test_criterion.py", "unit/authorize/policy/language/test_request_criteria.py"
)
cases.without("on nobody a person's criterion may be either", "every.evaluate", replaced("step = nobody", "step = yes"))
cases.without("a header that comes twice has no value", "Case.fold", never("name in folded"))
cases.without("what can't be evaluated is unknown", "every.evaluate", replaced("steps[UNKNOWN]", "yes"))

moments = door("authorize.policy.language.time_criteria", "unit/authorize/policy/language/test_time_criteria.py")
moments.without("a session from the future has no age", "session_age.age", never("issued > case.now + _CLOCKS_DIFFER"))
moments.without(
    "a zone counts",
    "time_of_day.answer",
    replaced("datetime.fromtimestamp(moment, zone)", 'datetime.fromtimestamp(moment, ZoneInfo("UTC"))'),
)

language = door("config.routes.policy.language", "unit/config/routes/policy/test_language.py")
language.without("two keys in one map are no guess", "_PolicyReader._expression", never("len(value) > 1"))
language.without(
    "an empty list lets nobody in",
    "_PolicyReader._parts",
    always("value"),
)

values = door("config.routes.policy.values", "unit/config/routes/policy/test_language.py")
values.without("what trusted proxies alone may say is no criterion", "_header_name", never('name.startswith("x-forwarded-")'))
values.without("the end of a domain begins with a dot", "_domain_end", never('not end.startswith(".")'))
values.without("the end of an address is a whole domain", "_email_operand", never('not each.startswith((".", "@"))'))

certificates = door("authorize.identity.client_certificates", "unit/authorize/identity/test_client_certificates.py")
certificates.without("a certificate is for clients", "_is_for_clients", never("ExtendedKeyUsageOID.CLIENT_AUTH not in usage"))
certificates.without(
    "the use of a certificate is said",
    "_CLIENT",
    replaced(
        "(...).require_present(x509.ExtendedKeyUsage, ..., _is_for_clients)", "(...).may_be_present(x509.ExtendedKeyUsage, ..., None)"
    ),
)
certificates.without("an issuer may sign certificates", "_signs_certificates", never("usage is not None and not usage.key_cert_sign"))
certificates.without("an issuer for servers vouches for no client", "_vouches_for_clients", never("usage is not None"))
certificates.without("an authority is no client", "_is_no_authority", never("constraints is not None and constraints.ca"))
certificates.without("a verdict ends with the certificate", "ClientCertificates._problem", always("known.first <= now <= known.last"))
certificates.without("a verdict is one authority's", "ClientCertificates._problem", replaced("authority.id", '""'))
certificates.without(
    "what was said before is forgotten",
    "ClientCertificates.judged",
    replaced("{authority.id: problem}", "{authority.id: problem, **shown.verdicts}"),
)

email_address = door("foundation.email_address", "unit/foundation/test_email_address.py")
email_address.without("look-alike letters stay apart", "canonical_email", replaced("local.translate(_ASCII_LOWER)", "local.lower()"))
email_address.without("a domain has the labels that are written", "canonical_domain", never('text.count(".") != dots'))
email_address.without("a local part is no address", "canonical_email", never("is_like_an_address(local)"))
email_address.without("no name is an id", "display_name", always('not _LIKE_AN_ID.search(unicodedata.normalize("NFKC", name))'))
email_address.without(
    "a domain that IDNA folds away is none",
    "_a_label",
    always("idna.ToUnicode(encoded) == label.lower()"),
)

identity_facts = door("authorize.identity.person_records", "unit/authorize/identity/test_person_records.py")
address_facts = door("databroker.claims", "unit/authorize/identity/test_person_records.py")
address_facts.without("an unverified address matches no rule", "rule_email_of", always("may_match_by_email(...)"))
identity_facts.without("another issuer's address is none of ours", "identity_of", always("not is_foreign"))
identity_facts.without(
    "another issuer's groups are none of ours, and its people not in our directory",
    "identity_of",
    replaced(
        "() if is_foreign else tuple(dict.fromkeys([*person.group_ids, *groups_among(claims, groups_claim)]))",
        "tuple(dict.fromkeys([*person.group_ids, *groups_among(claims, groups_claim)]))",
    ),
    *ENTRIES,
)
identity_facts.without("a foreign token is known by its id", "identity_of", passes(email="_text(user.email)"), *ENTRIES)
identity_facts.without(
    "groups that were to be told and were not are in doubt", "_has_untold_groups", replaced("provider.expects_groups", "False")
)
identity_facts.without("groups that can't be read are in doubt", "_has_untold_groups", replaced("not names_all_groups(values)", "False"))
address_facts.without("every source must vouch for an address", "may_match_by_email", replaced("all(...)", "any(...)"))
identity_facts.without("a claim rule can't reach an unverified address", "identity_of", skips('claims["email"] = NullValues()'))
identity_facts.without(
    "an address that does not count is not missing", "identity_of", replaced('claims["email"] = NullValues()', 'claims.pop("email")')
)
identity_facts.without("nor by another name of the claim", "identity_of", skips("claims[alias] = NullValues()"))
identity_facts.without("a name is no other user's address or id", "identity_of", replaced("display_name(...)", "_text(user.name)"))

identity_facts.without(
    "who is not in the directory's records has unknown groups",
    "_has_untold_groups",
    never("provider.expects_record and facts.person is None"),
)

identity_loader = door("authorize.identity.loader", "unit/authorize/identity/test_loader.py", "unit/authorize/identity/test_bearer_port.py")
identity_loader.without(
    "no token lets in the deactivated",
    "IdentityLoader.of_bearer",
    never("(person := person_of(session, directory_record)) is not None and person.is_deactivated"),
)
identity_loader.without("an expired session is none", "IdentityLoader.load", never("now >= identity.expires"))
identity_loader.without("a cached identity ends in time", "IdentityLoader.peek", never("now >= cached.until"))
identity_loader.without(
    "a changed record makes another identity",
    "IdentityLoader.peek",
    never("not cached.sources.are_current(self._replica, cached.identity)"),
)
identity_loader.without("what may have changed is looked at", "IdentityLoader.peek", never("cached.writes != writes"))
identity_loader.without(
    "a cached identity ends with its records",
    "CachedIdentity.__init__",
    replaced("min(identity.expires, sources.expires)", "identity.expires"),
)
identity_loader.without(
    "group names count for some providers only", "IdentityLoader._identity", always("provider.kind in KINDS_WITH_GROUP_NAMES")
)
identity_loader.without("of no provider nobody is made", "IdentityLoader._identity", never("session.provider != JWT"))
identity_loader.without(
    "a group named like another's id does not take its rule", "IdentityLoader._rule_group_names", always("same_id is None")
)
identity_loader.without("a changed group is seen", "IdentityLoader.forget", never("change.type == DIRECTORY_GROUP"))

identity_loader.without(
    "temporary access that changed makes another identity",
    "IdentityRecords.are_current",
    replaced("replica.version(TEMPORARY_ACCESS, identity.person_id) == _version(self.access)", "True"),
)

ACCESS_TESTS = "unit/authorize/policy/language/test_access_criteria.py"
access = door("authorize.policy.language.access_criteria", ACCESS_TESTS)
access.without("access ends", "given_access.judge", replaced("span.covers(case.now)", "True"))
access.without(
    "access is one route's",
    "_span",
    replaced("case.identity.access.get(case.route.access_key)", "next(iter(case.identity.access.values()), None)"),
)
span = door("authorize.policy.identity", ACCESS_TESTS)
span.without(
    "a clock that is set back lengthens no access",
    "AccessSpan.covers",
    replaced("self.since - CLOCKS_DIFFER <= now < self.until", "now < self.until"),
)
access_key = door("config.routes.route", ACCESS_TESTS)
access_key.without("another name is another route", "Route.access_key", returns("self.id"))
access_key.without("the same name is not the same route", "Route.access_key", returns("self.name or ''"))
links = door("authorize.route_links", "unit/authorize/test_route_links.py")
links.without("ids in links are keyed", "RouteLinks.id_of", returns("route.id"))
giving = door("databroker.access.temporary", "unit/databroker/access/test_temporary.py")
giving.without("access ends within bounds", "checked", never("not 0 < access.until - now <= LONGEST"))
giving.without("what was revoked is not given again", "_is_kept", replaced("max(access.until, access.revoked)", "access.until"))
giving.without("who finishes late gives nothing back", "_require_not_revoked", never("any(...)"))
giving.without("another issuer's person is another", "TemporaryAccesses._kept", always("found.issuer == user.vouched_by"))
giving.without("of two who write at once none is lost", "TemporaryAccesses._write", omits("only_if_version"))
way = door("config.routes.access_requests", ACCESS_TESTS)
way.without("another way to an upstream is another route", "way_of", never("ways"))
named = door(
    "gateproject.management.broker_access", "unit/gateproject/management/commands/test_grants.py", "integration/test_endsessions.py"
)
named.without(
    "an address that only looks like another's names nobody",
    "users_by_email",
    replaced("verified_email(record.id, record.data, options.providers)", 'record.data.get("email")'),
)
asker = door("authenticate.views.callers", "unit/authenticate/views/test_access.py", "unit/authenticate/views/test_callers.py")
asker.without("nobody asks in another's name", "caller_of", always("identity.rule_email"))
rules = door("authorize.access_rules", "unit/authorize/test_access_rules.py")
rules.without("an approver is named for certain", "AccessRules._fits", replaced("... == TRUE", "... in (TRUE, 4)"))
rules.without("only people approve", "_is_user_of", never("not identity.is_own"))
rules.without("a token approves nothing", "_is_user_of", never("identity.is_bearer"))
desk = door("authenticate.access.desk", "unit/authenticate/access/test_desk.py")
desk.without("nobody answers themselves", "AccessDesk.may_answer", never("caller.has_asked(asked)"))
desk.without(
    "one person approves once",
    "AccessDesk._approved",
    always("each.names.isdisjoint(own.names)"),
)
desk.without(
    "nobody answers themselves by a program whose secret they know",
    "Caller.approval",
    replaced("self.known_to", "()"),
)
names = door("databroker.access.asked", "unit/authenticate/access/test_desk.py")
names.without(
    "two accounts of one address are one person",
    "AccessApproval.names",
    replaced("_names(self.user_id, self.email, *self.known_to)", "_names(self.user_id, *self.known_to)"),
)
names.without(
    "a person and their program are one",
    "AccessApproval.names",
    replaced("_names(self.user_id, self.email, *self.known_to)", "_names(self.user_id, self.email)"),
)
names.without(
    "no waiting request restores what was ended",
    "end_early",
    skips("await AskedAccesses(broker, clock).close_all(held.user_id, held.issuer, access.route)"),
)
desk.without("an unverified address is a second account's, too", "Caller.email", returns("self.identity.rule_email"))
desk.without(
    "an end before the access is given prevents it",
    "AccessDesk._finish",
    replaced("max(...)", 'float("inf")'),
)
desk.without("an approval that does not count is told as failed", "AccessDesk.approve", replaced("NOT_APPROVED", "APPROVES"))
desk.without("a flood fills no audit log", "AccessDesk.ask", skips("await self._asked.require_place(asked)"))
desk.without("only approvers answer", "AccessDesk._check", never("not self.may_answer(caller, asked)"))
desk.without("an approval is an approver's still", "AccessDesk._approved", always("await self._counts(each, asked, identities, now)"))
desk.without(
    "a shorter rule holds", "AccessDesk._approved", replaced("min(asked.duration, asking.max_duration.total_seconds())", "asked.duration")
)
desk.without("nobody asks for longer than the rule says", "AccessDesk.ask", never("not 0 < seconds <= asking.max_duration.total_seconds()"))
desk.without(
    "others' access is ended by approvers alone", "AccessDesk.revoke", never("found is None or not self._may_revoke(caller, *found)")
)
desk.without("the glass is broken by who may", "AccessDesk.break_glass", never("asking is None or not self.may_break_glass(caller, route)"))
desk.without(
    "the glass is broken for no longer than the rule says",
    "AccessDesk.break_glass",
    never("not 0 < seconds <= asking.max_duration.total_seconds()"),
)
access_page = door("authenticate.admin", "unit/authenticate/test_admin.py")
access_page.without(
    "another's sign-in answers nothing in the admin", "caller_in_admin", always("session is not None and session.id == entered_by")
)
hook = door("authenticate.access.webhook", "unit/authenticate/access/test_webhook.py")
hook.without("a redirect leads the webhook nowhere", "AccessWebhook._run", passes(follow_redirects="True"))
hook.without("a flood hides no broken glass", "AccessWebhook._least_missed", always("each.event != BROKE_GLASS"))
hook.without("a flood hides nobody else's request", "AccessWebhook._least_missed", always("each.user_id == crowd"))
hook.without("a reason is words to a chat", "AccessWebhook._body", replaced("harmless(event.words)", "event.words"))
asking = door("databroker.access.asked", "unit/databroker/access/test_asked.py")
asking.without(
    "a place that is taken is not written over",
    "AskedAccesses._places",
    never("record is not None and ((held := _held(record)).asked.state == OVER or held.asked.expires > self._clock())"),
)
asking.without(
    "to ask and withdraw is a flood as well",
    "AskedAccesses._places",
    replaced("(held := _held(record)).asked.state == OVER or held.asked.expires > self._clock()", "_held(record).asked.state != OVER"),
)
asking.without("a button names one request", "AskedAccesses.find", always("held.asked.nonce == nonce"))
asking.without("who comes second changes nothing", "AskedAccesses._put", omits("only_if_version"))
reader = door("databroker.session_reader", "unit/databroker/test_session_reader.py")
reader.without(
    "temporary access of another issuer's person is not theirs",
    "access_of",
    always("found is not None and (found.user_id, found.issuer) == holder"),
)

service = door("authorize.service", "unit/authorize/test_service.py")
service.without(
    "identity headers are for the allowed", "AuthorizeService.check", replaced("decision.is_allowed and not decision.is_preflight", "True")
)
service.without(
    "a preflight carries nobody's identity",
    "AuthorizeService.check",
    replaced("decision.is_allowed and not decision.is_preflight", "decision.is_allowed"),
)
hosts = door("authorize.route_hosts", "unit/authorize/test_service.py", "unit/authorize/test_route_hosts.py")
hosts.without("an origin has the scheme of its route", "RouteHosts.is_route_origin", always("scheme == self.scheme_of(host, port)"))

_LANGUAGE = (truth, expressions, people, claim_values, requests, cases, moments, language, values, certificates)
DOORS = (
    canonical, request, readings, route_table, errors, compiled_route, criteria, user_entry, decision, *_LANGUAGE, email_address,
    identity_facts, address_facts, identity_loader, access, span, access_key, way, links, giving, named, asker, rules, desk, names, access_page, hook,
    asking, reader, service, hosts,
)  # fmt: skip
