// What stands before a question: the consent that a course may ask for, and the end of a session.
import { $, make, post } from "./dom.js";
import * as storage from "./storage.js";

const body = document.body, dialog = $("#consent"), leave = $("#log-out");

let decide = () => {};  // tells the question that waits whether it may be sent

dialog.addEventListener("close", () => { if (!dialog.open) decide(dialog.returnValue === "agree"); });

// Whether a question may be sent: at once, or when the student has agreed in the dialog.
export async function mayAsk() {
  if (!body.dataset.consent) return true;
  decide(false);  // a question that still waits for the end of the dialog: it was closed, its event is on its way
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

// A request that was refused because nobody is logged in any more: the way to log in again.
export function wayIn(response) {
  if (response?.status !== 401 || !leave) return "";
  return make("a", { href: "login" }, leave.dataset.enter);
}

leave?.addEventListener("click", async () => {
  await post("logout", {});
  storage.clear();
  location.replace("login");
});
