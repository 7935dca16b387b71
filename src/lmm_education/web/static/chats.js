// The chats that the browser keeps; this one as a file, or handed on.
import { $, button, fill, make, say, texts } from "./dom.js";
import { chat, conversation, shownOf, show } from "./conversation.js";
import { copy } from "./copy.js";
import { chatAsMarkdown } from "./markdown.js";
import * as storage from "./storage.js";

const dialog = $("#chats"), list = $("#chats ol"), kept = $("#keep");

function fillIn() {
  const all = storage.chats();
  list.replaceChildren(...all.map(line));
  $("#no-chats").hidden = all.length > 0;
  $("#delete-all").hidden = !all.length;
  for (const each of dialog.querySelectorAll("[data-needs-chat]")) each.disabled = !chat.exchanges.length;
  kept.checked = storage.keeps();
}

function line(each) {
  const when = new Date(each.at).toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
  const open = button(shownOf(each.exchanges[0]).asked, () => show(storage.chat(each.id) ?? undefined), { class: "title" });
  open.append(make("span", { class: "place" }, `${when} · ${fill(texts.questions_in, { n: each.exchanges.length })}`));
  if (each.id === chat.id) open.setAttribute("aria-current", "true");
  return make("li", {}, open, twice(texts.delete, () => { forget(each); fillIn(); $("button", dialog).focus(); }));
}

function forget({ id }) {
  storage.remove(id);
  if (id === chat.id) show();
}

// What cannot be taken back is done when its button is pressed a second time.
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
kept.addEventListener("change", () => {
  const done = storage.keep(kept.checked);
  if (!done) say($("#told").textContent = texts.storage_full);
  fillIn();
});

// -- this chat ---------------------------------------------------------------------------------

$("#download").addEventListener("click", () => {
  const file = new Blob([chatAsMarkdown(chat)], { type: "text/markdown;charset=utf-8" });
  const link = make("a", { href: URL.createObjectURL(file), download: `${nameOf(chat)}.md` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  say(texts.downloaded);
});

const nameOf = ({ exchanges }) => shownOf(exchanges[0]).asked.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).replace(/^-|-$/g, "") || "chat";

$("#share").addEventListener("click", async () => {
  const text = chatAsMarkdown(chat);
  if (!navigator.share) { await copy(text); return; }
  await navigator.share({ title: $("h1").textContent, text }).catch(({ name }) => (name === "AbortError" ? null : copy(text)));
});

conversation.addEventListener("leaving", () => dialog.close());
