// What a page does beyond its HTML: times in the browser's zone, colours, live parts, and records as they arrive.
// Without this file every page works; it is only not live, and its times are in UTC.
"use strict";

const ROWS_MAX = 200;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const readable = new Intl.DateTimeFormat("sv-SE", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
  fractionalSecondDigits: 3,
});

function localTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (!Number.isNaN(moment.getTime())) element.textContent = readable.format(moment).replace(",", ".");
  }
}

// Colours: as the system has them, light, dark.
const THEMES = [["", "Auto", "as the system has them"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];

function setUpTheme(button) {
  const show = () => {
    const now = document.documentElement.dataset.theme || "";
    const [, word, words] = THEMES.find(([name]) => name === now);
    button.textContent = word;
    button.setAttribute("aria-label", `${word}: colours ${words}`);
    return THEMES.findIndex(([name]) => name === now);
  };
  button.addEventListener("click", () => {
    const [name] = THEMES[(show() + 1) % THEMES.length];
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    try { localStorage.setItem("theme", name); } catch { /* It lasts as long as the page. */ }
    show();
  });
  button.hidden = false;
  show();
}

// The server escapes all that is from the cluster; what it sends is markup of the templates.
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  localTimes(template.content);
  return template.content;
}

// Only rows that differ are replaced, so that focus, selection and scroll position stay.
function update(element, html) {
  const fresh = parsed(html);
  const old = [...element.querySelectorAll("[data-row]")];
  const rows = [...fresh.querySelectorAll("[data-row]")];
  const isSame = old.length === rows.length && old.every((row, at) => row.dataset.row === rows[at].dataset.row);
  if (!isSame) {
    if (!element.contains(document.activeElement)) element.replaceChildren(fresh);
    return;
  }
  old.forEach((row, at) => {
    if (row.outerHTML !== rows[at].outerHTML && !row.contains(document.activeElement)) row.replaceWith(rows[at]);
  });
}

function note(text) {
  const element = document.getElementById("note");
  if (!element) return;
  element.hidden = !text;
  if (element.textContent !== text) element.textContent = text;
}

class Live {
  // A stream that is open while the page is visible and `isOn`.
  constructor(address, listeners) {
    this.address = address;
    this.listeners = listeners;
    this.isOn = false;
    this.source = null;
    document.addEventListener("visibilitychange", () => this.apply());
  }

  set(isOn) {
    this.isOn = isOn;
    this.apply();
  }

  apply() {
    const isWanted = this.isOn && !document.hidden;
    if (isWanted && !this.source) {
      this.source = new EventSource(this.address);
      for (const [name, listener] of Object.entries(this.listeners)) {
        this.source.addEventListener(name, (event) => listener(JSON.parse(event.data)));
      }
      this.source.addEventListener("open", () => note(""));
      this.source.addEventListener("error", () => {
        const isOver = this.source && this.source.readyState === EventSource.CLOSED;
        note(isOver ? "The page is not live any more: load it again." : "The connection is lost; trying again.");
      });
    } else if (!isWanted && this.source) {
      this.source.close();
      this.source = null;
    }
  }
}

function setUpParts(main) {
  const live = new Live(main.dataset.live, {
    part: ({ id, html }) => update(document.getElementById(id), html),
    note: ({ text }) => note(text),
  });
  const pause = document.getElementById("pause");
  pause.hidden = false;
  pause.addEventListener("click", () => {
    live.set(!live.isOn);
    pause.textContent = live.isOn ? "Pause" : "Continue";
    pause.setAttribute("aria-pressed", String(!live.isOn));
  });
  live.set(true);
}

function setUpFollowing(button) {
  const body = document.querySelector("#records tbody");
  let skipped = 0;
  const live = new Live(button.dataset.follow, {
    records: ({ html, skipped: more, problem }) => {
      body.prepend(parsed(html));
      while (body.rows.length > ROWS_MAX) body.rows[body.rows.length - 1].remove();
      const none = document.getElementById("none");
      if (none && body.rows.length) none.remove();
      skipped += more;
      note(problem || (skipped ? `${skipped} records were skipped: more arrive than can be read here.` : ""));
    },
    note: ({ text }) => note(text),
  });
  button.hidden = false;
  button.addEventListener("click", () => {
    live.set(!live.isOn);
    button.textContent = live.isOn ? "Stop following" : "Follow live";
    button.setAttribute("aria-pressed", String(live.isOn));
  });
}

localTimes(document);
document.getElementById("zone").textContent = zone;
setUpTheme(document.getElementById("theme"));
const main = document.getElementById("content");
if (main.dataset.live) setUpParts(main);
const follow = document.getElementById("follow");
if (follow) setUpFollowing(follow);
document.body.addEventListener("htmx:after:swap", () => localTimes(document));
