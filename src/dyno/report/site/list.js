// Search, filters and order of the list of runs, and the choice of two to compare.

const FILTERS = ["q", "suite", "engine", "machine"];
const TWO = 2;

class List {
  constructor() {
    this.form = byId("filters");
    this.body = byId("runs").tBodies[0];
    this.rows = [...this.body.rows].map((element) => ({
      element,
      ...element.dataset,
      engines: JSON.parse(element.dataset.engines),
      words: element.textContent.toLowerCase(),
      box: element.querySelector("input"),
    }));
  }

  filter() {
    const [words, suite, engine, machine] = FILTERS.map((name) => this.form.elements[name].value);
    const terms = words.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of this.rows) {
      row.element.hidden = !(
        terms.every((word) => row.words.includes(word)) &&
        (!suite || row.suite === suite) &&
        (!engine || row.engines.includes(engine)) &&
        (!machine || row.machine === machine)
      );
    }
    const shown = this.rows.filter((row) => !row.element.hidden).length;
    byId("selection").textContent = `${shown} of ${this.rows.length} run${this.rows.length === 1 ? "" : "s"}`;
    byId("none").hidden = shown > 0;
  }

  sort(button) {
    const head = button.closest("th");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const at = [...head.parentElement.children].indexOf(head);
    const key = (row) => row[button.dataset.key] ?? row.element.cells[at].textContent.trim();
    const order = new Intl.Collator("en", { numeric: true });
    const sorted = [...this.rows].sort((one, other) => order.compare(key(one), key(other)) * (down ? -1 : 1));
    this.body.replaceChildren(...sorted.map((row) => row.element));
  }

  /** Shows the chosen runs, and the link to compare them if there are two. */
  choose() {
    const chosen = this.rows.filter((row) => row.box.checked);
    // The older run comes first.
    chosen.sort((one, other) => (one.created < other.created ? -1 : 1));
    const names = chosen.map((row) => row.name);
    const suites = new Set(chosen.map((row) => row.suite));
    const ready = chosen.length === TWO && suites.size === 1;
    const go = byId("go");
    byId("chosen").hidden = !chosen.length;
    byId("chosen").querySelector("p").textContent = ready
      ? `${names[0]} before, ${names[1]} after`
      : chosen.length === TWO
        ? `${names.join(" and ")} are of different suites: nothing to compare`
        : `${names.join(", ")}: choose two runs to compare`;
    go.hidden = !ready;
    if (ready) go.setAttribute("href", `compare.html#${new URLSearchParams({ a: names[0], b: names[1] })}`);
  }

  watch() {
    byId("runs").tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) this.sort(button);
    });
    this.body.addEventListener("change", () => this.choose());
    byId("chosen").addEventListener("reset", (event) => {
      event.preventDefault();
      for (const row of this.rows) row.box.checked = false;
      this.choose();
    });
  }
}

themed(() => {
  watchTheme(() => {});
  const list = new List();
  list.watch();
  keepInAddress(list.form, FILTERS, () => list.filter());
  // Browsers restore checked boxes when the reader returns to the page.
  list.choose();
  root.classList.add("ready");
});
