// The teacher's page: the choice of days, sections in a dialog, the way out.
const $ = (selector, inside = document) => inside.querySelector(selector);
const texts = JSON.parse(document.body.dataset.texts);
const dialog = $("#section");

$("#range")?.addEventListener("submit", (event) => {
  event.preventDefault();
  location.search = new URLSearchParams(new FormData(event.target));
});

document.addEventListener("click", async ({ target }) => {
  const id = target.closest("[data-section]")?.dataset.section;
  if (!id) return;
  const response = await fetch(`teacher/sections/${encodeURIComponent(id)}`);
  const found = response.ok ? await response.json() : {};
  $("#section-title").innerHTML = found.title ?? texts.section;
  $(".place", dialog).textContent = found.place ?? "";
  $(".text", dialog).innerHTML = found.html ?? "";
  if (!found.html) $(".text", dialog).textContent = texts.gone;
  dialog.showModal();
});

$(".close", dialog).addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

$("#log-out").addEventListener("click", async () => {
  await fetch("teacher/logout", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  location.reload();
});
