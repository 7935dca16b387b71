// Study material in panels: plan, cards, exercises. Solutions are fetched when they are opened.
import { $, button, fetchJson, fill, make, say, texts } from "./dom.js";
import { equip } from "./copy.js";
import { pathOf, showQuiz } from "./quiz.js";
import { openSection } from "./sources.js";

const dialog = $("#study"), panel = $("#study .text"), tabs = $("#study nav"), starters = $("#starters");
const KINDS = { plan: showPlan, cards: showCards, exercises: showExercises, quiz: () => showQuiz(panel) };
let turn = null;  // actions of keys on the current card
let opening = 0;  // counts openings: late responses are not shown

// -- the dialog --------------------------------------------------------------------------------

export async function openStudy(kind) {
  turn = null;
  const mine = ++opening;
  for (const tab of tabs.children) tab.setAttribute("aria-pressed", String(tab.dataset.kind === kind));
  $("#study-title").textContent = texts[kind];
  panel.replaceChildren();
  if (!dialog.open) dialog.showModal();
  const found = kind === "quiz" ? {} : await fetchJson(`material/${kind}`);
  if (mine !== opening) return;
  if (found.message) panel.textContent = found.message;
  else KINDS[kind](found);
  dialog.scrollTop = 0;
}

const starter = (kind, attributes) => button(texts[kind], () => openStudy(kind), { "data-kind": kind, ...attributes });

async function readKinds() {
  const counts = await fetchJson("material");
  counts.quiz = counts.exercises + counts.cards;
  const kinds = Object.keys(KINDS).filter((kind) => counts[kind]);
  tabs.replaceChildren(...kinds.map((kind) => starter(kind, { class: "pill", "aria-pressed": "false" })));
  starters.replaceChildren(...kinds.map((kind) => starter(kind, { class: "pill" })));
  $("#open-study").hidden = !kinds.length;
  return kinds;
}

$("#open-study").addEventListener("click", async () => {
  const kinds = await readKinds();
  if (kinds.length) openStudy(kinds[0]);
});

const opener = (section, html) => button("", () => openSection(section), { class: "link", html });

const heading = (values, title) => values.section ? opener(values.section, title) : make("span", { html: title });

// -- plan --------------------------------------------------------------------------------------

function showPlan({ steps, time, times, words_per_minute: pace }) {
  const before = [...new Set(steps.flatMap((step) => step.beforehand))];
  panel.append(make("p", {}, fill(texts.plan_total, { time, pace })));
  if (before.length) panel.append(make("p", {}, `${texts.beforehand} ${before.join(", ")}`));
  let list;
  const ofDocuments = times.values();
  steps.forEach((step, i) => {  // a first step titled like its document is its heading: a title is shown once
    const first = step.file !== steps[i - 1]?.file, same = first && step.title.toLowerCase() === step.document.toLowerCase();
    if (first) {
      const title = same ? heading(step, step.html.title ?? "") : step.document;
      panel.append(make("h3", {}, title, aside(ofDocuments.next().value, ...(same ? materialOf(step) : []))));
    }
    if (same) { panel.append(...notesOf(step)); list = null; return; }
    if (first || !list) panel.append(list = make("ol", { class: "plan" }));
    list.append(make("li", { class: `depth-${Math.max(0, Math.min(step.level - 1, 5))}` }, ...headOf(step), ...notesOf(step)));
  });
}

const aside = (...about) => make("span", { class: "place" }, about.filter(Boolean).join(", "));

const materialOf = (step) => Object.entries(step.material).map(([type, count]) => `${count} × ${type}`);

const headOf = (step) => {
  const minutes = step.words ? fill(texts.minutes, { n: step.minutes }) : "";
  return [heading(step, step.html.title ?? ""), aside(minutes, ...materialOf(step))];
};

const notesOf = ({ requires, html }) => [
  ...(requires.length ? [make("p", { class: "note" }, `${texts.after} ${requires.join(", ")}`)] : []),
  ...(html.summary ? [make("div", { class: "summary", html: html.summary })] : []),
];

// -- cards -------------------------------------------------------------------------------------

function showCards(cards) {
  let order = cards.map((_, i) => i), at = 0, answer = false;
  const place = make("p", { class: "place" });
  const text = make("div", { class: "card-text", "aria-live": "polite" });
  const flip = () => { answer = !answer; show(); };
  const go = (by) => { at = (at + by + order.length) % order.length; answer = false; show(); };
  const shuffle = () => {
    order = order.map((i) => [Math.random(), i]).sort((a, b) => a[0] - b[0]).map(([, i]) => i);
    at = 0; answer = false; show();
  };
  const turner = button("", flip), where = make("p", { class: "place" });
  const show = () => {
    const card = cards[order[at]];
    place.textContent = fill(texts.card_of, { i: at + 1, n: order.length });
    text.innerHTML = answer ? card.html.answer : card.html.question;
    equip(text);
    text.classList.toggle("answer-side", answer);
    turner.textContent = answer ? texts.show_question : texts.show_answer;
    where.replaceChildren(card.section ? opener(card.section, texts.open_section) : "");
  };
  panel.append(place, text, make("p", { class: "choices" }, turner, button(texts.previous, () => go(-1)),
    button(texts.next, () => go(1)), button(texts.shuffle, shuffle)), where, make("p", { class: "note" }, texts.cards_help));
  turn = { " ": flip, ArrowRight: () => go(1), ArrowLeft: () => go(-1) };
  show();
  turner.focus();
}

dialog.addEventListener("keydown", (event) => {
  const does = turn?.[event.key];
  if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.closest("button")) return;  // the space key presses that button
  event.preventDefault();
  does();
});

// -- exercises ---------------------------------------------------------------------------------

function showExercises(exercises) {
  let above = "", solved = null;  // all solutions, fetched once
  exercises.forEach((exercise, i) => {
    const path = pathOf(exercise.document, exercise.headings);
    if (path !== above) panel.append(make("h3", {}, path));
    above = path;
    const title = `${exercise.number}${exercise.title ? " " : ""}`;
    const item = make("section", { class: "exercise" }, make("h4", { html: title + (exercise.html.title ?? "") }),
      make("div", { html: exercise.html.text }));
    if (exercise.has_solution) {
      const shown = make("div");
      const solution = make("details", { class: "hidden" }, make("summary", {}, texts.solution), shown);
      solution.addEventListener("toggle", async () => {
        if (!solution.open || shown.innerHTML) return;
        solved ??= fetchJson("material/exercises?solutions=true");
        const all = await solved;
        if (all.message) { shown.textContent = all.message; say(all.message); solved = null; }
        else { shown.innerHTML = all[i]?.html.solution ?? ""; equip(shown); }
      });
      item.append(solution);
    } else item.append(make("p", { class: "note" }, texts.no_solution));
    panel.append(item);
  });
  equip(panel);
}

readKinds();
