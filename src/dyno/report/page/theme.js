// Light and dark: as the system has it, until the reader says otherwise, which the page remembers.

const THEME = "dyno-theme";
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => root.dataset.theme === "dark";

function remembered() {
  // A browser may forbid it to a file.
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
    // Then it lasts as long as the page.
  }
}

function setTheme(theme) {
  root.dataset.theme = theme ?? (dark.matches ? "dark" : "light");
  byId("theme")?.setAttribute("aria-pressed", isDark());
}

/** Has the button and the system choose; `changed` is called after each. */
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

/** Sets the theme before anything is seen, and starts the page where the browser can unpack it. */
function themed(start) {
  setTheme(remembered());
  root.classList.add(typeof DecompressionStream === "undefined" ? "old" : "js");
  if (root.classList.contains("js")) document.addEventListener("DOMContentLoaded", start);
}
