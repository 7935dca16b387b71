// The sources of an answer: beside it, as a preview, and opened in their section.
import { $, button, fetchJson, make, showSection, texts } from "./dom.js";
import { equip } from "./copy.js";

const preview = $("#preview"), conversation = $("#conversation");
const offered = new WeakMap();  // the sources of an article that the model received

// -- beside the answer -------------------------------------------------------------------------

// Set the sources that the model reads; citations in the text open them, also before the answer is complete.
export const offer = (article, sources) => offered.set(article, sources);

// Show the sources that the answer cites, with the others that were read folded below; if none is cited, show those.
export function showSources({ article, aside }, { sources, read, html, found }) {
  offer(article, [...sources, ...read]);
  const heading = make("h3", {}, sources.length ? texts.sources : found === false ? texts.nearest : texts.read);
  const more = sources.length && read.length
    ? [make("details", {}, make("summary", {}, `${texts.also_read} (${read.length})`), listOf(read))] : [];
  aside.replaceChildren(heading, listOf(sources.length ? sources : read), ...more);
  if (!sources.length && html && found !== false) heading.after(make("p", { class: "note" }, texts.uncited));
  aside.hidden = !sources.length && !read.length;
}

const listOf = (sources) => make("ol", {}, ...sources.map((source) => {
  const title = make("span", { class: "title", html: source.title });
  const where = make("span", { class: "place" }, ...[source.original ? "" : source.page, source.type].map((about) => (about ? `${about} · ` : "")), make("span", { html: source.sentence ?? "" }));
  const open = button(make("span", { class: "number" }, source.number), () => openSection(source.section, source),
    { "data-number": source.number });
  open.append(title, where);
  const page = source.original ? [make("a", { class: "place", href: source.original, target: "_blank", rel: "noopener" }, source.page)] : [];
  return make("li", {}, open, ...page);
}));

const sourceOf = ({ dataset, parentElement }) => offered.get(parentElement.closest("article"))
  ?.find(({ number }) => number === Number(dataset.source ?? dataset.number));

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.cite");
  if (!link) return;
  event.preventDefault();
  const source = sourceOf(link);
  if (source) openSection(source.section, source);
});

// -- opening a section -------------------------------------------------------------------------

const sectionAt = (id, values) => fetchJson(`sections/${encodeURIComponent(id)}?${new URLSearchParams(values)}`);

export async function openSection(id, { passage = "", quoted = "", whole } = {}) {
  hide();
  const wanted = { passage, quoted, ...(whole && { whole }) };
  const found = await sectionAt(id, wanted);
  const dialog = showSection({ title: texts.sources, ...found });
  dialog.scrollTop = 0;
  equip(dialog);
  if (found.html) $(".text", dialog).append(leadingOn(id, wanted, found));
  for (const marked of dialog.querySelectorAll(".passage")) {
    marked.setAttribute("role", "region");
    marked.setAttribute("aria-label", texts.passage);
  }
  dialog.style.scrollPaddingTop = `${$(".bar", dialog).offsetHeight + 8}px`;  // the bar covers text scrolled below it
  const marked = $(".passage", dialog) ?? $(".here", dialog);
  (marked?.closest("details:not([open])") ?? marked)?.scrollIntoView({ block: "start" });
}

// Buttons to the previous and next section (or chapter, if a whole chapter is shown), and to the whole chapter.
function leadingOn(id, wanted, { before, after }) {
  const go = async (section, values) => { await openSection(section, values); $("#section .close").focus(); };
  const way = (to, title, html) => (to ? [button("", () => go(to.section, { whole: wanted.whole }), { title, html })] : []);
  return make("p", { class: "choices" }, ...way(before, texts.previous, `‹ ${before?.title}`),
    ...(wanted.whole ? [] : [button(texts.whole_chapter, () => go(id, { ...wanted, whole: "yes" }))]),
    ...way(after, texts.next, `${after?.title} ›`));
}

// -- the preview -------------------------------------------------------------------------------
// For mouse and keyboard; it stays while the pointer is over it, and Escape closes it.

const WAIT = 300;  // milliseconds: no preview if the pointer only passes by
const known = new Map();  // fetched sections
let pointed = null, timer = 0;

const over = ({ target }) => target.closest?.("a.cite, aside button[data-number]");
const later = (does) => { clearTimeout(timer); timer = setTimeout(does, WAIT); };

conversation.addEventListener("pointerover", (event) => {
  const target = over(event);
  if (target && event.pointerType === "mouse") later(() => show(target));
});
conversation.addEventListener("pointerout", (event) => { if (over(event)) later(hide); });
conversation.addEventListener("focusin", (event) => {
  const target = over(event);
  if (target?.matches(":focus-visible")) later(() => show(target));
});
conversation.addEventListener("focusout", (event) => { if (over(event)) hide(); });
preview.addEventListener("pointerover", () => clearTimeout(timer));
preview.addEventListener("pointerleave", () => later(hide));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
document.addEventListener("scroll", hide, { passive: true });

function hide() {
  clearTimeout(timer);
  pointed?.removeAttribute("aria-describedby");
  pointed = null;
  preview.hidden = true;
}

async function show(target) {
  const source = sourceOf(target);
  if (!source) return;
  hide();
  pointed = target;
  const { section, passage, quoted } = source, key = `${section} ${passage} ${quoted}`;
  if (!known.has(key)) known.set(key, sectionAt(section, { passage, quoted }));
  const found = await known.get(key);
  if (!found.html) known.delete(key);
  if (pointed !== target) return;  // the pointer is elsewhere now
  const text = make("div", { class: "text", html: found.html ?? "" });
  const passages = [...text.querySelectorAll(".passage")];
  if (passages.length) text.replaceChildren(...passages.flatMap((each) => [...each.childNodes]));
  preview.replaceChildren(make("p", { class: "title", html: source.title }), found.html ? text : found.message);
  preview.hidden = false;
  place(target.getBoundingClientRect());
  target.setAttribute("aria-describedby", "preview");
}

function place(box) {
  const { offsetWidth: width, offsetHeight: height } = preview;
  const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
  const below = box.bottom + 6, above = box.top - height - 6;
  preview.style.left = `${left}px`;
  preview.style.top = `${below + height < innerHeight || above < 0 ? below : above}px`;
}

// Open a section linked from elsewhere, such as from a citation in another program: #section=ID&passage=ID.
function openLinked() {
  const { section, ...more } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (section) openSection(section, more);
}
addEventListener("hashchange", openLinked);
openLinked();
