// The page on which one logs in. What is typed goes to the server as JSON, which no page elsewhere can send.
const texts = JSON.parse(document.body.dataset.texts);
const name = document.querySelector("#name"), password = document.querySelector("#password");
const form = document.querySelector("#login");
const told = document.querySelector("#told"), button = document.querySelector("#login button");

(name.hidden ? password : name).focus();

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  told.textContent = "";
  const message = await refusal();
  button.disabled = false;
  if (message === "") { location.replace(form.dataset.then); return; }
  told.textContent = message;
  password.select();
  password.focus();
});

async function refusal() {
  try {
    const response = await fetch(form.dataset.address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name: name.value, password: password.value }),
    });
    return response.ok ? "" : (await response.json()).error.message;
  } catch {
    return texts.offline;
  }
}
