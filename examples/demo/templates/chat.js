"use strict";

const messages = document.getElementById("messages");
const here = document.getElementById("here");
const state = document.getElementById("state");
const form = document.getElementById("say");
const text = document.getElementById("text");
const send = form?.querySelector("button");
const LONGEST_WAIT = 10000;

let socket;
let me;
let wait = 500;

function element(name, className, content) {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = content ?? "";
  return made;
}

function face(person) {
  const made = element("span", "face", person.name.split(" ").map((part) => part[0]).slice(0, 2).join(""));
  made.style.setProperty("--hue", [...person.email].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7));
  made.setAttribute("aria-hidden", "true");
  return made;
}

function show(message) {
  const entry = element("li", message.person.email === me.email ? "mine" : "");
  const bubble = element("div", "bubble");
  const who = element("div", "who");
  const at = new Date(message.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  who.append(element("b", "", message.person.name), element("span", "", at));
  bubble.append(who, element("div", "text", message.text));
  entry.append(face(message.person), bubble);
  messages.append(entry);
  messages.scrollTop = messages.scrollHeight;
}

function showWhoIsHere(people) {
  here.replaceChildren(
    ...people.map((person) => {
      const entry = element("li", "");
      const name = element("span", "", person.email === me.email ? `${person.name} (you)` : person.name);
      name.append(element("small", "", person.email));
      entry.append(face(person), name);
      return entry;
    }),
  );
}

function tell(words, isOpen) {
  state.textContent = words;
  state.dataset.open = isOpen ? "yes" : "no";
  send.disabled = !isOpen;
}

function closed(event) {
  here.replaceChildren();
  if (event.code === 1008) {
    // gate closes like this when the session ends, or when the policy no longer lets this person in.
    return tell("Your access has ended: reload this page to sign in again.", false);
  }
  tell("The connection was lost, trying again", false);
  setTimeout(connect, wait);
  wait = Math.min(wait * 2, LONGEST_WAIT);
}

function connect() {
  socket = new WebSocket(`wss://${location.host}/talk`);
  socket.onopen = () => {
    wait = 500;
    tell("Connected through gate", true);
  };
  socket.onmessage = (event) => {
    const heard = JSON.parse(event.data);
    if (heard.type === "welcome") {
      me = heard.you;
      messages.replaceChildren();
      heard.said.forEach(show);
    } else if (heard.type === "here") {
      showWhoIsHere(heard.people);
    } else {
      show(heard);
    }
  };
  socket.onclose = closed;
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  if (text.value.trim() && socket.readyState === WebSocket.OPEN) {
    socket.send(text.value);
    text.value = "";
  }
});

if (form) {
  connect();
}
