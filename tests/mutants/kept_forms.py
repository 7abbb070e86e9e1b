"""Defences of forms that are kept across a sign-in: whose they are, how many, and that each arrives once where it was sent."""

from tests.mutants.mutant import door

forms = door("proxy/sign_in/kept_forms.py", "unit/proxy/sign_in/test_kept_forms.py", "unit/proxy/sign_in/test_kept_form_page.py")
forms.without(
    "another site's form is not kept", 'return site == "same-origin" and', 'return site in ("same-origin", "cross-site", "none") and'
)
forms.without("a sibling's form is not kept", 'return site == "same-origin" and', 'return site in ("same-origin", "same-site") and')
forms.without("Origin has a say beside Sec-Fetch-Site", ' and origin in ("", "null", own)', "")
forms.without("who names no origin is not trusted", "        return origin == own\n", '        return origin in ("", own)\n')
forms.without("what is kept is bounded", 'message["type"] != "http.request" or len(body) > most', 'message["type"] != "http.request"')
forms.without("an address has a few places", "expires=expires, only_if_version=0)", "expires=expires)")
forms.without("few are read at a time", "if not self._readers.take(network):", "if False:")
forms.without("a form that can't be sent is not kept", "        if not can_be_sent:\n", "        if False:\n")
forms.without("a form arrives once", "or not await self._spend(form):", "or (await self._spend(form), False)[1]:")
forms.without("a form goes where it was sent", "or form.target != _target(incoming)", "")
forms.without("the button is pressed on our page", " and self._is_of_same_origin(incoming)\n", "\n")
forms.without("a sibling domain plants no form", '_form_", secure=options.cookie_secure)', '_form_", secure=False)')

cookies = door("foundation/crypto/cookies.py", "unit/foundation/crypto/test_cookies.py")
cookies.without("a prefix hides no cookie of ours", "folded.removeprefix(HOST_PREFIX.lower().encode())", "folded")

DOORS = (forms, cookies)
