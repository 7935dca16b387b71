// The current chat: its exchanges, each with the versions of its answer, and its history for the model.
import { $, say, texts } from "./dom.js";
import { newView, showAnswer } from "./exchange.js";
import * as storage from "./storage.js";

const LONGEST = 8000, MOST = 20;  // limits of the history: characters of a text (from its end), and exchanges

const number = () => [...crypto.getRandomValues(new Uint32Array(3))].map((each) => each.toString(36)).join("");
const fresh = (exchanges = []) => ({ id: number(), at: Date.now(), exchanges });

export const conversation = $("#conversation");
export let chat = fresh();
let views = [];

export const place = (view) => views.indexOf(view);
export const shownOf = ({ versions, shown }) => versions[shown];

// The history before an exchange: pairs of question and answer.
export const history = (at) => chat.exchanges.slice(Math.max(0, at - MOST), at).map(shownOf)
  .map(({ asked, values }) => [asked, values.text.slice(-LONGEST)]);

// Add a view for a new question.
export function add(asked) {
  const view = newView(asked);
  views.push(view);
  $("#intro").hidden = true;
  view.article.scrollIntoView({ block: "start" });
  return view;
}

// Withdraw a question that got no answer: the exchange that was there before is shown again.
export function withdraw(view) {
  const at = place(view), known = chat.exchanges[at];
  if (known) showAnswer(view, known);
  else if (at >= 0) { views.pop(); view.article.classList.add("withdrawn"); }
  return Boolean(known);
}

// Ask again at an earlier place: the old chat keeps what follows, and this becomes a new one.
export function branch(view) {
  const at = place(view);
  if (at === chat.exchanges.length - 1) return;
  chat = fresh(structuredClone(chat.exchanges.slice(0, at + 1)));
  for (const { article } of views.splice(at + 1)) article.remove();
  say(texts.branched);
  $("#told").textContent = texts.branched;
}

export function record(view, version) {
  const at = place(view);
  if (at < 0) return;  // another chat is shown now
  const exchange = chat.exchanges[at] ??= { versions: [], shown: 0 };
  exchange.shown = exchange.versions.push(version) - 1;
  showAnswer(view, exchange);
  save();
}

export function save() {
  const wrong = storage.save(chat, number);
  if (!wrong) return;
  $("#told").textContent = texts[`storage_${wrong}`];
  say($("#told").textContent);
}

conversation.addEventListener("changed", save);  // values of an answer have changed, such as a reaction
conversation.addEventListener("version", ({ detail: { view, shown } }) => {
  const exchange = chat.exchanges[place(view)];
  exchange.shown = shown;
  showAnswer(view, exchange);
  $(".versions button:not(:disabled)", view.article)?.focus();
  save();
});

// Show a chat, or start a new one.
export function show(wanted = fresh()) {
  conversation.dispatchEvent(new CustomEvent("leaving"));
  chat = wanted;
  views = [];
  conversation.replaceChildren();
  $("#told").textContent = "";
  for (const exchange of chat.exchanges) showAnswer(add(shownOf(exchange).asked), exchange);
  $("#intro").hidden = Boolean(chat.exchanges.length);
  storage.open(chat.exchanges.length ? chat.id : "");
  say("");
}

$("#new-chat").addEventListener("click", () => { show(); $("#question").focus({ preventScroll: true }); });
