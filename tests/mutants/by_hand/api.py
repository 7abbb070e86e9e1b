"""Defences of the API: authentication, permissions, and no privilege escalation."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, omits, replaced, returns, skips

# In place of a step that is recorded in the audit log.
UNTOLD = '__import__("contextlib").nullcontext()'

approvers = door("authorize.approval_policy", "unit/authorize/test_approval_policy.py")
approvers.without("a program is no approver by a group", "ApprovalPolicy._lists_account", always("user_id in part.operand"))

made = door("authenticate.api.service_accounts_api", "unit/authenticate/api/test_service_accounts_api.py")
made.without(
    "no program puts others into groups that it is not in",
    "granted_lifetime",
    replaced("sorted(set(requested.groups) - set(creator.groups))", "[]"),
)
made.without("an end is the maker's at the latest", "create_service_account", omits("not_after"))
made.without(
    "an account is created after its audit entry",
    "create_service_account",
    replaced("call.audit.step(AuditAction.CREATE_ACCOUNT, ServiceAccount, [(name, name)])", UNTOLD),
)

inherited = door("authenticate.api.service_accounts_api", "unit/authenticate/api/test_access_requests_api.py")
inherited.without("who knows a program's secret knows those of what it makes", "create_service_account", omits("secret_viewers"))
stored = door("databroker.service_account_store", "unit/authenticate/api/test_access_requests_api.py")
stored.without("who sees a new secret is kept", "ServiceAccounts.rotate", omits("secret_viewers"))
vouching = door("authorize.identity.service_account_loader", "unit/authorize/identity/test_service_account_loader.py")
vouching.without("an end of a maker is noticed", "ServiceAccountLoader._is_current", replaced("known.creators", "()"))
inherited.without(
    "an account is bound to the secret that made it",
    "create_service_account",
    omits("creator_secret_hash"),
    "unit/authenticate/api/test_service_accounts_api.py",
)

in_admin = door("databroker.admin.service_account_admin", "unit/databroker/admin/test_service_account_admin.py")
in_admin.without("an administrator sees a secret as the person they are", "_secret_viewers", returns("()"))

sessions = door("authenticate.api.sessions_api", "unit/authenticate/api/test_sessions_api.py")
sessions.without(
    "an end is recorded before",
    "end_session",
    replaced("call.audit.step(AuditAction.END_SESSION, Session, targets.items())", UNTOLD),
)
sessions.without(
    "an end of all is recorded before",
    "end_user_sessions",
    replaced("call.audit.step(AuditAction.END_ALL_SESSIONS, User, target)", UNTOLD),
)

# Defences of the portal: what is listed for which user, and what its buttons may change.

openings = door("authorize.accessible_routes", "unit/authorize/test_accessible_routes.py")
openings.without("who asks from elsewhere is asked from there", "EntryPoint.build_request", replaced("portal_request.source_ip", "''"))

remote = door("authorize.rpc.remote_authorizer", "contract/test_authorizers.py")
remote.without("what is not open is not listed", "RemoteAuthorizer.accessible_routes", always("id in open_now or id in after_step_up"))

picture = door("config.fields.image", "unit/config/fields/test_image.py")
picture.without(
    "an SVG has no document type", "_SvgValidator.__init__", skips("self._parser.StartDoctypeDeclHandler = self._refuse_doctype")
)
picture.without(
    "an SVG has no instructions", "_SvgValidator.__init__", skips("self._parser.ProcessingInstructionHandler = self._refuse_instruction")
)
picture.without("an SVG is read as a browser reads it", "_SvgValidator.__init__", skips("self._parser.XmlDeclHandler = self._require_utf8"))

color = door("config.fields.color", "unit/config/fields/test_color.py")
color.without("a color is nothing but one", "color", replaced("_HEX.fullmatch(written)", "_HEX.match(written)"))
accent = door("foundation.web.brand", "unit/foundation/web/test_brand.py")
accent.without("text in the accent can be read", "adjust_for_contrast", replaced("contrast(each, ground) >= MIN_CONTRAST", "True"))

choices = door("authenticate.portal.preferences", "unit/authenticate/portal/test_preferences.py")
choices.without(
    "choices are bounded", "toggle_favourite", replaced("(*choices.favourites, key)[-MAX_FAVOURITES:]", "(*choices.favourites, key)")
)

own = door(
    "authenticate.session.session_service",
    "unit/authenticate/portal/test_user_sessions.py",
    "unit/authenticate/views/test_sessions_page.py",
)
own.without(
    "the same id at another issuer is another user",
    "SessionService._is_same_user",
    replaced("(other.user_id, other.effective_issuer) == (one.user_id, one.effective_issuer)", "other.user_id == one.user_id"),
)

page_text = door("foundation.web.plain_text", "unit/foundation/web/test_plain_text.py")
page_text.without("what turns text is marked", "sanitize_text", replaced("_UNSAFE.sub(REPLACEMENT, text)", "text"))

page = door("foundation.web.pages", "unit/foundation/web/test_languages.py")
page.without(
    "what a message holds is no markup",
    "_translated",
    replaced('translate(text, context["language"])', 'Markup(translate(text, context["language"]))'),
)

preferences = door("foundation.web.languages", "unit/foundation/web/test_languages.py")
preferences.without(
    "a long header is not read whole", "preferred_language", replaced("accept_language[:MAX_HEADER_LENGTH]", "accept_language")
)
