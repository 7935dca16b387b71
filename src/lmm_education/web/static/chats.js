// The dialog of chats stored in the browser; downloading and sharing the current one.
import { $, button, fill, make, say, texts } from "./dom.js";
import { chat, conversation, shownOf, show } from "./conversation.js";
import { copy } from "./copy.js";
import { chatAsMarkdown } from "./markdown.js";
import * as storage from "./storage.js";

const dialog = $("#chats"), list = $("#chats ol"), kept = $("#keep"), find = $("#find-chat");

function fillIn() {
  const all = storage.chats(), wanted = find.value.trim().toLowerCase();
  list.replaceChildren(...all.filter((each) => `${titleOf(each)} ${chatAsMarkdown(each)}`.toLowerCase().includes(wanted)).map(line));
  find.hidden = all.length < 2;
  $("#no-chats").hidden = all.length > 0;
  $("#delete-all").hidden = !all.length;
  for (const each of dialog.querySelectorAll("[data-needs-chat]")) each.disabled = !chat.exchanges.length;
  kept.checked = storage.keeps();
  $("#shared").replaceChildren();
}

const titleOf = ({ title, exchanges }) => title ?? shownOf(exchanges[0]).asked;

function line(each) {
  const when = new Date(each.at).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  const open = button(titleOf(each), () => show(storage.chat(each.id) ?? undefined), { class: "title", "data-chat": each.id });
  open.append(make("span", { class: "place" }, `${when} · ${fill(texts.questions_in, { n: each.exchanges.length })}`));
  if (each.id === chat.id) open.setAttribute("aria-current", "true");
  return make("li", {}, open, button(texts.rename, (made) => rename(each, made.parentElement), { class: "quiet" }), twice(texts.delete, () => { forget(each); fillIn(); $("button", dialog).focus(); }));
}

// Enter, or leaving the field, renames the chat; Escape cancels.
function rename(each, item) {
  const field = make("input", { value: titleOf(each), maxlength: 200, "aria-label": texts.rename });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.value = "";
    if (event.key === "Escape" || event.key === "Enter") { event.preventDefault(); field.blur(); $(`#chats [data-chat="${each.id}"]`).focus(); }
  });
  field.addEventListener("blur", () => {
    each.title = field.value.trim() || each.title;
    if (each.id === chat.id) chat.title = each.title;
    storage.put(each);
    item.replaceWith(line(each));
  });
  item.replaceChildren(field);
  field.select();
}

function forget({ id }) {
  storage.remove(id);
  if (id === chat.id) show();
}

// A button for actions that cannot be undone: it must be pressed twice.
function twice(label, does, made = button(label, () => {}, { class: "quiet" })) {
  const calm = () => { made.textContent = label; made.classList.remove("failure"); };
  made.addEventListener("click", () => {
    if (made.textContent === texts.really) { calm(); does(); return; }
    made.textContent = texts.really;
    made.classList.add("failure");
  });
  made.addEventListener("blur", calm);
  return made;
}

$("#open-chats").addEventListener("click", () => { fillIn(); dialog.showModal(); });
twice($("#delete-all").textContent, () => { storage.chats().forEach(forget); show(); fillIn(); }, $("#delete-all"));
find.addEventListener("input", fillIn);
kept.addEventListener("change", () => {
  const done = storage.keep(kept.checked);
  if (!done) say($("#told").textContent = texts.storage_full);
  fillIn();
});

// -- the current chat --------------------------------------------------------------------------

$("#download").addEventListener("click", () => {
  const file = new Blob([chatAsMarkdown(chat)], { type: "text/markdown;charset=utf-8" });
  const link = make("a", { href: URL.createObjectURL(file), download: `${nameOf(chat)}.md` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  say(texts.downloaded);
});

const nameOf = (each) => titleOf(each).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).replace(/^-|-$/g, "") || "chat";

$("#share").addEventListener("click", async () => {
  const text = chatAsMarkdown(chat);
  const sent = await navigator.share?.({ title: $("h1").textContent, text }).then(() => true, ({ name }) => name === "AbortError");
  if (sent || !await copy(text)) return;
  $("#shared").replaceChildren(make("p", { class: "note" }, texts.shared), make("pre", { tabindex: "0" }, text));
});

conversation.addEventListener("leaving", () => dialog.close());
