// Copying to the clipboard, as plain text only; controls for code, formulas and pictures in a text.
import { button, make, say, texts } from "./dom.js";

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // no TLS, or not allowed: the older way
    const field = make("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
    const focused = document.activeElement;
    field.value = text;
    (focused?.closest("dialog") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus();
    if (!done) { say(texts.not_copied); return false; }
  }
  say(texts.copied);
  return true;
}

// A button that copies, and shows for a while that it has.
export const copier = (label, text, attributes = {}) => button(label, async (made) => {
  if (!await copy(text())) return;
  made.textContent = texts.copied;
  setTimeout(() => { made.textContent = label; }, 2000);
}, attributes);

export function equip(inside) {
  for (const code of inside.querySelectorAll("pre")) {
    const box = make("div", { class: "code" });
    code.tabIndex = 0;  // scrollable by keyboard
    code.replaceWith(box);
    box.append(code, copier(texts.copy, () => code.textContent, { class: "quiet", "aria-label": texts.copy_code }));
  }
  for (const formula of inside.querySelectorAll(".display")) formula.tabIndex = 0;
  for (const picture of inside.querySelectorAll("img:not(a img)")) {
    const link = make("a", { href: picture.getAttribute("src"), target: "_blank", "aria-label": `${texts.open_picture} ${picture.alt}`.trim() });
    picture.replaceWith(link);
    link.append(picture);
  }
}
