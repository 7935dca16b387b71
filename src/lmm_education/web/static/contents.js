// The table of contents, and the types of material that can be requested.
import { $, button, fetchJson, make, texts } from "./dom.js";
import { openSection } from "./sources.js";

const question = $("#question");

async function readContents() {
  const { types = [], documents = [], message } = await fetchJson("contents");
  $("#contents nav").replaceChildren(message || make("ul", {}, ...documents.flatMap(withPart)));
  $("#chips").replaceChildren(...types.map((type) => button(type, () => toggle(type), { class: "chip", "aria-pressed": "false" })));
  $("#chips").hidden = !types.length;
  markChips();
}

// The name of a part of the book, before its first chapter.
const withPart = (chapter, at, all) =>
  [...(chapter.part ? [make("li", { class: "book-part" }, chapter.part)] : []), chapterLine(chapter, at, all)];

// A chapter's title is shown once: it opens the chapter's own text; the sections below it can be folded.
function chapterLine({ number, title, depth, section, sections }, _, { length }) {
  const line = contentsLine({ number, title, depth: 0, section });
  line.className = depth ? "part" : "chapter";
  if (sections.length) {
    const many = sections.length > 1 ? texts.sections.replace("{n}", sections.length) : texts.one_section;
    line.append(make("details", length > 12 || sections.length > 12 ? {} : { open: "" },
      make("summary", {}, many), make("ul", {}, ...sections.map(contentsLine))));
  }
  return line;
}

function contentsLine({ number = "", title, depth, section }) {
  const line = section ? button("", () => openSection(section)) : make("span");
  line.append(make("span", { class: "number" }, number), make("span", { html: title }));
  return make("li", { class: `depth-${Math.min(depth, 5)}` }, line);
}

const mark = (type) => `*${type}*`;

function toggle(type) {
  const text = question.value;
  question.value = text.includes(mark(type))
    ? text.replace(mark(type), "").replace(/^\s+|\s{2,}/g, " ").trim()
    : `${mark(type)} ${text}`;
  question.dispatchEvent(new Event("input"));
  question.focus();
}

function markChips() {
  for (const chip of document.querySelectorAll(".chip")) {
    chip.setAttribute("aria-pressed", String(question.value.includes(mark(chip.textContent))));
  }
}

question.addEventListener("input", markChips);

for (const opener of document.querySelectorAll("#open-contents, #all-contents")) {
  opener.addEventListener("click", () => { readContents(); $("#contents").showModal(); });
}
for (const opener of document.querySelectorAll(".chapters [data-section]")) {
  opener.addEventListener("click", () => openSection(opener.dataset.section));
}
readContents();
