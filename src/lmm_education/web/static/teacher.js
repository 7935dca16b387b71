// The teacher's page: the range of days, sections in a dialog, logins, settings, documents, logging out.
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

// Send a change by the teacher; the server returns a message, and maybe the new list.
async function change(address, values, status) {
  try {
    const said = await (await post(`teacher/${address}`, values)).json();
    status.textContent = said.told ?? said.error?.message ?? "";
    return said;
  } catch {
    status.textContent = texts.unreachable;
    return {};
  }
}

for (const part of document.querySelectorAll("[data-logins]")) {
  const { logins } = part.dataset, status = $("[role=status]", part), field = $("input", part);
  const send = async (address, values) => {
    const said = await change(address, values, status);
    if (said.html) $(".held", part).innerHTML = said.html;
    if (said.secret) status.append(" ", make("code", {}, said.secret));
    field.focus();
    return said;
  };
  $("form", part).addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = await send(`logins/${logins}`, { name: field.value });
    if (said.secret) field.value = "";
  });
  $(".held", part).addEventListener("click", ({ target }) => {
    const { name, again, remove, sure } = target.dataset;
    if (name === undefined) return;
    if (!sure) { // the first press asks for confirmation
      target.dataset.sure = "yes";
      target.textContent = texts.sure;
      target.ariaLabel = `${texts.sure} ${name}`;
    } else if (again !== undefined) send(`logins/${logins}`, { name, again: true });
    else if (remove !== undefined) send(`logins/${logins}/remove`, { name });
  });
}

$("#settings")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target, fields = [...form.querySelectorAll("[name]")];
  const values = Object.fromEntries(fields.filter((field) => field.value !== field.defaultValue)
    .map((field) => [field.name, field.value])); // changed fields only: others' changes stay
  const { told, errors = {} } = await change("settings", values, $("[role=status]", form));
  for (const field of fields) {
    if (told && field.name in values) field.defaultValue = values[field.name];
    $(`#not-${field.name}`).textContent = errors[field.name] ?? "";
    field.setAttribute("aria-invalid", field.name in errors);
  }
  form.querySelector("[aria-invalid=true]")?.focus();
});

const documents = $("#documents");
if (documents) {
  const status = $("[role=status]", documents), form = $("form", documents), { file, name, replace } = form.elements;
  const ingest = async (values) => {
    status.textContent = texts.working;
    const said = await change("ingest", values, status);
    if (said.html) $(".held", documents).innerHTML = said.html;
  };
  $("[data-look]", documents).addEventListener("click", () => ingest({ look: true }));
  $("[data-ingest]", documents).addEventListener("click", () => ingest({}));
  file.addEventListener("change", () => { name.value = file.files[0]?.name ?? ""; });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const utf8 = new TextDecoder("utf-8", { fatal: true }), text = await file.files[0].arrayBuffer().then((bytes) => utf8.decode(bytes)).catch(() => null);
    const values = { name: name.value, text, replace: replace.checked };
    if (!(await change("documents", values, status)).told) return;
    replace.checked = false;
    await ingest({ files: [values.name.trim()] });
  });
}

$("#log-out").addEventListener("click", async () => {
  await post("teacher/logout", {});
  location.reload();
});
