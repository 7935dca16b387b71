// The student's choice of theme and language, in cookies, so that the server knows them when it renders a page.
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
