"""Next steps that an error page of gate offers, as HTML or plain text."""

import re

HELP = "Get help"
_ADVICE = re.compile(r'<p class="reason">[^<]*</p>\s*<p>([^<]+)</p>')
_LINK = re.compile(r'<a class="button[^"]*" href="([^"]+)">([^<]+)</a>')


def next_steps(page: str) -> list[str]:
    """Return the advice and the text of each link, without the contact link, which alone is no next step."""
    if "<html" in page:
        return [*_ADVICE.findall(page), *(text for _, text in _LINK.findall(page) if text != HELP)]
    _status, _reason, *more = page.splitlines()
    return [line for line in more if not line.startswith((f"{HELP}:", "request id:"))]
