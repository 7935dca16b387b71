// The login page. Names and passwords are sent as JSON, which pages of other sites cannot send.
import { $, refusal } from "./dom.js";

const name = $("#name"), password = $("#password"), form = $("#login"), told = $("#told"), button = $("#login button");

(name.hidden ? password : name).focus();

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  told.textContent = "";
  const message = await refusal(form.dataset.address, { name: name.value, password: password.value });
  button.disabled = false;
  if (message === "") { location.replace(form.dataset.then); return; }
  told.textContent = message;
  password.select();
  password.focus();
});
