// Times in the zone and the words of the browser; what the server wrote, with its zone, becomes the title, and stays where there is no script.
"use strict";
{
  const date = {day: "numeric", month: "short"}, year = {year: "numeric"};
  const clock = {hour: "2-digit", minute: "2-digit", timeZoneName: "short"}, seconds = {second: "2-digit"};
  const forms = {
    day: {...date, ...year},
    clock,
    short: {...date, ...clock},
    exact: {...date, ...clock, ...seconds},
    long: {...date, ...year, ...clock},
    full: {...date, ...year, ...clock, ...seconds},
  };
  for (const element of document.querySelectorAll("time[data-form]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    element.title = element.textContent;
    element.textContent = at.toLocaleString(undefined, forms[element.dataset.form]);
  }
}
