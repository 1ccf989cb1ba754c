"use strict";
// Unpacks a collapsed part when it is opened, filters the list, and keeps the filter in the address.
const list = document.getElementById("list");
const form = document.querySelector(".filter");
const entries = [...list.children];

async function unpack(details) {
  const packed = details.dataset.packed;
  if (!packed) return;
  delete details.dataset.packed;
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const part = document.createElement("div");
  part.innerHTML = await new Response(stream).text();
  details.append(part);
}

document.addEventListener("toggle", (event) => {
  if (event.target.open) unpack(event.target);
}, true);

document.addEventListener("click", (event) => {
  if (!event.target.matches(".copy")) return;
  const text = event.target.parentElement.querySelector("code").textContent;
  navigator.clipboard?.writeText(text).then(() => { event.target.textContent = "copied"; });
});

function filter() {
  const words = form.q.value.toLowerCase().split(/\s+/).filter(Boolean);
  const outcomes = new Set([...form.querySelectorAll("[name=outcome]:checked")].map((each) => each.value));
  let shown = 0;
  for (const each of entries) {
    const { outcome, profile, words: own } = each.dataset;
    const fits = outcomes.has(outcome) && (!form.profile.value || profile === form.profile.value)
      && words.every((word) => own.includes(word));
    each.hidden = !fits;
    shown += fits;
  }
  form.querySelector("output").textContent = `${shown} of ${entries.length}`;
  document.querySelector(".nothing").hidden = shown > 0;
}

function remember() {
  const found = new URLSearchParams();
  if (form.q.value) found.set("q", form.q.value);
  if (form.profile.value) found.set("profile", form.profile.value);
  const off = [...form.querySelectorAll("[name=outcome]:not(:checked)")].map((each) => each.value);
  if (off.length) found.set("without", off.join(","));
  history.replaceState(null, "", `#?${found}`);
}

async function follow() {
  const hash = decodeURIComponent(location.hash.slice(1));
  if (hash.startsWith("?")) {
    const asked = new URLSearchParams(hash.slice(1));
    const off = (asked.get("without") ?? "").split(",");
    form.q.value = asked.get("q") ?? "";
    form.profile.value = asked.get("profile") ?? "";
    for (const each of form.querySelectorAll("[name=outcome]")) each.checked = !off.includes(each.value);
    filter();
    if (form.q.value) form.scrollIntoView();
    return;
  }
  const target = document.getElementById(hash);
  if (target?.matches("details.requirement")) {
    target.hidden = false;
    await unpack(target);
    target.open = true;
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  }
}

form.hidden = false;
form.addEventListener("input", () => { filter(); remember(); });
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", follow);
filter();
follow();
