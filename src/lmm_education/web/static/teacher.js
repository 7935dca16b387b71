// The teacher's page: the range of days, sections in a dialog, documents, logging out.
import { $, make, post, showSection, texts } from "./dom.js";

$("#range")?.addEventListener("submit", (event) => {
  event.preventDefault();
  location.search = new URLSearchParams(new FormData(event.target));
});

// The contents of the page, at its side.
const headings = [...document.querySelectorAll(".report h2")];
headings.forEach((heading, i) => { heading.id = `part-${i}`; });
if (headings.length > 1) {
  $(".report").prepend(make("nav", { class: "parts", "aria-label": texts.parts }, make("ul", {}, ...headings.map(({ id, textContent }) =>
    make("li", {}, make("a", { href: `#${id}` }, textContent))))));
}

document.addEventListener("click", async ({ target }) => {
  const { section, exchange, wrong } = target.closest("[data-section], [data-exchange], [data-wrong]")?.dataset ?? {};
  if (wrong) return change("wrong", { exchange: wrong }, target.nextElementSibling);
  if (!section && !exchange) return;
  const address = section ? `sections/${encodeURIComponent(section)}` : `exchanges/${encodeURIComponent(exchange)}`;
  const response = await fetch(`teacher/${address}`);
  const found = response.ok ? await response.json() : {};
  showSection({ message: texts.gone, ...found, title: (section && found.title) ?? texts.section });
  if (exchange) $("#section-title").textContent = found.title ?? texts.question; // a student wrote it: no HTML
});

// Send a change by the teacher, or a file; the server returns a message, and maybe HTML.
const change = (address, values, status) => sent(post(`teacher/${address}`, values), status);

async function sent(request, status) {
  try {
    const said = await (await request).json();
    status.textContent = said.told ?? said.error?.message ?? "";
    return said;
  } catch {
    status.textContent = texts.unreachable;
    return {};
  }
}

const documents = $("#documents");
if (documents) {
  const status = $("[role=status]", documents), form = $("form", documents), { file, name, replace } = form.elements;
  const show = (said) => { if (said.html) $(".held", documents).innerHTML = said.html; };
  const ingest = async (values) => {
    status.textContent = texts.working;
    show(await change("ingest", values, status));
  };
  $("[data-look]", documents).addEventListener("click", () => ingest({ look: true }));
  $("[data-ingest]", documents).addEventListener("click", () => ingest({}));
  $(".held", documents).addEventListener("click", ({ target }) => { if (target.dataset.read) ingest({ files: [target.dataset.read] }); });
  file.addEventListener("change", () => { name.value = file.files[0]?.name ?? ""; });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    status.textContent = texts.working;
    const query = new URLSearchParams({ name: name.value, ...(replace.checked && { replace: "yes" }) });
    const headers = { "Content-Type": "application/octet-stream" };
    const said = await sent(fetch(`teacher/documents?${query}`, { method: "POST", headers, body: file.files[0] }), status);
    if (!said.told) return;
    replace.checked = false;
    if (said.html) show(said);  // converted: to be looked at first
    else await ingest({ files: [said.file] });
  });
}

$("#log-out").addEventListener("click", async () => {
  await post("teacher/logout", {});
  location.reload();
});
