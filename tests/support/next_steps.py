"""Next steps: what an error page of ours leads to, as a person or a reader of plain text finds it."""

import re

HELP = "Get help"
_ADVICE = re.compile(r'<p class="reason">[^<]*</p>\s*<p>([^<]+)</p>')
_LINK = re.compile(r'<a class="button[^"]*" href="([^"]+)">([^<]+)</a>')


def next_steps(page: str) -> list[str]:
    """Advice, and the words of each link but the one to whom to write: that alone helps nobody on."""
    if "<html" in page:
        return [*_ADVICE.findall(page), *(words for _, words in _LINK.findall(page) if words != HELP)]
    _status, _reason, *more = page.splitlines()
    return [line for line in more if not line.startswith((f"{HELP}:", "request id:"))]
