// A list that draws the rows in sight alone, however long it is. All rows of it are equally high.

import { h, setStyle } from "./dom.js";

const MARGIN_ROWS = 8;

export class VirtualList {
  /** `height()` is the height of a row, `draw(index)` makes one, `nearEnd()` is called when more is wanted. */
  constructor({ height, draw, nearEnd, label }) {
    this.height = height;
    this.draw = draw;
    this.nearEnd = nearEnd;
    this.count = 0;
    this.drawn = new Map();
    this.element = h("div", { class: "rows", role: "list", "aria-label": label });
    this.onScroll = () => {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.paint());
    };
    addEventListener("scroll", this.onScroll, { passive: true });
    addEventListener("resize", this.onScroll, { passive: true });
  }

  close() {
    cancelAnimationFrame(this.frame);
    removeEventListener("scroll", this.onScroll);
    removeEventListener("resize", this.onScroll);
  }

  /** Draws anew: the rows are others now. */
  reset(count) {
    const focused = this.focusedIndex();
    this.count = count;
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    this.paint();
    if (focused !== null && focused < count) this.focus(focused);
  }

  paint() {
    const height = this.height();
    setStyle(this.element, { height: `${this.count * height}px` });
    const top = -this.element.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - MARGIN_ROWS);
    const last = Math.min(this.count - 1, Math.ceil((top + innerHeight) / height) + MARGIN_ROWS);
    for (const [index, row] of this.drawn) {
      // The focus must not get lost while one scrolls.
      if ((index < first || index > last) && !row.contains(document.activeElement)) {
        row.remove();
        this.drawn.delete(index);
      }
    }
    for (let index = first; index <= last; index += 1) if (!this.drawn.has(index)) this.add(index, height);
    for (const [index, row] of this.drawn) setStyle(row, { top: `${index * height}px` });
    if (last >= this.count - MARGIN_ROWS * 3) this.nearEnd?.();
  }

  add(index, height) {
    const row = this.draw(index);
    row.setAttribute("role", "listitem");
    row.setAttribute("aria-posinset", index + 1);
    row.setAttribute("aria-setsize", this.count);
    row.dataset.index = index;
    setStyle(row, { top: `${index * height}px` });
    // In the order of the list, so that the Tab key goes down it.
    const next = [...this.drawn.keys()].filter((other) => other > index).sort((one, other) => one - other)[0];
    this.element.insertBefore(row, next === undefined ? null : this.drawn.get(next));
    this.drawn.set(index, row);
  }

  focusedIndex() {
    const row = document.activeElement?.closest?.(".rows > *");
    return row && this.element.contains(row) ? Number(row.dataset.index) : null;
  }

  /** Moves the focus by so many rows. */
  move(by) {
    const from = this.focusedIndex();
    this.focus(from === null ? 0 : Math.min(this.count - 1, Math.max(0, from + by)));
  }

  focus(index) {
    const height = this.height();
    const top = this.element.getBoundingClientRect().top + index * height;
    const bar = document.querySelector(".bar").offsetHeight;
    if (top < bar + 4) scrollBy(0, top - bar - 8);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight + 8);
    this.paint();
    this.drawn.get(index)?.querySelector("a")?.focus({ preventScroll: true });
  }
}
