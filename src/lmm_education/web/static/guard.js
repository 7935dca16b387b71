// Checks before a question: the consent that a course may require, and the end of a session.
import { $, make, post } from "./dom.js";
import * as storage from "./storage.js";

const body = document.body, dialog = $("#consent"), leave = $("#log-out");

let decide = () => {};  // resolves whether the pending question may be sent

dialog.addEventListener("close", () => { if (!dialog.open) decide(dialog.returnValue === "agree"); });

// Whether a question may be sent: at once, or after the student has agreed in the dialog.
export async function mayAsk() {
  if (!body.dataset.consent) return true;
  decide(false);  // for an earlier question: its dialog was closed, but the event has not arrived yet
  dialog.returnValue = "";
  if (!dialog.open) dialog.showModal();
  if (!await new Promise((resolve) => { decide = resolve; })) return false;
  const response = await post("consent", { consent: body.dataset.consent });
  if (response.ok) body.dataset.consent = "";
  return response.ok;
}

for (const button of dialog.querySelectorAll("button")) {
  button.addEventListener("click", () => dialog.close(button.value));
}

// A link to log in again, if a request was refused because the session has ended.
export function wayIn(response) {
  if (response?.status !== 401 || !leave) return "";
  return make("a", { href: "login" }, leave.dataset.enter);
}

leave?.addEventListener("click", async () => {
  await post("logout", {});
  storage.clear();
  location.replace("login");
});
