"""Next step of an error page that nobody has written a better one for: no page of ours may be a dead end."""

from foundation.web.message import Message

_BY_STATUS = {
    400: Message("Go back and try again. If a link led you here, open the application from its first page."),
    401: Message("Sign in, then try again."),
    403: Message("If you should be let in, ask the people who run this site."),
    404: Message("Check the address for a typo."),
    405: Message("Go back to the page that you came from, and use its links and buttons."),
    408: Message("Please try again; a faster connection may help."),
    410: Message("Open the application from its first page."),
    411: Message("Please use another browser or program."),
    413: Message("Send less at once."),
    414: Message("Open the application from its first page."),
    421: Message("Please try again, in a new window."),
    426: Message("Please use a newer browser or program."),
    429: Message("Please try again later."),
    431: Message("Delete the cookies that your browser keeps for this site, then try again."),
    495: Message("Choose the certificate that you were given, or ask the people who run this site for one."),
    501: Message("Please use another browser or program."),
    505: Message("Please use another browser or program."),
}
_ELSE = Message("Please try again in a moment.")


def next_step(status: int) -> Message:
    return _BY_STATUS.get(status, _ELSE)
