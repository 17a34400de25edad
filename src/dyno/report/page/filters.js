// The filters: native controls, filled from the state and read into a new one.

/** Sets the options of a select. Unchanged options are left alone: the select may have the focus. */
function options(select, values, chosen) {
  const text = JSON.stringify(values);
  if (select.dataset.values !== text) {
    select.dataset.values = text;
    select.replaceChildren(...values.map(([value, text]) => el("option", { value }, text ?? value)));
  }
  select.value = String(chosen);
}

function fillFilters(form, runs, state) {
  const run = runs[state.run];
  const { elements } = form;
  if (elements.run) options(elements.run, runs.map((one, at) => [String(at), one.name]), state.run);
  options(elements.phase, run.phases.map((phase) => [phase, phaseName(run, phase)]), state.phase);
  options(elements.tier, run.tiers.map((tier) => [tier, tier || UNKNOWN]), state.tier);
  // Suites that store nothing have no tiers.
  elements.tier.closest("label").hidden = same(run.tiers, [""]);
  fillParams(byId("params"), run, state);
  const names = run.engines.filter((engine) => !engine.floor).map((engine) => engine.name);
  const baselines = run.baselines ? names.map((name) => [name]) : [];
  options(elements.baseline, [[BEST, "the best of the phase"], ...baselines], run.baselines ? state.baseline : BEST);
  fillEngines(byId("engines"), run, state);
}

/** Sets a select for each varying parameter. Unchanged ones are left alone: one may have the focus. */
function fillParams(box, run, state) {
  const names = Object.keys(run.params);
  if (box.dataset.names !== names.join()) {
    box.dataset.names = names.join();
    box.replaceChildren(...names.map((name) => el("label", {}, `${name} `, el("select", { name: `p.${name}` }))));
  }
  for (const name of names) {
    options(box.querySelector(`[name="p.${CSS.escape(name)}"]`), run.params[name].map((v) => [String(v)]), state.params[name]);
  }
}

function fillEngines(box, run, state) {
  const names = run.engines.map((engine) => engine.name);
  if (box.dataset.names !== names.join()) {
    box.dataset.names = names.join();
    const labels = run.engines.map((engine) =>
      el(
        "label",
        { class: "check" },
        el("input", { type: "checkbox", name: "engine", value: engine.name }),
        engine.floor ? `${engine.name} (floor)` : engine.name,
      ),
    );
    box.replaceChildren(el("legend", {}, "Engines"), ...labels);
  }
  for (const input of box.querySelectorAll("input")) input.checked = state.engines.includes(input.value);
}

function fromFilters(form, runs, before) {
  const values = new FormData(form);
  const at = values.has("run") ? Number(values.get("run")) : before.run;
  if (at !== before.run) return initial(runs[at], at);
  const run = runs[at];
  const params = Object.entries(run.params).map(([name, choices]) => [
    name,
    choices.find((value) => String(value) === values.get(`p.${name}`)),
  ]);
  return {
    run: at,
    phase: values.get("phase"),
    tier: values.get("tier"),
    params: Object.fromEntries(params),
    engines: values.getAll("engine"),
    baseline: values.get("baseline"),
  };
}

/** Marks the selected phase in the overview. */
function markChosen(state, runs) {
  for (const link of document.querySelectorAll("a.phase")) {
    const at = fromHash(link.getAttribute("href"), runs);
    const here = ["run", "phase", "tier", "params"].every((name) => same(at[name], state[name]));
    link.closest("tr, .multiples > div").classList.toggle("chosen", here);
    if (here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
