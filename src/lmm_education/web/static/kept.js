// The conversation survives a reload: it is kept in this tab, and gone when the tab is closed or a new chat begun.
import { $, conversation, newExchange, say, showAnswer } from "./page.js";

const PLACE = `lmm-conversation ${new URL(".", location).pathname}`;  // one course of several on a server
let kept = [];

export function keep() {
  for (;;) {
    try {
      sessionStorage.setItem(PLACE, JSON.stringify(kept));
      return;
    } catch {  // the browser's limit, or its settings
      if (!kept.length) return;
      kept.shift();
    }
  }
}

conversation.addEventListener("answered", ({ detail: { values, asked } }) => {
  kept.push({ asked, values });
  keep();
});

conversation.addEventListener("changed", keep);  // values of an answer: a reaction

conversation.addEventListener("forgotten", () => {
  kept = [];
  try { sessionStorage.removeItem(PLACE); } catch { /* nothing was kept */ }
});

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE)) ?? [];
  } catch {
    return [];
  }
}

for (const { asked, values } of read()) {
  const shown = newExchange(asked);
  showAnswer(shown, values, asked);
  shown.exchange.setAttribute("aria-busy", "false");
  shown.body.classList.remove("waiting");
}
if (kept.length) {
  say("");
  $("#question").focus({ preventScroll: true });
}
