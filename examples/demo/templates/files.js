"use strict";

const form = document.getElementById("upload");
const bar = document.getElementById("bar");
const result = document.getElementById("result");
const stop = document.getElementById("stop");

function inWords(bytes) {
  const units = ["bytes", "kB", "MB", "GB"];
  let step = 0;
  while (bytes >= 1000 && step < units.length - 1) {
    bytes /= 1000;
    step += 1;
  }
  return `${bytes.toLocaleString("en", { maximumFractionDigits: 1 })} ${units[step]}`;
}

function finish(text) {
  stop.hidden = true;
  result.textContent = text;
}

function answered(request, size) {
  if (request.status !== 200) {
    return finish(request.status === 401 ? "Your session has ended: reload this page to sign in again." : `Refused with status ${request.status}.`);
  }
  const answer = JSON.parse(request.responseText);
  const whole = answer.bytes === size ? "All" : `Only ${inWords(answer.bytes)} of`;
  finish(`${whole} ${inWords(size)} arrived. SHA-256 ${answer.sha256}`);
}

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const file = document.getElementById("file").files[0];
  const request = new XMLHttpRequest(); // fetch() cannot tell how far an upload is
  bar.hidden = stop.hidden = false;
  bar.value = 0;
  request.upload.onprogress = (progress) => {
    bar.value = progress.loaded / progress.total;
    result.textContent = `${inWords(progress.loaded)} of ${inWords(progress.total)}`;
  };
  request.onload = () => answered(request, file.size);
  request.onerror = () => finish("The connection broke.");
  request.onabort = () => finish("Stopped.");
  stop.onclick = () => request.abort();
  request.open("POST", "/upload");
  request.setRequestHeader("Accept", "application/json");
  request.send(file);
});
