// Helpers of all modules of the page: elements, texts, requests. HTML that is inserted into the page was rendered by
// the server, which lets no markup of others through; everything else is inserted as text.
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

// Send values, and return an error message; empty if it succeeded.
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

// Show a section, or an error message, in its dialog.
export function showSection({ title, page = "", place = page, html, message }) {
  const dialog = $("#section");
  $("#section-title").innerHTML = title;
  $(".place", dialog).textContent = place;
  $(".text", dialog).innerHTML = html ?? "";
  if (!html) $(".text", dialog).textContent = message;
  if (!dialog.open) dialog.showModal();
  return dialog;
}

// Enter submits a form, Shift+Enter begins a new line.
export const sendsOnEnter = (field, may = () => true) => field.addEventListener("keydown", (event) => {
  // Safari ends the composition of Japanese or Chinese before the Enter that confirms it, and marks that key with 229.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  if (may()) field.form.requestSubmit();
});
