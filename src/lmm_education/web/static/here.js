// Where the student is reading, as reported by the book's page around this frame, or by the address. The server finds
// the section.
import { $, fetchJson } from "./dom.js";

const LONGEST = 1000, line = $("#here");  // characters of an address
let address = "", off = "";  // `off`: the page for which the student has closed the line

// The address that is sent with a question.
export const here = () => (line.hidden ? "" : address);

const pageOf = (place) => place.split("#")[0];

async function show(place) {
  address = place;
  const { title } = pageOf(place) === off ? {} : await fetchJson(`here?${new URLSearchParams({ here: place })}`);
  if (address !== place) return;  // another address has arrived in the meantime
  line.hidden = !title;
  $("span", line).innerHTML = title ?? "";
}

const take = (place) => { if (typeof place === "string" && place.length <= LONGEST) show(place); };

// Only the parent page may send it, and browsers allow only parents that [serve] names.
addEventListener("message", ({ source, data }) => { if (source === parent && parent !== window) take(data?.here); });
$("button", line).addEventListener("click", () => {
  off = pageOf(address);
  line.hidden = true;
  $("#question").focus();
});
take(new URLSearchParams(location.hash.slice(1)).get("here"));
