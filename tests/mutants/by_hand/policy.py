"""Defences of the decision: one reading of a request, the right route, the right person."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, omits, passes, replaced, returns, skips

canonical = door("authorize.policy.paths.canonical", "unit/authorize/policy/paths/test_canonical.py")
canonical.without("a backslash in a path is refused", "_ALLOWED_RAW", replaced(r'set(b"#?\\")', 'set(b"#?")'))
canonical.without(
    "raw controls, spaces and non-ASCII in a path are refused",
    "_ALLOWED_RAW",
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
    "a parent hidden before a question mark is refused",
    "_EQUIVALENT_SEPARATORS",
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

request = door(
    "authorize.policy.policy_request", "unit/authorize/policy/test_policy_request.py", "unit/authorize/policy/paths/test_canonical.py"
)
request.without("a method in another spelling is refused", "_METHOD", in_text("Z", "Za-z"))

readings = door(
    "authorize.policy.paths.interpretations", "unit/authorize/policy/paths/test_interpretations.py", "contract/test_path_readings.py"
)
readings.without(
    "a path that is read alike by all has neither parameters nor double slashes",
    "is_unambiguous",
    replaced(
        '";" in path or "//" in path or ("(" in path and _COOKIELESS.search(path) is not None)',
        '"(" in path and _COOKIELESS.search(path) is not None',
    ),
)
readings.without(
    "parameters are cut before decoding",
    "_forms",
    replaced("_strip_parameters((written, *_without_authority(written)))", "dict.fromkeys((written,))"),
)
readings.without("parameters are cut after decoding", "_forms", replaced("_strip_parameters(decoded)", "decoded"))
readings.without("an encoded slash is decoded", "_decoded", replaced('slash_encoded.replace("%2F", "/")', "slash_encoded"))
readings.without("an encoded slash is left alone", "_decoded", replaced("(slash_encoded, once)", "(once,)"))
readings.without("an encoded semicolon is decoded", "_decoded", replaced('text.replace("%3B", ";")', "text"))
readings.without("some decode twice", "_decoded", lacks("double_decoded"))
readings.without("a backslash that was encoded twice is a slash", "_forms", replaced('text.replace("%5C", "/")', "text"))
readings.without("two slashes begin a host", "_without_authority", lacks("'/' + text[2:].partition('/')[2]"))
readings.without("a session in the path is dropped", "_forms", replaced('_COOKIELESS.sub("", text) or "/"', "text"))
readings.without("a session behind slashes is dropped with them", "_forms", replaced('_COOKIELESS_OF_MERGED.sub("", text) or "/"', "text"))
readings.without("many slashes begin a host", "_without_authority", lacks("'/' + text.lstrip('/').partition('/')[2]"))
readings.without("what is left behind a host is decoded", "_forms", lacks("*_without_authority(written)"))
readings.without("escapes of what ends nothing are decoded", "_all", returns("_forms(path)"))

route_table = door("authorize.policy.route_table", "unit/authorize/policy/test_route_table.py", "contract/test_path_readings.py")
route_table.without(
    "later routes are asked for readings, too",
    "HostRoutes._require_same_route",
    replaced("owner is not found", "owner in self.routes[: self.routes.index(found)]"),
)
route_table.without(
    "a reading that no route has is refused",
    "HostRoutes._require_same_route",
    replaced(
        "owner is not found and not self._is_intended(interpretation, written.get(interpretation, ()), found)",
        "owner is not None and owner is not found and not self._is_intended(interpretation, written.get(interpretation, ()), found)",
    ),
)
route_table.without(
    "every reading is asked about",
    "HostRoutes._require_same_route",
    replaced("for interpretation in derived: ...", "for interpretation in derived[-1:]: ..."),
)
route_table.without("only the first route of all paths spares readings", "HostRoutes.match", replaced("self.routes[0]", "route"))
route_table.without(
    "an exact host comes before a wildcard",
    "RouteTable._host_routes",
    replaced(
        "self._by_host.get((host, port, is_tunnel)) or self._by_host.get((self._wildcard_for(host), port, is_tunnel))",
        "self._by_host.get((self._wildcard_for(host), port, is_tunnel)) or self._by_host.get((host, port, is_tunnel))",
    ),
)
route_table.without(
    "a wildcard matches one label", "RouteTable._wildcard_for", replaced("host.partition('.')[2]", "'.'.join(host.split('.')[-2:])")
)
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

errors = door("foundation.errors", "unit/proxy/observe/test_request_recorder.py")
errors.without(
    "a client learns nothing of other routes",
    "AmbiguousPath.__init__",
    replaced('super().__init__(Message("the path is ambiguous"))', 'super().__init__(f"it belongs to {owner}")'),
)
errors.without("the log says whose the path is to others", "AmbiguousPath.operator_message", returns("str(self)"))

compiled_route = door("authorize.policy.compiled_route", "unit/authorize/policy/test_compiled_route.py")
compiled_route.without(
    "a public route waits for no identity",
    "CompiledRoute.skips_anonymous_evaluation",
    always("_ANONYMOUS_CRITERIA.isdisjoint(self.route.criteria)"),
)
compiled_route.without(
    "a regex matches the whole path",
    "_fullmatch",
    replaced("re2.compile(...).fullmatch", "re2.compile(...).search"),
)

ENTRIES = ("contract/test_user_entries.py",)
KEYS = "unit/authorize/policy/language/test_route_key_criteria.py"
keys = door("authorize.policy.language.route_key_criteria", KEYS)
criteria = door("authorize.policy.language.identity_criteria", KEYS)
keys.without(
    "a preflight names its origin and method",
    "cors_preflight.evaluate",
    replaced('request.method == "OPTIONS" and request.origin and request.access_control_request_method', 'request.method == "OPTIONS"'),
)
criteria.without(
    "a subject is of the configured provider", "user.evaluate", replaced("identity.unqualified_subject", "identity.subject"), *ENTRIES
)
criteria.without(
    "a domain is compared whole",
    "domain.evaluate",
    replaced("fits(identity.verified_email_domain)", "identity.verified_email.endswith(tuple(operand))"),
)

user_entry = door("authorize.policy.user_entry", *ENTRIES)
user_entry.without(
    "an entry with a slash is a whole user id", "parse_user_entry", replaced('"/" in written', '"/" in written and "@" not in written')
)

decision = door(
    "authorize.policy.decision", "unit/authorize/policy/test_decision.py", "unit/authorize/policy/language/test_expression_compiler.py",
    "unit/authorize/identity/test_client_certificates.py",
)  # fmt: skip
decision.without("a rule must hold", "_evaluate_allow", replaced("value == TRUE", "value & TRUE"))
decision.without("a deny that is not known not to hold denies", "_evaluate", replaced("value == FALSE", "value != TRUE"))
decision.without("who decides a deny must sign in", "_evaluate", skips("deny_depends_on_identity = True"))

truth = door("authorize.policy.truth", "unit/authorize/policy/test_truth.py", "unit/authorize/policy/language/test_expression_compiler.py")
truth.without(
    "the opposite of unknown is unknown",
    "_not",
    replaced("{TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}", "{TRUE: FALSE, FALSE: TRUE, UNKNOWN: TRUE}"),
)

expressions = door("authorize.policy.language.expression_compiler", "unit/authorize/policy/language/test_expression_compiler.py")
expressions.without("nor and not turn the answer round", "_none.evaluate", returns("some(case, trace)"))
expressions.without(
    "an inverted reason is not reported",
    "_evaluation",
    always('expression.operator in ("and", "or")'),
)

people = door("authorize.policy.language.identity_criteria", "unit/authorize/policy/language/test_identity_criteria.py")
people.without(
    "a claim that is true is not one",
    "_claim_evaluator.evaluate_values",
    replaced("truths if value is True or value is False else others", "truths | others"),
)
people.without(
    "several kinds of sign-in are none",
    "acr.evaluate",
    replaced("len(found) != 1", "not found"),
)

requests = door("authorize.policy.language.request_criteria", "unit/authorize/policy/language/test_request_criteria.py")
requests.without(
    "an address that is not known matches nothing",
    "source_ip.evaluate",
    replaced("is_inside(address) if address else UNKNOWN", "is_inside(address) if address else FALSE"),
)
requests.without(
    "a path is compared as each upstream may read it",
    "http_path.evaluate",
    replaced("others or (path,)", "others[-1:] or (path,)"),
)

cases = door(
    "authorize.policy.criterion", "unit/authorize/policy/test_criterion.py", "unit/authorize/policy/language/test_request_criteria.py"
)
cases.without("without a user, a criterion on the user may be either", "all_of.evaluate", replaced("step = anonymous_step", "step = yes"))
cases.without("what can't be evaluated is unknown", "all_of.evaluate", replaced("steps[UNKNOWN]", "yes"))

moments = door("authorize.policy.language.time_criteria", "unit/authorize/policy/language/test_time_criteria.py")
moments.without(
    "a zone counts",
    "time_of_day.evaluate_at",
    replaced("datetime.fromtimestamp(moment, zone)", 'datetime.fromtimestamp(moment, ZoneInfo("UTC"))'),
)

certificates = door("authorize.identity.client_certificates", "unit/authorize/identity/test_client_certificates.py")
certificates.without(
    "the use of a certificate is said",
    "_CLIENT",
    replaced(
        "(...).require_present(x509.ExtendedKeyUsage, ..., _require_client_auth)", "(...).may_be_present(x509.ExtendedKeyUsage, ..., None)"
    ),
)
certificates.without("a verification result is one authority's", "ClientCertificates._verification_error", replaced("authority.id", '""'))
certificates.without(
    "what was said before is forgotten",
    "ClientCertificates.with_verification",
    replaced("{authority.id: error}", "{authority.id: error, **certificate.verification_errors}"),
)

email_address = door("foundation.email_address", "unit/foundation/test_email_address.py")
email_address.without("look-alike letters stay apart", "canonical_email", replaced("local.translate(_ASCII_LOWER)", "local.lower()"))

snapshot_identity = door("authorize.identity.identity_builder", "unit/authorize/identity/test_identity_builder.py")
address_facts = door("databroker.claims", "unit/authorize/identity/test_identity_builder.py")
snapshot_identity.without("a foreign token is known by its id", "build_identity", passes(email="_text(user.email)"), *ENTRIES)
snapshot_identity.without(
    "requested groups that are missing are unknown", "_are_groups_incomplete", replaced("provider.expects_groups_claim", "False")
)
snapshot_identity.without(
    "groups that can't be read are in doubt", "_are_groups_incomplete", replaced("not names_all_groups(values)", "False")
)
address_facts.without("every source must vouch for an address", "may_match_by_email", replaced("all(...)", "any(...)"))
snapshot_identity.without(
    "an address that does not count is not missing", "build_identity", replaced('claims["email"] = NullValues()', 'claims.pop("email")')
)
snapshot_identity.without("a name is no other user's address or id", "build_identity", replaced("display_name(...)", "_text(user.name)"))

identity_loader = door(
    "authorize.identity.identity_loader", "unit/authorize/identity/test_identity_loader.py", "unit/authorize/test_service_bearer_tokens.py"
)
identity_loader.without(
    "a cached identity ends with its records",
    "CachedIdentity.__init__",
    replaced("min(identity.expires_at, sources.expires_at)", "identity.expires"),
)
identity_loader.without(
    "group names count for some providers only", "IdentityLoader._identity", always("provider.kind in KINDS_WITH_GROUP_NAMES")
)

ACCESS_TESTS = "unit/authorize/policy/language/test_grant_criteria.py"
access = door("authorize.policy.language.grant_criteria", ACCESS_TESTS)
access.without(
    "access is one route's",
    "grant_period",
    replaced("grants.get(key)", "next(iter(grants.values()), None)"),
)
access.without(
    "access to a tool is for its calls",
    "grant_period",
    replaced("tool_grant_key(key, message.tool)", "next((each for each in grants if each != key), key)"),
)
CLIENT_TESTS = "unit/authorize/policy/language/test_client_criteria.py"
clients = door("authorize.policy.language.client_criteria", CLIENT_TESTS)
clients.without(
    "a domain matches no path of a client's URL",
    "client",
    replaced("fits_url(client_id) or fits_domain(domain) if domain else fits_id(client_id)", "fits_id(client_id) or fits_domain(domain)"),
)
clients.without(
    "a caller without a client is not denied by a negated rule on clients", "client", replaced("return NOT_APPLICABLE", "return FALSE")
)
clients.without("a caller without a client has no scopes", "scope", replaced("not identity.client_id", "False"))
span = door("authorize.policy.identity", ACCESS_TESTS)
span.without(
    "a clock that is set back lengthens no access",
    "GrantPeriod.covers",
    replaced("self.starts_at - CLOCK_SKEW_SECONDS <= now < self.expires_at", "now < self.expires_at"),
)
grant_key = door("config.routes.route", ACCESS_TESTS)
grant_key.without("another name is another route", "Route.grant_key", returns("self.id"))
grant_key.without("the same name is not the same route", "Route.grant_key", returns("self.name or ''"))
links = door("authorize.route_settings", "unit/authorize/test_route_settings.py")
links.without("ids in links are keyed", "RouteLinks.link_id", returns("route.id"))
giving = door("databroker.grants.grant_store", "unit/databroker/grants/test_grant_store.py")
giving.without(
    "what was revoked is not given again",
    "GrantStore.grant",
    replaced("other.key != access.key or other.original_expires_at", "other.key != access.key"),
)
named = door(
    "gateproject.management.broker_access", "unit/gateproject/management/commands/test_grants.py", "integration/test_endsessions.py"
)
named.without(
    "an address that only resembles another matches no user",
    "users_by_email",
    replaced("verified_email(record.id, record.data, options.providers)", 'record.data.get("email")'),
)
rules = door("authorize.approval_policy", "unit/authorize/test_approval_policy.py")
rules.without(
    "a tool is requested only if access would allow its call",
    "requestable_tool",
    replaced("outcome in (Outcome.ALLOWED, Outcome.STEP_UP)", "True"),
)
rules.without(
    "a tool is requested only if it is listed", "requestable_tool", replaced("route.route.access_requests.accepts(message.tool)", "True")
)
rules.without("an approver is named for certain", "ApprovalPolicy._matches", replaced("... == TRUE", "... in (TRUE, 4)"))
desk = door("authenticate.access_requests.access_request_service", "unit/authenticate/access_requests/test_access_request_service.py")
desk.without(
    "no user approves their request with a service account whose secret they know",
    "AccessActor.as_approval",
    replaced("self.secret_viewers", "()"),
)
names = door("databroker.grants.access_request_store", "unit/authenticate/access_requests/test_access_request_service.py")
names.without(
    "two accounts of one address are one person",
    "AccessApproval.identifiers",
    replaced("_identifiers(self.user_id, self.email, *self.secret_viewers)", "_identifiers(self.user_id, *self.secret_viewers)"),
)
names.without(
    "a person and their program are one",
    "AccessApproval.identifiers",
    replaced("_identifiers(self.user_id, self.email, *self.secret_viewers)", "_identifiers(self.user_id, self.email)"),
)
desk.without("an unverified address is a second account's, too", "AccessActor.email", returns("self.identity.verified_email"))
desk.without(
    "an end before the access is given prevents it",
    "AccessRequestService._create_grant",
    replaced("max(...)", 'float("inf")'),
)
desk.without(
    "a shorter rule holds",
    "AccessRequestService._add_approval",
    replaced("min(request.duration_seconds, settings.max_duration.total_seconds())", "request.duration_seconds"),
)
hook = door("authenticate.access_requests.access_webhook", "unit/authenticate/access_requests/test_access_webhook.py")
hook.without("a redirect leads the webhook nowhere", "AccessWebhook._run", passes(follow_redirects="True"))
hook.without("a reason is words to a chat", "AccessWebhook._body", replaced("escape_chat_markup(event.text)", "event.text"))
access_requests = door("databroker.grants.access_request_store", "unit/databroker/grants/test_access_request_store.py")
access_requests.without(
    "to ask and withdraw is a flood as well",
    "AccessRequestStore._free_slots",
    replaced(
        "(stored := _from_record(record)).request.state == CLOSED or stored.request.expires_at > self._clock()",
        "_from_record(record).request.state != CLOSED",
    ),
)
access_requests.without("who comes second changes nothing", "AccessRequestStore._put", omits("only_if_version"))

service = door("authorize.service", "unit/authorize/test_service.py")
service.without(
    "a preflight has no identity",
    "AuthorizeService.check",
    replaced("decision.is_allowed and not decision.is_preflight", "decision.is_allowed"),
)
