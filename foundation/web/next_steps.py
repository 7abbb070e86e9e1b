"""Next step of an error page that nobody has written a better one for: no page of ours may be a dead end."""

from foundation.web.message import Message

_BY_STATUS = {
    400: Message("Go back and try again. If a link led you here, open the application from its first page."),
    401: Message("Sign in, then try again."),
    403: Message("If you need access, contact your administrator."),
    404: Message("Check the address for a typo."),
    405: Message("Go back to the page that you came from, and use its links and buttons."),
    408: Message("Try again. A faster connection may help."),
    410: Message("Open the application from its first page."),
    411: Message("Use another browser or program."),
    413: Message("Send less at once."),
    414: Message("Open the application from its first page."),
    421: Message("Try again in a new window."),
    426: Message("Use a newer browser or program."),
    429: Message("Try again later."),
    431: Message("Delete the cookies of this site in your browser, then try again."),
    495: Message("Choose the certificate that you were given, or ask your administrator for one."),
    501: Message("Use another browser or program."),
    505: Message("Use another browser or program."),
}
_ELSE = Message("Try again in a moment.")


def next_step(status: int) -> Message:
    return _BY_STATUS.get(status, _ELSE)
