"""Defences of the portal: what is listed, for whom, and what its buttons may change."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, replaced, skips

openings = door("authorize.openings", "unit/authorize/test_openings.py")
openings.without("who asks from elsewhere is asked from there", "StartPage.request", replaced("asker.source_ip", "''"))

remote = door("authorize.rpc.client", "contract/test_authorizers.py")
remote.without("what is not open is not listed", "RemoteAuthorizer.openings", always("id in open_now or id in after_step_up"))

picture = door("config.types.picture", "unit/config/types/test_picture.py")
picture.without("an SVG has no document type", "_SvgCheck.__init__", skips("self._parser.StartDoctypeDeclHandler = self._refuse_doctype"))
picture.without(
    "an SVG has no instructions", "_SvgCheck.__init__", skips("self._parser.ProcessingInstructionHandler = self._refuse_instruction")
)
picture.without("an SVG is read as a browser reads it", "_SvgCheck.__init__", skips("self._parser.XmlDeclHandler = self._require_utf8"))

colour = door("config.types.colour", "unit/config/types/test_colour.py")
colour.without("a colour is nothing but one", "colour", replaced("_HEX.fullmatch(written)", "_HEX.match(written)"))
accent = door("foundation.web.accent", "unit/foundation/web/test_accent.py")
accent.without("text in the accent can be read", "readable", replaced("contrast(each, ground) >= ENOUGH", "True"))

choices = door("authenticate.portal.choices", "unit/authenticate/portal/test_choices.py")
choices.without("choices are bounded", "toggled", replaced("(*choices.favourites, key)[-MOST_FAVOURITES:]", "(*choices.favourites, key)"))

own = door("authenticate.session.sessions", "unit/authenticate/portal/test_own_sessions.py", "unit/authenticate/views/test_sessions.py")
own.without(
    "who has the same id at another issuer is somebody else",
    "Sessions._are_of_one_person",
    replaced("(other.user_id, other.vouched_by) == (one.user_id, one.vouched_by)", "other.user_id == one.user_id"),
)

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

DOORS = (openings, remote, picture, colour, accent, choices, own, page_text, page, preferences)
