// Study material in panels: plan, cards, exercises. Solutions are fetched when they are opened.
import { $, button, fetchJson, fill, make, say, texts } from "./dom.js";
import { equip } from "./copy.js";
import { AGAIN, GOOD, kept, review } from "./fsrs.js";
import { pathOf, showQuiz } from "./quiz.js";
import { openSection } from "./sources.js";
import { COURSE, attempt } from "./storage.js";

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

const DONE = `lmm-plan ${COURSE}`;

// Ticks of the plan, which the browser keeps.
function ticks(steps, told) {
  const done = new Set(attempt(() => JSON.parse(localStorage.getItem(DONE)), null) ?? []);
  const keyOf = ({ file, headings }) => [file, ...headings].join(" › ");
  const say = () => { told.textContent = fill(texts.done_steps, { n: steps.filter((step) => done.has(keyOf(step))).length, all: steps.length }); };
  say();
  return (step) => {
    const box = make("input", { type: "checkbox", "aria-label": step.title || step.document });
    box.checked = done.has(keyOf(step));
    box.addEventListener("change", () => {
      if (box.checked) done.add(keyOf(step)); else done.delete(keyOf(step));
      attempt(() => localStorage.setItem(DONE, JSON.stringify([...done])));
      say();
    });
    return box;
  };
}

function showPlan({ steps, time, times, words_per_minute: pace }) {
  panel.append(make("p", {}, fill(texts.plan_total, { time, pace })));
  const told = make("p", { class: "note", role: "status" }), tick = ticks(steps, told);
  panel.append(told);
  let list;
  const ofDocuments = times.values();
  steps.forEach((step, i) => {  // a first step titled like its document is its heading: a title is shown once
    const first = step.file !== steps[i - 1]?.file, same = first && step.title.toLowerCase() === step.document.toLowerCase();
    if (first) {
      const title = same ? heading(step, step.html.title ?? "") : step.document;
      panel.append(make("h3", {}, ...(same ? [tick(step)] : []), title, aside(ofDocuments.next().value, ...(same ? materialOf(step) : []))));
    }
    if (same) { panel.append(...notesOf(step)); list = null; return; }
    if (first || !list) panel.append(list = make("ol", { class: "plan" }));
    list.append(make("li", { class: `depth-${Math.max(0, Math.min(step.level - 1, 5))}` }, tick(step), ...headOf(step), ...notesOf(step)));
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

// Due cards, then new ones; each comes back when it is time, as the student says how it went.
function showCards(cards, all = false) {
  const states = kept(), now = Date.now() / 86_400_000, dueOf = ({ id }) => states[id]?.due ?? Infinity;
  const waiting = cards.filter((card) => all || dueOf(card) === Infinity || dueOf(card) <= now).sort((one, other) => (dueOf(one) > dueOf(other) ? 1 : dueOf(one) < dueOf(other) ? -1 : 0));
  turn = null;
  panel.replaceChildren();
  if (!waiting.length) {
    const next = new Date(Math.min(...cards.map(dueOf)) * 86_400_000).toLocaleDateString(document.documentElement.lang, { dateStyle: "medium" });
    panel.append(make("p", {}, fill(texts.cards_done, { day: next })), button(texts.cards_anyway, () => showCards(cards, true)));
    return;
  }
  const place = make("p", { class: "place" }), where = make("p", { class: "place" }), choices = make("p", { class: "choices" });
  const text = make("div", { class: "card-text", "aria-live": "polite" });
  let answer = false;
  const next = () => { answer = false; if (waiting.length) show(); else showCards(cards); };
  const go = (by) => { waiting.unshift(...(by < 0 ? [waiting.pop()] : [])); waiting.push(...(by > 0 ? [waiting.shift()] : [])); next(); };
  const say = (grade) => {
    const card = waiting.shift();
    review(card.id, grade);
    if (grade === AGAIN) waiting.push(card);
    next();
  };
  const flip = () => { answer = !answer; show(); };
  const show = () => {
    const [card] = waiting;
    place.textContent = fill(texts.cards_due, { n: waiting.length });
    text.innerHTML = answer ? card.html.answer : card.html.question;
    equip(text);
    text.classList.toggle("answer-side", answer);
    choices.replaceChildren(...(answer
      ? [button(texts.not_known, () => say(AGAIN)), button(texts.knew_it, () => say(GOOD), { class: "main" })]
      : [button(texts.show_answer, flip, { class: "main" }), button(texts.next, () => go(1))]));
    where.replaceChildren(card.section ? opener(card.section, texts.open_section) : "");
    $(".main", choices).focus();
  };
  panel.append(place, text, choices, where, make("p", { class: "note keys" }, texts.cards_help), make("p", { class: "note" }, texts.cards_kept));
  turn = { " ": flip, ArrowRight: () => go(1), ArrowLeft: () => go(-1) };
  show();
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
  let above = "", chapter = "", solved = null;  // all solutions, fetched once
  exercises.forEach((exercise, i) => {
    const path = pathOf(exercise.document, exercise.headings).split(" › ").slice(1).join(" › ");
    if (exercise.document !== chapter) panel.append(make("h3", {}, exercise.document));
    if (path && (path !== above || exercise.document !== chapter)) panel.append(make("p", { class: "place" }, path));
    [above, chapter] = [path, exercise.document];
    const { title = "", text } = exercise.html;
    const numbered = /^\s*(<ol|<p>\s*(<(strong|em)>)?(\p{L}+\s)?\d+(\.\d+)*\s*[.):])/u.test(text) || /\d/.test(title);  // by the author
    const item = make("section", { class: "exercise" }, ...(title || !numbered ? [make("h4", { html: `${numbered ? "" : exercise.number} ${title}` })] : []),
      make("div", { html: text }), ...(exercise.html.choices ? [make("ul", {}, ...exercise.html.choices.map((html) => make("li", { html })))] : []));
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
    }
    panel.append(item);
  });
  equip(panel);
}

readKinds();
