// Light and dark: the system's theme until the reader chooses one, which the page remembers.

const THEME = "dyno-theme";
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => root.dataset.theme === "dark";

function remembered() {
  // Some browsers forbid storage to local files.
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
}

function remember(theme) {
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // The choice then lasts until the page is closed.
  }
}

function setTheme(theme) {
  root.dataset.theme = theme ?? (dark.matches ? "dark" : "light");
  byId("theme")?.setAttribute("aria-pressed", isDark());
}

/** Follows the button and the system; calls `changed` after each change. */
function watchTheme(changed) {
  setTheme(remembered());
  byId("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    remember(root.dataset.theme);
    changed();
  });
  dark.addEventListener("change", () => {
    setTheme(remembered());
    changed();
  });
}

/** Sets the theme before anything is visible, and starts the page if the browser can unpack it. */
function themed(start) {
  setTheme(remembered());
  root.classList.add(typeof DecompressionStream === "undefined" ? "old" : "js");
  if (root.classList.contains("js")) document.addEventListener("DOMContentLoaded", start);
}
