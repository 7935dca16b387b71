// One question and its answers on the page, with their controls.
import { $, button, fill, make, sendsOnEnter, texts } from "./dom.js";
import { copier, equip } from "./copy.js";
import { answerAsMarkdown } from "./markdown.js";
import { showSources } from "./sources.js";
import { reader } from "./speech.js";

const conversation = $("#conversation");
const tell = (name, detail) => conversation.dispatchEvent(new CustomEvent(name, { detail }));

// Create the elements for an arriving answer.
export function answerView() {
  const done = make("div", { class: "done" }), tail = make("div", { class: "tail" });
  return { done, tail, body: make("div", { class: "answer", "aria-live": "polite" }, done, tail),
    note: make("p", { class: "note" }), aside: make("aside", { "aria-label": texts.sources, hidden: "" }) };
}

// Show an answer's text, with its sources and notices.
export function fillIn(view, values) {
  view.done.innerHTML = values.html;
  view.tail.textContent = "";
  equip(view.done);
  view.note.textContent = values.notices.join(" ");
  showSources(view, values);
}

export function newView(asked) {
  const answer = answerView(), { body, aside, note } = answer;
  const tools = make("div", { class: "tools" }), more = make("div");
  const question = make("h2"), window = make("p", { class: "window" });
  const article = make("article", {}, window, make("div", { class: "asked" }, question),
    make("div", { class: "both" }, body, aside), note, tools, more);
  const view = { ...answer, article, question, window, tools, more, asked };
  $(".asked", article).append(button(texts.edit, () => edit(view), { class: "quiet edit", "aria-label": texts.edit_question }));
  ask(view, asked);
  conversation.append(article);
  return view;
}

// Show only the question, while its answer is pending.
export function ask(view, asked) {
  view.asked = asked;
  view.question.replaceChildren(make("span", { class: "unseen" }, `${texts.you}: `), asked);
  view.done.textContent = view.tail.textContent = view.window.textContent = "";
  for (const each of [view.tools, view.more]) each.replaceChildren();
  view.aside.hidden = true;
  view.note.classList.remove("failure");
  wait(view, true);
}

export function wait(view, waits) {
  view.article.setAttribute("aria-busy", String(waits));
  view.body.setAttribute("aria-busy", String(waits));  // screen readers read the answer when it is complete
  view.body.classList.toggle("waiting", waits);
}

// Show a complete answer: one of the versions of this exchange.
export function showAnswer(view, { versions, shown }) {
  const { asked, values } = versions[shown];
  ask(view, asked);
  if (values.here) view.question.append(make("small", { class: "place" }, `${texts.here} `, make("span", { html: values.here })));
  fillIn(view, values);
  if (values.known != null && values.known < values.before) {
    view.window.textContent = fill(texts.window, { n: values.known, all: values.before });
  }
  const again = button(texts.again_button, () => tell("ask", { view, text: asked }), { class: "quiet" });
  if (values.broken) {
    again.textContent = texts.try_again;
    view.done.append(make("p", { class: "failure" }, values.broken, " ", again));
  }
  view.tools.append(
    copier(texts.copy, () => answerAsMarkdown(values), { class: "quiet", "aria-label": texts.copy_answer }),
    reader(view.done),
    ...(values.broken ? [] : [again]),
    ...(versions.length > 1 ? [versionsOf(view, versions.length, shown)] : []));
  wait(view, false);
  tell("shown", { view, values });
}

function versionsOf(view, count, shown) {
  const go = (label, by) => {
    const made = button(by < 0 ? "‹" : "›", () => tell("version", { view, shown: shown + by }), { class: "quiet", "aria-label": label });
    made.disabled = !(shown + by in Array(count).fill(0));
    return made;
  };
  return make("span", { class: "versions", role: "group", "aria-label": texts.versions },
    go(texts.previous_version, -1), `${shown + 1}/${count}`, go(texts.next_version, 1));
}

function edit(view) {
  const head = $(".asked", view.article);
  if ($("form", head)) return;
  const field = make("textarea", { rows: "3", maxlength: $("#question").maxLength, "aria-label": texts.edit_question });
  const form = make("form", { class: "edit-question" }, field, make("p", { class: "choices" },
    make("button", { type: "submit", class: "main" }, texts.send), button(texts.cancel, () => end())));
  const end = () => { form.remove(); head.classList.remove("edited"); $(".edit", head).focus(); };
  field.value = view.asked;
  head.classList.add("edited");
  head.append(form);
  field.focus();
  sendsOnEnter(field);
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") end(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return;
    end();
    tell("ask", { view, text });
  });
}
