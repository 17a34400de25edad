// Zooming into the functions of flame graphs, by a click or by keyboard.

// Shares are rounded to five digits.
const NEAR = 2e-5;

const endOf = (box) => box.begin + box.share;
const overlap = (one, other) => one.begin < endOf(other) - NEAR && other.begin < endOf(one) - NEAR;
/** Whether two boxes are the same one, which may be cut in one of them. */
const sameBox = (one, other) => one.engine === other.engine && one.level === other.level && overlap(one, other);

function boxAt({ engine, level, begin, share }, at) {
  return { engine, level: level[at], begin: begin[at], share: share[at] };
}

class Zoom {
  constructor(figure) {
    this.figure = figure;
    // The boxes that were zoomed into, the present one last.
    this.frames = [];
    this.current = null;
    this.status = figure.box.querySelector(".zoomed");
    this.button = figure.box.querySelector("button[data-zoom]");
    this.button.addEventListener("click", () => {
      figure.canvas.focus();
      this.leave();
    });
    figure.canvas.tabIndex = 0;
    figure.canvas.setAttribute("role", "application");
    figure.canvas.addEventListener("keydown", (event) => this.press(event));
  }

  get frame() {
    return this.frames.at(-1);
  }

  reset() {
    this.frames = [];
    this.current = null;
    this.status.textContent = "";
    this.button.hidden = true;
  }

  /** Returns the records with the frame, its callers and what it calls. Callers are cut at its left edge. */
  cut(records) {
    const { frame } = this;
    if (!frame) return records;
    const cutRecord = (record) => {
      const kept = record.begin.map((_, at) => at).filter((at) => overlap(boxAt(record, at), frame));
      const lists = Object.entries(record).filter(([, values]) => Array.isArray(values));
      const cut = Object.fromEntries(lists.map(([name, values]) => [name, kept.map((at) => values[at])]));
      cut.begin = cut.begin.map((begin) => Math.max(begin, frame.begin));
      return { ...record, ...cut, zoom: 1 / frame.share };
    };
    return records.filter((record) => record.engine === frame.engine).map(cutRecord);
  }

  /** Limits the axis of a specification to the frame. Colours stay those of the whole chart. */
  narrow(spec) {
    if (!this.frame) return;
    const domain = [this.frame.begin, endOf(this.frame)];
    for (const { encoding } of spec.layer) encoding.x.scale = { ...encoding.x.scale, domain };
    const { color } = spec.layer[0].encoding;
    const values = this.figure.shown.flatMap((record) => record[color.field]);
    const all = color.type === "nominal" ? [...new Set(values)].sort() : [Math.min(...values), Math.max(...values)];
    color.scale = { ...color.scale, domain: all };
  }

  /** Prepares a new drawing. */
  drawn(view) {
    view.addEventListener("click", (event, item) => {
      if (item?.datum?.level) this.enter(item.datum);
    });
    this.button.hidden = !this.frame;
    this.choose(this.current);
  }

  /** Zooms into a drawn box; out of it, if it is the frame already. */
  enter(drawn) {
    const record = this.figure.shown.find((one) => one.engine === drawn.engine);
    const box = record.begin.map((_, at) => boxAt(record, at)).find((one) => sameBox(one, drawn));
    if (this.frame && sameBox(this.frame, box)) {
      this.leave();
      return;
    }
    this.frames.push(box);
    this.current = box;
    this.figure.draw();
  }

  leave() {
    this.current = this.frames.pop() ?? null;
    this.figure.draw();
  }

  press(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key in steps) this.move(...steps[event.key]);
    else if (event.key === "Enter" && this.current) this.enter(this.current);
    else if (event.key === "Escape" && this.frame) this.leave();
    else return;
    event.preventDefault();
  }

  /** Returns the drawn boxes, each with its element. */
  boxes() {
    const marks = [...this.figure.canvas.querySelectorAll(".live svg path[aria-label]")];
    return marks.filter((mark) => mark.__data__?.datum?.level).map((mark) => ({ ...mark.__data__.datum, mark }));
  }

  /** Chooses the next box: of the same level, or that calls or is called, or of the next row. */
  move(down, across) {
    const boxes = this.boxes();
    const current = boxes.find((box) => this.current && sameBox(box, this.current));
    if (!current) {
      this.choose(boxes[0]);
      return;
    }
    const row = boxes.filter((box) => box.engine === current.engine);
    let next;
    if (across) {
      const level = row.filter((box) => box.level === current.level).sort((one, other) => one.begin - other.begin);
      next = level[level.indexOf(current) + across];
    } else {
      next = row.find((box) => box.level === current.level + down && overlap(box, current));
      const engines = [...new Set(boxes.map((box) => box.engine))];
      next ??= boxes.find((box) => box.engine === engines[engines.indexOf(current.engine) + down]);
    }
    if (next) this.choose(next);
  }

  /** Marks a box and says its text. */
  choose(chosen) {
    this.current = chosen ?? null;
    for (const box of this.boxes()) {
      const is = this.current !== null && sameBox(box, this.current);
      box.mark.classList.toggle("current", is);
      if (is) this.status.textContent = box.mark.getAttribute("aria-label");
    }
  }
}
