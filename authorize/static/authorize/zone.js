// Where nobody has chosen a time zone yet, the page is asked for in that of the browser; without scripts the form offers it.
"use strict";
{
  const shown = document.querySelector("[data-zone][data-unchosen]");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (shown && zone && zone !== shown.dataset.zone) {
    const here = new URL(location.href);
    here.searchParams.set("zone", zone);
    location.replace(here);
  }
}
