// The quiz: exercises and cards one after the other; students write an answer, and get feedback on it.
import { $, button, fetchJson, fill, make, post, say, texts } from "./dom.js";
import { equip } from "./copy.js";
import { answerView, fillIn } from "./exchange.js";
import { mayAsk } from "./guard.js";
import { ARRIVING, serverSent } from "./stream.js";

let stopping = new AbortController();  // aborts the feedback that is arriving

export const pathOf = (first, headings) => [first, ...headings]
  .filter((part, i, all) => part.toLowerCase() !== all[i - 1]?.toLowerCase()).join(" › ");

async function readItems() {
  const [exercises, cards] = await Promise.all([fetchJson("material/exercises"), fetchJson("material/cards")]);
  if (exercises.message ?? cards.message) return { message: exercises.message ?? cards.message };
  return { items: [
    ...exercises.map(({ id, document: first, headings, html, choices, single }) => ({
      id, path: pathOf(first, headings), html: html.text, choices, single, shown: html.choices ?? [],
    })),
    ...cards.map(({ id, title, headings, html }) => ({ id, path: pathOf(title, headings), html: html.question })),
  ] };
}

export async function showQuiz(panel) {
  const place = make("div");
  panel.replaceChildren(place);
  const { items, message } = await readItems();
  if (message) { place.textContent = message; return; }
  const paths = [...new Set(items.map(({ path }) => path))].sort((one, other) => one.localeCompare(other, undefined, { numeric: true }));
  const choice = make("select", { id: "quiz-section" }, make("option", { value: "" }, texts.all_sections),
    ...paths.map((path) => make("option", { value: path }, path)));
  const item = make("div", { class: "quiz" });
  const begin = () => showItem(item, items.filter(({ path }) => !choice.value || path === choice.value), 0);
  choice.addEventListener("change", begin);
  place.replaceChildren(make("p", { class: "field" }, make("label", { for: "quiz-section" }, texts.quiz_section), choice), item);
  begin();
}

function showItem(item, items, at) {
  stopping.abort();
  const { id, path, html, choices, shown = [], single } = items[at];
  const question = make("div", { class: "card-text", html });
  const boxes = shown.map((_, i) => make("input", { type: single ? "radio" : "checkbox", name: "choice", ...(i ? {} : { id: "quiz-answer" }) }));
  const field = boxes[0] ?? make("textarea", { id: "quiz-answer", rows: "4", maxlength: $("#question").maxLength });
  const written = () => shown.length ? choices.filter((_, i) => boxes[i].checked).join("\n\n") : field.value.trim();
  const asked = shown.length
    ? [make("fieldset", {}, make("legend", {}, texts.your_answer), ...shown.map((text, i) => make("label", {}, boxes[i], make("span", { html: text }))))]
    : [make("label", { for: "quiz-answer" }, texts.your_answer), field];
  const check = make("button", { type: "submit", class: "main" }, texts.check);
  const next = button(texts.next_question, () => { showItem(item, items, (at + 1) % items.length); $("#quiz-answer").focus(); });
  const view = answerView();
  view.article = make("article", {}, view.note, view.body, view.aside);
  const form = make("form", { class: "quiz-answer" }, ...asked,
    make("p", { class: "choices" }, check, ...(items.length > 1 ? [next] : [])));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = written();
    if (!answer) { tell(view, texts.no_answer); field.focus(); return; }
    if (!await mayAsk()) return;
    check.disabled = true;
    await judge(view, { exercise: id, answer });
    check.disabled = false;
  });
  equip(question);
  item.replaceChildren(make("p", { class: "place" }, `${fill(texts.question_of, { i: at + 1, n: items.length })} · ${path}`),
    question, form, view.article);
}

async function judge(view, values) {
  stopping = new AbortController();
  view.done.textContent = view.tail.textContent = "";
  view.aside.hidden = true;
  tell(view, texts.thinking);
  try {
    const response = await post("feedback", values, { signal: stopping.signal });
    if (!response.ok) { tell(view, (await response.json()).error.message, true); return; }
    for await (const [name, told] of serverSent(response.body, view)) {
      ARRIVING[name]?.(view, told);
      if (name === "failure") tell(view, told.message, true);
      if (name === "answer") { fillIn(view, told); say(texts.ready); }
    }
  } catch ({ name }) {
    if (name !== "AbortError") tell(view, texts.offline, true);
  }
}

function tell(view, message, failed = false) {
  view.note.textContent = message;
  view.note.classList.toggle("failure", failed);
  say(message);
}
