"""Defences of forms that are kept across a sign-in: whose they are, how many, and that each arrives once where it was sent."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, omits, passes, replaced

forms = door("proxy.sign_in.kept_forms", "unit/proxy/sign_in/test_kept_forms.py", "unit/proxy/views/test_kept_form.py")
forms.without(
    "another site's form is not kept",
    "KeptForms._is_of_same_origin",
    replaced('site == "same-origin"', 'site in ("same-origin", "cross-site", "none")'),
)
forms.without(
    "a sibling's form is not kept",
    "KeptForms._is_of_same_origin",
    replaced('site == "same-origin"', 'site in ("same-origin", "same-site")'),
)
forms.without("Origin has a say beside Sec-Fetch-Site", "KeptForms._is_of_same_origin", always('origin in ("", "null", own)'))
forms.without("who names no origin is not trusted", "KeptForms._is_of_same_origin", replaced("origin == own", 'origin in ("", own)'))
forms.without("an address has a few places", "KeptForms._put", omits("only_if_version"))
forms.without("a form arrives once", "KeptForms.unpacked", replaced("not await self._spend(form)", "(await self._spend(form), False)[1]"))
forms.without("a sibling domain plants no form", "KeptForms.__init__", passes(secure="False"))

cookies = door("foundation.crypto.cookies", "unit/foundation/crypto/test_cookies.py")
cookies.without("a prefix hides no cookie of ours", "is_ours", replaced("folded.removeprefix(HOST_PREFIX.lower().encode())", "folded"))

DOORS = (forms, cookies)
