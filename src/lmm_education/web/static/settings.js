// How the page looks, and its language, as the student chooses. A cookie, so that the server knows before it writes a page.
import { $ } from "./dom.js";

const dialog = $("#settings"), root = document.documentElement;
const AGE = 180 * 24 * 3600;

for (const field of dialog.querySelectorAll("select")) {
  field.addEventListener("change", () => {
    document.cookie = `lmm_${field.name}=${field.value}; Path=/; Max-Age=${AGE}; SameSite=Lax`;
    if (field.name === "theme") root.dataset.theme = field.value;
    else location.reload();
  });
}

$("#open-settings").addEventListener("click", () => dialog.showModal());
