// The web chat: asking, sources, contents. Whatever is put into the page as HTML was rendered by the server, which lets
// no markup through. Modules beside this one hear of every answer by the event "answered" of the conversation.

import { mayAsk, wayIn } from "./guard.js";

export const $ = (selector, inside = document) => inside.querySelector(selector);
export const texts = JSON.parse(document.body.dataset.texts);
const form = $("#form"), question = $("#question"), ask = $("#ask"), conversation = $("#conversation");
export { conversation, newExchange, showAnswer, openSection, fetchJson };
let history = [];      // pairs of question and answer, as text
const REMEMBERED = 20; // of them are sent: the server reads the latest only
let running = null;    // what stops the answer that is on its way

export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "html") element.innerHTML = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

export const say = (text) => { $("#status").textContent = text; };

// -- asking ------------------------------------------------------------------------------------

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (running) { running.abort(); return; }
  const text = question.value.trim();
  if (!text) { say(texts.empty); question.focus(); return; }
  if (!await mayAsk()) { say(texts.consent_needed); question.focus(); return; }
  question.value = "";
  markChips();
  answer(text);
});

question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!running) form.requestSubmit();
});

async function answer(text) {
  const shown = newExchange(text);
  running = new AbortController();
  ask.textContent = texts.stop;
  say(texts.thinking);
  try {
    const response = await fetch("chat", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ question: text, history: history.slice(-REMEMBERED) }),
      signal: running.signal,
    });
    if (!response.ok) throw new Told((await response.json()).error.message, { cause: response });
    for await (const [name, values] of serverSent(response.body)) STEPS[name]?.(shown, values, text);
    if (!shown.over) throw new Told(texts.offline);
  } catch (error) {
    if (error.name !== "AbortError") giveBack(text);
    if (shown.exchange.isConnected) fail(shown, explain(error), wayIn(error.cause));
  } finally {
    running = null;
    ask.textContent = texts.ask;
    shown.exchange.setAttribute("aria-busy", "false");
    shown.body.classList.remove("waiting");
  }
}

// A question that got no answer can be sent again; what was typed meanwhile stays.
function giveBack(text) {
  question.value ||= text;
  markChips();
}

class Told extends Error {}  // an error whose message is for the student

const explain = (error) =>
  error.name === "AbortError" ? texts.stopped : error instanceof Told ? error.message : texts.offline;

function newExchange(text) {
  const done = make("div", { class: "done" }), tail = make("div", { class: "tail" });
  const body = make("div", { class: "answer waiting" }, done, tail);
  const sources = make("aside", { "aria-label": texts.sources, hidden: "" });
  const note = make("p", { class: "note" }, texts.thinking);
  const asked = make("h2", { class: "asked" }, make("span", { class: "unseen" }, texts.you + ": "), text);
  const exchange = make("article", { "aria-busy": "true" }, asked, make("div", { class: "both" }, body, sources), note);
  conversation.append(exchange);
  $("#intro").hidden = true;
  exchange.scrollIntoView({ block: "start" });
  return { exchange, body, done, tail, sources, note, over: false };
}

const STEPS = {
  waiting(shown, { message }) { shown.note.textContent = message; },
  found(shown) { shown.note.textContent = texts.thinking; },
  text(shown, { text }) { shown.note.textContent = ""; shown.tail.textContent += text; },
  block(shown, { html, rest }) {
    shown.note.textContent = "";
    shown.done.insertAdjacentHTML("beforeend", html);
    shown.tail.textContent = rest;
  },
  restart(shown, { message }) { clear(shown); shown.note.textContent = message; },
  answer(shown, values, asked) {
    showAnswer(shown, values, asked);
    say(texts.ready);
  },
  failure(shown, { message }, asked) {
    giveBack(asked);
    fail(shown, message);
  },
};

function showAnswer(shown, values, asked) {
  if (!shown.exchange.isConnected) return;  // the chat was ended meanwhile
  const { html, text, sources, notices } = values;
  shown.over = true;
  shown.done.innerHTML = html;
  shown.tail.textContent = "";
  shown.note.textContent = notices.join(" ");
  if (sources.length) showSources(shown, sources);
  history.push([asked, text]);
  conversation.dispatchEvent(new CustomEvent("answered", { detail: { shown, values, asked } }));
}

function clear(shown) { shown.done.textContent = shown.tail.textContent = ""; }

function fail(shown, message, more = "") {
  shown.over = true;
  shown.note.replaceChildren(message, " ", more);
  shown.note.classList.add("failure");
  say(message);
}

async function* serverSent(stream) {
  let text = "";
  for (const reader = stream.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event) ?? [];
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

// -- sources and sections ----------------------------------------------------------------------

function showSources(shown, sources) {
  const items = sources.map((source) => {
    const title = make("span", { class: "title", html: source.title });
    const where = make("span", { class: "place" }, (source.type ? `${source.type} · ` : "") + (source.words ?? ""));
    const open = make("button", { type: "button", "data-number": source.number },
      make("span", { class: "number" }, source.number), title, where);
    open.addEventListener("click", () => openSection(source.section, source));
    return make("li", {}, open);
  });
  shown.sources.append(make("h3", {}, texts.sources), make("ol", {}, ...items));
  shown.sources.hidden = false;
}

conversation.addEventListener("click", (event) => {
  const link = event.target.closest("a.cite");
  if (!link) return;
  event.preventDefault();
  $(`aside button[data-number="${link.dataset.source}"]`, link.closest("article"))?.click();
});

async function openSection(id, { passage = "", searched = "" } = {}) {
  const dialog = $("#section");
  const found = await fetchJson(`sections/${encodeURIComponent(id)}?${new URLSearchParams({ passage, searched })}`);
  $("#section-title").innerHTML = found.title ?? texts.sources;
  $(".place", dialog).textContent = found.place ?? "";
  $(".text", dialog).innerHTML = found.html ?? "";
  if (!found.html) $(".text", dialog).textContent = found.message;
  for (const marked of dialog.querySelectorAll(".passage")) {
    marked.setAttribute("role", "region");
    marked.setAttribute("aria-label", texts.passage);
  }
  if (!dialog.open) dialog.showModal();
  dialog.style.scrollPaddingTop = `${$(".bar", dialog).offsetHeight + 8}px`;  // it covers what is scrolled below it
  const marked = $(".passage", dialog);
  (marked?.closest("details:not([open])") ?? marked)?.scrollIntoView({ block: "start" });
}

async function fetchJson(address) {
  try {
    const response = await fetch(address);
    return response.ok ? await response.json() : { message: response.status === 404 ? texts.gone : texts.failure };
  } catch {
    return { message: texts.offline };
  }
}

for (const dialog of document.querySelectorAll("dialog")) {
  $(".close", dialog)?.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}

// -- contents and types of material ------------------------------------------------------------

async function readContents() {
  const { types = [], documents = [], message } = await fetchJson("contents");
  $("#contents nav").replaceChildren(message || make("ul", {}, ...documents.map(chapterLine)));
  const chips = types.map((type) => {
    const chip = make("button", { type: "button", class: "chip", "aria-pressed": "false" }, type);
    chip.addEventListener("click", () => toggle(type));
    return chip;
  });
  $("#chips").replaceChildren(...chips);
  $("#chips").hidden = !chips.length;
  markChips();
}

// A chapter's title stands once: it opens the chapter's own text; what is below it folds.
function chapterLine({ number, title, depth, section, sections }, _, { length }) {
  const line = contentsLine({ number, title, depth: 0, section });
  line.className = depth ? "part" : "chapter";
  if (sections.length) {
    line.append(make("details", length > 12 || sections.length > 12 ? {} : { open: "" },
      make("summary", {}, texts.sections.replace("{n}", sections.length)), make("ul", {}, ...sections.map(contentsLine))));
  }
  return line;
}

function contentsLine({ number = "", title, depth, section }) {
  const line = make(section ? "button" : "span", {}, make("span", { class: "number" }, number), make("span", { html: title }));
  if (section) {
    line.type = "button";
    line.addEventListener("click", () => openSection(section));
  }
  return make("li", { class: `depth-${Math.min(depth, 5)}` }, line);
}

const mark = (type) => `*${type}*`;

function toggle(type) {
  const text = question.value;
  question.value = text.includes(mark(type))
    ? text.replace(mark(type), "").replace(/^\s+|\s{2,}/g, " ").trim()
    : `${mark(type)} ${text}`;
  markChips();
  question.focus();
}

function markChips() {
  for (const chip of document.querySelectorAll(".chip")) {
    chip.setAttribute("aria-pressed", String(question.value.includes(mark(chip.textContent))));
  }
}

question.addEventListener("input", markChips);
const openContents = () => { readContents(); $("#contents").showModal(); };
$("#open-contents").addEventListener("click", openContents);
$("#all-contents")?.addEventListener("click", openContents);
for (const button of document.querySelectorAll(".starter")) {
  button.addEventListener("click", () => { question.value = button.textContent; form.requestSubmit(); });
}
for (const button of document.querySelectorAll(".chapters [data-section]")) {
  button.addEventListener("click", () => openSection(button.dataset.section));
}
$("#new-chat").addEventListener("click", () => {
  conversation.replaceChildren();
  running?.abort();
  history = [];
  $("#intro").hidden = false;
  conversation.dispatchEvent(new CustomEvent("forgotten"));
  say("");
  question.focus();
});
readContents();
