"""Next step of an error page that nobody has written a better one for: no page of ours may be a dead end."""

_BY_STATUS = {
    400: "Go back and try again. If a link led you here, open the application from its first page.",
    401: "Sign in, then try again.",
    403: "If you should be let in, ask the people who run this site.",
    404: "Check the address for a typo.",
    405: "Go back to the page that you came from, and use its links and buttons.",
    408: "Please try again; a faster connection may help.",
    410: "Open the application from its first page.",
    411: "Please use another browser or program.",
    413: "Send less at once.",
    414: "Open the application from its first page.",
    421: "Please try again, in a new window.",
    426: "Please use a newer browser or program.",
    429: "Please try again later.",
    431: "Delete the cookies that your browser keeps for this site, then try again.",
    495: "Choose the certificate that you were given, or ask the people who run this site for one.",
    501: "Please use another browser or program.",
    505: "Please use another browser or program.",
}
_ELSE = "Please try again in a moment."


def next_step(status: int) -> str:
    return _BY_STATUS.get(status, _ELSE)
