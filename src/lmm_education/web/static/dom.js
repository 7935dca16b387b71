// What all modules of the page work with: elements, words, requests. Whatever is put into the page as HTML was rendered
// by the server, which lets no markup through; all else is text.
export const $ = (selector, inside = document) => inside.querySelector(selector);
export const texts = JSON.parse(document.body.dataset.texts);
export const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
export const say = (text) => { $("#status").textContent = text; };

export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "html") element.innerHTML = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

export const button = (label, does, attributes = {}) => {
  const made = make("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", () => does(made));
  return made;
};

export const post = (address, values, { headers, ...more } = {}) => fetch(address, {
  method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(values), ...more,
});

export async function fetchJson(address) {
  try {
    const response = await fetch(address);
    return response.ok ? await response.json() : { message: response.status === 404 ? texts.gone : texts.failure };
  } catch {
    return { message: texts.offline };
  }
}

// What went wrong with what was sent, in words; nothing if nothing did.
export async function refusal(address, values) {
  try {
    const response = await post(address, values);
    return response.ok ? "" : (await response.json()).error.message;
  } catch {
    return texts.offline;
  }
}

for (const each of document.querySelectorAll("dialog")) {
  $(".close", each)?.addEventListener("click", () => each.close());
  each.addEventListener("click", (event) => { if (event.target === each) each.close(); });
}

// A section, or why there is none, in its dialog.
export function showSection({ title, place = "", html, message }) {
  const dialog = $("#section");
  $("#section-title").innerHTML = title;
  $(".place", dialog).textContent = place;
  $(".text", dialog).innerHTML = html ?? "";
  if (!html) $(".text", dialog).textContent = message;
  if (!dialog.open) dialog.showModal();
  return dialog;
}

// Enter sends a form, Shift and Enter begin a line.
export const sendsOnEnter = (field, may = () => true) => field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (may()) field.form.requestSubmit();
});
