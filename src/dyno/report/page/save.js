// Files for the reader, built in the page without any network.

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** File name for a chart of the selection. */
function fileName(state, chart, ending) {
  const words = [chart.name, state.phase, state.tier, ...Object.values(state.params)].filter((word) => word !== "");
  return `${words.join("-").replace(/[^\w.-]+/g, "_")}.${ending}`;
}

function offerDownloads() {
  for (const button of document.querySelectorAll("button[data-part]")) {
    button.addEventListener("click", async () => {
      const { part, name, kind } = button.dataset;
      save(new Blob([await unpack(part)], { type: kind }), name);
    });
  }
}

/** Copying needs a clipboard for pictures, which browsers lack on pages from plain http. */
function offerCopies(figure) {
  const button = figure.box.querySelector("button[data-copy]");
  button.hidden = !(navigator.clipboard?.write && globalThis.ClipboardItem);
  button.addEventListener("click", async () => {
    if (!figure.records.length) return;
    button.dataset.copy = "";
    try {
      // Without awaiting the picture: browsers allow this only directly in a click.
      await navigator.clipboard.write([new ClipboardItem({ "image/png": figure.picture("png") })]);
      button.dataset.copy = "done";
    } catch {
      button.dataset.copy = "failed";
    }
  });
}

function offerPictures(figure) {
  offerCopies(figure);
  for (const button of figure.box.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", async () => {
      const kind = button.dataset.save;
      if (!figure.records.length) return;
      const name = fileName(figure.page.state, figure.chart, kind);
      const blob =
        kind === "csv"
          ? new Blob([asCsv(figure.chart, figure.records)], { type: "text/csv" })
          : await figure.picture(kind);
      save(blob, name);
    });
  }
}
