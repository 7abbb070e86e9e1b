"""What is a person told, who may pass, of an error on the way?  The cause itself is for the log."""

from gateproject.errors import (
    AccessEnded,
    BadRequest,
    BrokerError,
    CredentialsError,
    GateError,
    NobodyToActFor,
    NoDescriptors,
    UpstreamTimeout,
)
from proxy.answers import Headers, retry_after, send_error
from proxy.forwarding.handshake import HandshakeRefused
from proxy.incoming import Incoming, Send
from proxy.kept_forms import FormGone


class TooManyTunnels(BadRequest):
    status = 429


async def explain_trouble(incoming: Incoming, error: GateError, send: Send) -> None:
    extra_headers: Headers = []
    match error:
        case HandshakeRefused():
            reason, advice, extra_headers = f"This upgrade is refused: {error}.", "", list(error.headers)
        case TooManyTunnels():
            reason, advice = f"There are too many tunnels: {error}.", "Close some, or use one for several things."
        case FormGone():
            reason, advice = f"{str(error).capitalize()}.", "Look whether it has arrived before you write it again."
        case BadRequest():
            reason, advice = f"This request can't be answered: {error}.", ""
        case AccessEnded():
            reason, advice = "Your access ended while this request was under way.", "Sign in, then try again."
        case BrokerError():
            reason, advice = "Your session can't be read right now.", "Please try again in a moment."
            extra_headers = retry_after(error)
        case NobodyToActFor():
            reason, advice = f"The application behind this address acts in people's names: {error}.", "Sign in at another page of it."
        case CredentialsError():
            reason, advice = "gate can't prove itself to the application behind this address right now.", "Please try again in a moment."
        case NoDescriptors():
            reason, advice = "There is too much to do here at this moment.", "Please try again in a moment."
        case UpstreamTimeout():
            reason, advice = "The application behind this address did not answer in time.", "Please try again in a moment."
        case _:
            reason, advice = "The application behind this address can't be reached.", "Please try again in a moment."
    await send_error(incoming, send, error.status, reason, advice=advice, extra_headers=extra_headers)
