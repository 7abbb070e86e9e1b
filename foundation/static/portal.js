// Portal: search while typing, keys, copying of a command, and a note of what was opened.  Without this script the page works, too.
"use strict";
{
  const search = document.getElementById("q"), found = document.getElementById("found");
  const plain = text => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const tiles = [...document.querySelectorAll(".apps > li")];
  const said = new Map(tiles.map(tile => [tile, plain(`${tile.closest("section").querySelector("h2")?.textContent ?? ""}\n${tile.firstElementChild.textContent}`)]));
  const opens = () => tiles.filter(tile => !tile.hidden).map(tile => tile.querySelector(":scope > a, .copy")).filter(Boolean);
  const before = [...found.childNodes];

  const filter = () => {
    const words = plain(search.value).split(/\s+/).filter(Boolean);
    for (const tile of tiles) tile.hidden = !words.every(word => said.get(tile).includes(word));
    for (const section of document.querySelectorAll(".category")) section.hidden = !section.querySelector("li:not([hidden])");
    for (const section of document.querySelectorAll(".recent")) section.hidden = words.length > 0;
    const left = tiles.filter(tile => !tile.hidden).length;
    found.replaceChildren(...(words.length ? [`${found.dataset.fits} ${left.toLocaleString(document.documentElement.lang)}`] : before));
  };
  // A page that does not hold them all asks for those that fit.
  const isWhole = !search.form.hasAttribute("data-partial");
  if (isWhole) {
    search.addEventListener("input", filter);
    search.form.addEventListener("submit", event => {
      event.preventDefault();
      if (search.value.trim()) opens()[0]?.click();
    });
  }

  const forward = () => (getComputedStyle(document.documentElement).direction === "rtl" ? -1 : 1);
  const move = (from, step) => {
    const all = opens(), next = all[all.indexOf(from) + step];
    if (next) next.focus();
    else if (step < 0) search.focus();
  };
  // How many tiles stand in a row, so that up and down lead where they point.
  const row = link => {
    const top = link.closest("li").offsetTop, list = link.closest("ul");
    return [...list.children].filter(tile => !tile.hidden && tile.offsetTop === top).length || 1;
  };
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target, typing = at.matches("input, textarea");
    if (event.key === "/" && !typing) search.focus(), search.select();
    else if (event.key === "Escape" && at === search) search.value = "", isWhole && filter();
    else if (event.key === "ArrowDown" && at === search) opens()[0]?.focus();
    else if (at.matches(".apps li > a, .apps .copy") && event.key.startsWith("Arrow")) {
      move(at, {ArrowRight: forward(), ArrowLeft: -forward(), ArrowDown: row(at), ArrowUp: -row(at)}[event.key]);
    } else return;
    event.preventDefault();
  });
  document.getElementById("keys").hidden = false;

  for (const button of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = button.dataset.done;
    });
  }

  const token = document.querySelector("input[name=_gate_csrf]").value;
  document.addEventListener("click", event => {
    const link = event.target.closest(".apps li > a, .recent a");
    const id = link?.dataset.app ?? link?.closest("li").id.slice(2);
    if (id) navigator.sendBeacon("/.gate/portal", new URLSearchParams({_gate_csrf: token, opened: id}));
  });
}
