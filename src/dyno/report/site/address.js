// Filters of a page, kept in its address: a search can be linked.

/** Calls `show` at the start, and whenever the form or the address changes. */
function keepInAddress(form, names, show) {
  const follow = () => {
    const values = new URLSearchParams(location.hash.slice(1));
    for (const name of names) {
      const field = form.elements[name];
      field.value = values.get(name) ?? "";
      // The select has no such option.
      if (field.selectedIndex === -1) field.value = "";
    }
    show();
  };
  const remember = () => {
    const values = names.map((name) => [name, form.elements[name].value]).filter(([, value]) => value);
    history.replaceState(null, "", `#${new URLSearchParams(values)}`);
    show();
  };
  form.addEventListener("input", remember);
  form.addEventListener("submit", (event) => event.preventDefault());
  // The fields are empty only after this event.
  form.addEventListener("reset", () => setTimeout(remember));
  addEventListener("hashchange", follow);
  follow();
}
