// Before the first paint: the colours that the visitor chose, else those of the system.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* A browser without storage has the system's colours. */ }
