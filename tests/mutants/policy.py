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
request.without("another port is another host", "port=None if port in default_ports else port", "port=None")

route_table = door("authorize/policy/route_table.py", "unit/authorize/policy/test_route_table.py")
route_table.without(
    "a path that upstreams may read as an earlier route's is refused", "                self._refuse_two_readings(path, route)\n", ""
)
route_table.without(
    "an exact host comes before a wildcard",
    """self._by_host.get((host, port)) or self._by_host.get((f"*.{host.partition('.')[2]}", port))""",
    """self._by_host.get((f"*.{host.partition('.')[2]}", port)) or self._by_host.get((host, port))""",
)
route_table.without("a wildcard stands for one label", "{host.partition('.')[2]}", "{'.'.join(host.split('.')[-2:])}")
route_table.without(
    "the first route in the list wins",
    "for route in self.routes:\n            if route.matches(path):",
    "for route in reversed(self.routes):\n            if route.matches(path):",
)

compiled_route = door("authorize/policy/compiled_route.py", "unit/authorize/policy/test_compiled_route.py")
compiled_route.without("a regex matches the whole path", "re2.compile(text).fullmatch", "re2.compile(text).search")

criteria = door("authorize/policy/criteria.py", "unit/authorize/policy/test_criteria.py", "unit/authorize/policy/test_decision.py")
criteria.without("a preflight names its origin and method", " and request.origin and request.access_control_request_method", "")
criteria.without("a preflight is an OPTIONS request", 'request.method == "OPTIONS" and request.origin', "request.origin")
criteria.without(
    "a bare subject that looks like an address is none", 'entry for entry in listed if "@" not in entry', "entry for entry in listed"
)
criteria.without(
    "a mailbox never passes for a user id",
    '(canonical_email(entry) for entry in listed if "/" not in entry)',
    "map(canonical_email, listed)",
)
criteria.without(
    "a domain is compared whole",
    'identity.rule_email.rpartition("@")[2] in listed',
    "identity.rule_email.endswith(tuple(listed))",
)
criteria.without("true is not one", "return isinstance(value, bool), value", "return False, value")

decision = door("authorize/policy/decision.py", "unit/authorize/policy/test_decision.py")
decision.without("a rule must hold", "if step.holds:", "if step:")

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
identity_facts.without("a session's record is its own", "if session.id != record.id or not isinstance", "if not isinstance")

identity_loader = door("authorize/identity_loader.py", "unit/authorize/test_identity_loader.py")
identity_loader.without("an expired session is none", "        if now >= identity.expires:\n            return None\n", "")
identity_loader.without("a cached identity ends in time", "if now < identity.expires and sources", "if sources")
identity_loader.without("a changed record makes another identity", " and sources.are_current(self._replica) else None", " else None")
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
service.without("an origin has the scheme of its route", " and scheme == self.scheme_of(host, port)", "")

DOORS = (canonical, request, route_table, compiled_route, criteria, decision, email_address, identity_facts, identity_loader, service)
