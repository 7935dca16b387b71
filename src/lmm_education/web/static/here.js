// Where the student is: the page of the book around this frame says so, or its address. The server knows the section.
import { $, fetchJson } from "./dom.js";

const LONGEST = 1000, line = $("#here");  // characters of an address
let address = "", off = "";  // the page for which the student has put it away

// What goes with a question.
export const here = () => (line.hidden ? "" : address);

const pageOf = (place) => place.split("#")[0];

async function show(place) {
  address = place;
  const { title } = pageOf(place) === off ? {} : await fetchJson(`here?${new URLSearchParams({ here: place })}`);
  if (address !== place) return;  // it has moved on meanwhile
  line.hidden = !title;
  $("span", line).innerHTML = title ?? "";
}

const take = (place) => { if (typeof place === "string" && place.length <= LONGEST) show(place); };

// Only the page around this one may say it: browsers let none be that which [serve] does not name.
addEventListener("message", ({ source, data }) => { if (source === parent && parent !== window) take(data?.here); });
$("button", line).addEventListener("click", () => {
  off = pageOf(address);
  line.hidden = true;
  $("#question").focus();
});
take(new URLSearchParams(location.hash.slice(1)).get("here"));
