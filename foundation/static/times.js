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
  // As the reader writes the language of the page; of a page in none of theirs, as the browser writes.
  const language = document.documentElement.lang.split("-")[0];
  const locale = navigator.languages.find(each => each.split("-")[0] === language);
  for (const element of document.querySelectorAll("time[data-form]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.valueOf())) continue;
    element.title = element.textContent;
    element.textContent = at.toLocaleString(locale, forms[element.dataset.form]);
  }
}
