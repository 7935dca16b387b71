// The teacher's page: the choice of days, sections in a dialog, the way out.
const $ = (selector, inside = document) => inside.querySelector(selector);
const texts = JSON.parse(document.body.dataset.texts);
const dialog = $("#section");

$("#range")?.addEventListener("submit", (event) => {
  event.preventDefault();
  location.search = new URLSearchParams(new FormData(event.target));
});

document.addEventListener("click", async ({ target }) => {
  const { section, exchange, wrong } = target.closest("[data-section], [data-exchange], [data-wrong]")?.dataset ?? {};
  if (wrong) return markWrong(wrong, target.nextElementSibling);
  if (!section && !exchange) return;
  const address = section ? `sections/${encodeURIComponent(section)}` : `exchanges/${encodeURIComponent(exchange)}`;
  const response = await fetch(`teacher/${address}`);
  const found = response.ok ? await response.json() : {};
  if (section) $("#section-title").innerHTML = found.title ?? texts.section;
  else $("#section-title").textContent = found.title ?? texts.question; // a student wrote it
  $(".place", dialog).textContent = found.place ?? "";
  $(".text", dialog).innerHTML = found.html ?? "";
  if (!found.html) $(".text", dialog).textContent = texts.gone;
  if (!dialog.open) dialog.showModal();
});

async function markWrong(exchange, told) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch("teacher/wrong", { method: "POST", headers, body: JSON.stringify({ exchange }) });
  const said = await response.json();
  told.textContent = said.told ?? said.error?.message ?? "";
}

$(".close", dialog).addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

$("#log-out").addEventListener("click", async () => {
  await fetch("teacher/logout", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  location.reload();
});
