// Filters of a league. The sentences of each choice are in the page's data: nothing is counted here.

class League {
  constructor(data) {
    this.data = data;
    this.form = byId("filters");
    this.sections = [...document.querySelectorAll("#league section")];
    this.rows = this.sections.flatMap((section) =>
      [...section.querySelectorAll("tbody tr")].map((element) => ({
        element,
        tier: section.dataset.tier,
        engines: JSON.parse(element.dataset.engines),
        choices: data.rows[element.dataset.at],
      })),
    );
  }

  filter() {
    const { engine, tier, machine, year } = this.form.elements;
    let shown = 0;
    for (const row of this.rows) {
      // Undefined if the pair was not measured on this machine in this year.
      const number = row.choices[`${machine.selectedIndex} ${year.selectedIndex}`];
      const visible =
        number !== undefined &&
        (!engine.value || row.engines.includes(engine.value)) &&
        (!tier.value || row.tier === tier.value);
      row.element.hidden = !visible;
      if (!visible) continue;
      shown += 1;
      const cells = [...row.element.cells].slice(1);
      cells.forEach((cell, at) => {
        cell.textContent = this.data.texts[number][at];
      });
    }
    for (const section of this.sections) section.hidden = !section.querySelector("tbody tr:not([hidden])");
    byId("selection").textContent = `${shown} of ${this.rows.length} comparisons`;
    byId("none").hidden = shown > 0;
  }
}

themed(async () => {
  watchTheme(() => {});
  const league = new League(JSON.parse(await unpackText("data")));
  keepInAddress(league.form, ["engine", "tier", "machine", "year"], () => league.filter());
  root.classList.add("ready");
});
