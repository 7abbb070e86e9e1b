"""Defences of the portal: what is listed, for whom, and what its buttons may change."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced, skips

openings = door("authorize.openings", "unit/authorize/test_openings.py")
openings.without("who is refused is shown nothing", "_opening", never("decision.outcome not in (Outcome.ALLOWED, Outcome.STEP_UP)"))
openings.without("an answer of another route is none", "_opening", never("decision.route is not route"))
openings.without("a hidden route is shown to nobody", "StartPages.__init__", always("route.route.is_in_portal"))
openings.without("what a page sent is no header of an application", "carried_everywhere", always("header[0] not in _OF_ONE_REQUEST"))
openings.without("no start page is guessed for many hosts", "start_path", never("'*' in route.route.from_.host"))
openings.without("a stronger sign-in is told of", "_opening", replaced("decision.outcome is Outcome.STEP_UP", "False"))
openings.without("who asks from elsewhere is asked from there", "StartPage.request", replaced("asker.source_ip", "''"))

service = door("authorize.service", "unit/authorize/test_openings.py")
service.without(
    "what is refused whoever asks is refused",
    "AuthorizeService.openings",
    never("before is not None and before.outcome is not Outcome.SIGN_IN"),
)

remote = door("authorize.rpc.client", "contract/test_authorizers.py")
remote.without("what is not open is not listed", "RemoteAuthorizer.openings", always("id in open_now or id in after_step_up"))

picture = door("config.types.picture", "unit/config/types/test_picture.py")
picture.without("an SVG is of shapes", "_SvgCheck._begin", never("not _SHAPES.fullmatch(element)"))
picture.without("an SVG is of no other language", "_SvgCheck._begin", never("namespace != _NAMESPACE"))
picture.without("an SVG has attributes of shapes", "_check_attribute", never("not _ATTRIBUTES.fullmatch(name)"))
picture.without("an SVG refers to itself", "_check_attribute", never("not _LOCAL.fullmatch(value)"))
picture.without("an SVG loads nothing", "_check_attribute", never("_OTHER_FUNCTION.search(rest)"))
picture.without("an SVG hides no reference", "_check_attribute", never(r"'\\' in rest"))
picture.without("an SVG has no document type", "_SvgCheck.__init__", skips("self._parser.StartDoctypeDeclHandler = self._refuse_doctype"))
picture.without(
    "an SVG has no instructions", "_SvgCheck.__init__", skips("self._parser.ProcessingInstructionHandler = self._refuse_instruction")
)
picture.without("an SVG is read as a browser reads it", "_SvgCheck.__init__", skips("self._parser.XmlDeclHandler = self._require_utf8"))
picture.without("a picture is small", "media_type", never("len(content) > LARGEST"))

brand = door("config.settings.brand", "unit/config/settings/test_brand.py")
brand.without("a logo is a picture", "logo_file", skips("picture.media_type(...)"))
brand.without("a logo is small", "logo_file", never("len(file.content) > LARGEST_LOGO"))
colour = door("config.types.colour", "unit/config/types/test_colour.py")
colour.without("a colour is nothing but one", "colour", replaced("_HEX.fullmatch(written)", "_HEX.match(written)"))
accent = door("foundation.web.accent", "unit/foundation/web/test_accent.py")
accent.without("text in the accent can be read", "readable", replaced("contrast(each, ground) >= ENOUGH", "True"))

choices = door("authenticate.portal.choices", "unit/authenticate/portal/test_choices.py")
choices.without("choices are of one issuer's person", "_of", always("found.issuer == session.vouched_by"))
choices.without("choices are bounded", "toggled", replaced("(*choices.favourites, key)[-MOST_FAVOURITES:]", "(*choices.favourites, key)"))

views = door("authenticate.views.portal", "unit/authenticate/views/test_portal.py")
views.without("the page asked", "change_portal", never("not answers.is_from_our_page(...)"))
views.without("who asks for the list is signed in", "portal_json", never("session is None"))
views.without("of what is not listed nothing is said", "_looked_up", always("each.fits(words)"))

own = door("authenticate.session.sessions", "unit/authenticate/portal/test_own_sessions.py", "unit/authenticate/views/test_sessions.py")
own.without(
    "a session of somebody else is none",
    "Sessions.own",
    replaced("found if await self._are_of_one_person(session, found) else None", "found"),
)
own.without(
    "who has the same id at another issuer is somebody else",
    "Sessions._are_of_one_person",
    replaced("(other.user_id, other.vouched_by) == (one.user_id, one.vouched_by)", "other.user_id == one.user_id"),
)

sessions = door("authenticate.views.sessions", "unit/authenticate/views/test_sessions.py")
sessions.without("the page asked for the end", "sessions", never("not answers.is_from_our_page(...)"))
sessions.without("an end is told of", "_ended", skips("await service.audit_trail.note(...)"))
sessions.without("this session is ended by who asks first", "_end", never("found.id in (session.id, *session.earlier)"))

sign_out = door("authenticate.views.sign_out", "unit/authenticate/views/test_sessions.py")
sign_out.without("a sign-out is told of", "_end", skips("await service.audit_trail.note(...)"))

page_text = door("foundation.web.plain_text", "unit/foundation/web/test_plain_text.py")
page_text.without("what turns text is marked", "plain_text", replaced("_ODD.sub(INSTEAD, text)", "text"))

page = door("foundation.web.pages", "unit/foundation/web/test_languages.py")
page.without(
    "what a message holds is no markup",
    "_words",
    replaced('in_language(said, context["language"])', 'Markup(in_language(said, context["language"]))'),
)

preferences = door("foundation.web.preferences", "unit/foundation/web/test_preferences.py")
preferences.without(
    "a long header is not read whole", "preferred_language", replaced("accept_language[:LONGEST_HEADER]", "accept_language")
)
preferences.without("a quality is between 0 and 1", "_weight", always("0.0 <= weight <= 1.0"))

programs = door("authenticate.portal.programs", "unit/authenticate/portal/test_programs.py")
programs.without("programs of other sessions are not told", "programs_of", always("record.id.startswith(f'{session_id}/')"))

consent = door("authenticate.views.program", "unit/authenticate/views/test_program.py")
consent.without("a program is noted before it is let in", "_agreed", skips("await programs.remember(service.broker, session, program)"))

DOORS = (
    openings,
    service,
    remote,
    picture,
    brand,
    colour,
    accent,
    choices,
    views,
    own,
    sessions,
    sign_out,
    page_text,
    page,
    preferences,
    programs,
    consent,
)
