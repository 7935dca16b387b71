// Thumbs and a comment for every logged answer; both can be changed.
import { $, button, make, refusal, say, sendsOnEnter, texts } from "./dom.js";

const conversation = $("#conversation");
const LONGEST = 2000;
const NAMES = ["up", "down"];

conversation.addEventListener("shown", ({ detail: { view, values } }) => {
  if (values.exchange) view.tools.append(reactions(values));
});

function reactions(values) {
  const thumbs = NAMES.map((name) => make("button",
    { type: "button", class: `thumb ${name}`, "aria-pressed": "false", "aria-label": texts[name], title: texts[name] }));
  const id = `comment-${values.exchange}`;
  const comment = make("textarea", { id, rows: "2", maxlength: LONGEST, placeholder: texts.comment_help });
  const send = make("button", { type: "submit" }, texts.send);
  const form = make("form", { class: "comment", hidden: "" },
    make("label", { class: "unseen", for: id }, texts.comment), comment, send);
  const told = make("p", { class: "note" });
  const again = button(texts.edit_comment, () => { form.hidden = false; again.hidden = true; comment.focus(); }, { class: "quiet", hidden: "" });
  const show = (sent = false) => {
    thumbs.forEach((thumb, i) => thumb.setAttribute("aria-pressed", String(values.reaction === NAMES[i])));
    const closed = sent || Boolean(values.comment);
    form.hidden = closed || !NAMES.includes(values.reaction);
    again.hidden = !closed || !NAMES.includes(values.reaction);
    comment.value = values.comment ?? "";
  };
  const set = async (reaction, text, done = texts.thanks) => {
    const failure = await refusal("reactions", { exchange: values.exchange, reaction, comment: text });
    if (!failure) Object.assign(values, { reaction, comment: text });
    told.textContent = failure || (reaction === "none" ? texts.withdrawn : done);
    told.classList.toggle("failure", Boolean(failure));
    say(told.textContent);
    show(!failure && done === texts.comment_sent);
    if (failure) comment.value = text;
    else conversation.dispatchEvent(new CustomEvent("changed"));
  };
  thumbs.forEach((thumb, i) => thumb.addEventListener("click", () =>
    values.reaction === NAMES[i] ? set("none", "") : set(NAMES[i], comment.value.trim())));
  form.addEventListener("submit", (event) => { event.preventDefault(); set(values.reaction, comment.value.trim(), texts.comment_sent); });
  sendsOnEnter(comment);
  show();
  return make("div", { class: "reaction", role: "group", "aria-label": texts.react }, ...thumbs, told, again, form);
}
