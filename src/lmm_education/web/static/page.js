// The web chat: sending a question, and showing its answer as it arrives. For every answer that is shown, other modules
// receive the event "shown" of the conversation.
import { $, button, make, post, say, sendsOnEnter, texts } from "./dom.js";
import { add, branch, chat, conversation, history, place, record, show, withdraw } from "./conversation.js";
import { ask, wait } from "./exchange.js";
import { mayAsk, wayIn } from "./guard.js";
import { here } from "./here.js";
import { offer } from "./sources.js";
import { opened } from "./storage.js";
import { ARRIVING, serverSent } from "./stream.js";

const form = $("#form"), question = $("#question"), send = $("#ask");
let running = null;  // the answer that is arriving

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running) { stop(); return; }
  const text = question.value.trim();
  if (!text) { say(texts.empty); question.focus(); return; }
  if (!await mayAsk()) { say(texts.consent_needed); question.focus(); return; }
  put("");
  for (const left of conversation.querySelectorAll(".withdrawn")) left.remove();
  answer(add(text));
});

sendsOnEnter(question, () => !running);
question.addEventListener("input", () => {  // grow with the text
  question.style.height = "";
  question.style.height = `${question.scrollHeight}px`;
});

export function put(text) {
  question.value = text;
  question.dispatchEvent(new Event("input"));
}

// A question asked again, rephrased, or chosen from the suggestions.
conversation.addEventListener("ask", async ({ detail: { view, text } }) => {
  if (running) { say(texts.wait); return; }
  if (!await mayAsk()) { say(texts.consent_needed); return; }
  if (!view || place(view) < 0) { view?.article.remove(); answer(add(text)); return; }
  branch(view);
  const headers = view.asked === text ? { "Cache-Control": "no-cache" } : {};  // not the same answer from the server's cache
  ask(view, text);
  view.article.scrollIntoView({ block: "start" });
  answer(view, headers);
});

async function answer(view, headers = {}) {
  const at = place(view);
  const now = running = { view, at, stopping: new AbortController(), text: "", found: { sources: [], known: null }, over: false };
  view.note.textContent = texts.thinking;
  send.textContent = texts.stop;
  say(texts.thinking);
  try {
    const response = await post("chat", { question: view.asked, history: history(at), here: view.here ??= here() }, { headers, signal: now.stopping.signal });
    if (!response.ok) throw new Told((await response.json()).error.message, { cause: response });
    for await (const [name, values] of serverSent(response.body, view)) {
      if (now.over) break;
      ARRIVING[name]?.(view, values);
      STEPS[name]?.(now, values);
    }
    if (!now.over) throw new Told(texts.offline);
  } catch (error) {
    if (!now.over) fail(now, error instanceof Told ? error.message : texts.offline, wayIn(error.cause));
  } finally {
    if (running === now) { running = null; send.textContent = texts.ask; }
    wait(view, false);
  }
}

class Told extends Error {}  // an error whose message is for the student

const STEPS = {
  read(now, found) {
    now.found = found;
    offer(now.view.article, found.sources);
  },
  text(now, { text }) { now.text += text; },
  restart(now) { now.text = ""; },
  answer(now, values) {
    now.over = true;
    record(now.view, { asked: now.view.asked, values: { ...values, before: now.at } });
    say(texts.ready);
  },
  failure(now, { message }) { fail(now, message); },
};

// Keep the text that has arrived as an answer, with its `end`: notices, or an error; return false if there is none.
function keepPart({ view, at, text, found }, end) {
  if (!text.trim()) return false;
  const rest = view.tail.textContent.trim();
  const html = view.done.innerHTML + (rest ? make("p", { class: "plain" }, rest).outerHTML : "");
  const cited = new Set([...view.done.querySelectorAll(".cite")].map((link) => Number(link.dataset.source)));
  const sources = found.sources.filter(({ number }) => cited.has(number));
  const read = found.sources.filter(({ number }) => !cited.has(number));
  const values = { html, text, exchange: "", sources, read, next: [], notices: [], known: found.known, before: at, ...end };
  record(view, { asked: view.asked, values });
  return true;
}

function stop() {
  if (!running) return;
  const now = running;
  running = null;
  now.over = true;
  now.stopping.abort();
  send.textContent = texts.ask;
  if (!keepPart(now, { notices: [texts.stopped] })) giveBack(now, texts.stopped);
  say(texts.stopped);
}

conversation.addEventListener("leaving", stop);
for (const leaving of ["beforeunload", "pagehide"]) addEventListener(leaving, stop);  // before the request breaks off

function fail(now, message, more = "") {
  now.over = true;
  if (!keepPart(now, { broken: `${texts.broken_off} ${message}` })) {
    giveBack(now, message, more);
    now.view.note.classList.add("failure");
  }
  say(message);
}

// Put a question without an answer back into the field, unless something else has been typed there.
function giveBack({ view }, message, more = "") {
  const { asked } = view;
  if (!withdraw(view) || view.asked !== asked) put(question.value || asked);
  const again = () => {
    if (question.value === asked) put("");
    conversation.dispatchEvent(new CustomEvent("ask", { detail: { view, text: asked } }));
  };
  view.note.replaceChildren(message, " ", more || button(texts.try_again, again, { class: "quiet" }));
}

// -- suggestions -------------------------------------------------------------------------------

const suggestions = (texts) => texts.map((text) => make("li", {},
  button(text, () => conversation.dispatchEvent(new CustomEvent("ask", { detail: { text } })), { class: "starter" })));

// The course's own questions; with a model, others are made from the answer when the student wants some.
conversation.addEventListener("shown", ({ detail: { view, values } }) => {
  const next = values.next ?? [];
  if (!next.length && !values.suggests) return;
  const list = make("ul", { class: "next", "aria-label": texts.next_questions }, ...suggestions(next));
  if (values.suggests) list.append(make("li", {}, button(texts.suggest, (made) => suggest(view, values, list, made), { class: "quiet" })));
  view.more.append(list);
});

async function suggest(view, values, list, made) {
  made.disabled = true;
  made.textContent = texts.suggesting;
  try {
    const response = await post("suggestions", { question: view.asked, answer: values.text.slice(0, 8000) });
    const said = await response.json();
    if (!response.ok) throw new Told(said.error.message);
    made.parentElement.remove();
    Object.assign(values, { next: [...(values.next ?? []), ...said.questions], suggests: false });
    list.append(...suggestions(said.questions));
    $("button", list)?.focus();
    conversation.dispatchEvent(new CustomEvent("changed"));
  } catch (error) {
    made.disabled = false;
    made.textContent = error instanceof Told ? error.message : texts.offline;
  }
}

for (const starter of document.querySelectorAll(".starter")) {
  starter.addEventListener("click", () => { put(starter.textContent); form.requestSubmit(); });
}

document.addEventListener("DOMContentLoaded", () => { const left = opened(); if (left) show(left); });  // once all modules are loaded
if (!matchMedia("(pointer: coarse)").matches) question.focus({ preventScroll: true });  // else a keyboard covers the page
