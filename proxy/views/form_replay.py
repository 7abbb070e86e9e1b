"""Page of a saved form on a route host: shows the signed-in user the form's URL, and a button that sends the form."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from foundation.web.message import Message
from foundation.web.responses import redirect, render_error, render_page
from foundation.web.times import time_element
from proxy.responses.denials import FORM_GONE_ADVICE, SIGN_IN_LOOP, SIGN_IN_LOOP_ADVICE
from proxy.service import page_context
from proxy.sign_in.saved_forms import FIELD

FORM_GONE = Message("The form is no longer kept: it was already sent, or more than ten minutes have passed.")


@require_GET
async def form_replay(request: HttpRequest, id: str) -> HttpResponse:
    gate = page_context(request)
    incoming, proxy = gate.incoming, gate.proxy
    now, host_port, origin = proxy.clock(), incoming.request.host_port, proxy.origin_for(incoming.request)
    identity = await gate.authorize.identify(incoming.cookie_headers, host_port)
    if identity is None:
        if proxy.sign_in_loops.is_looping(incoming.cookie_headers, host_port, now):
            links = ((Message("Try again"), origin + incoming.request.path),)
            return render_error(
                request, 400, SIGN_IN_LOOP, advice=SIGN_IN_LOOP_ADVICE, links=links, set_cookies=[proxy.sign_in_loops.clear_cookie()]
            )
        return redirect(*proxy.sign_in_urls.start(incoming, origin.partition("://")[0], now))
    form = await proxy.data_plane.saved_forms.load(incoming, id, now)
    if form is None:
        return render_error(request, 410, FORM_GONE, advice=FORM_GONE_ADVICE, links=((Message("Open the application"), "/"),))
    return render_page(
        request,
        "kept_form.html",
        # No form-action, because browsers also apply it to the application's redirect after the form.
        form_targets="",
        shows_times=True,
        target=origin + form.target,
        url=(origin + form.target).partition("?")[0],
        user=identity.display_name,
        sent=time_element(form.submitted_at, "clock"),
        field=FIELD,
        id=form.id,
    )
