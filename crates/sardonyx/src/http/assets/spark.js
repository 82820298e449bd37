// A small line of numbers.

import { s } from "/assets/dom.js";

/** The last minute as a line; what is missing is at the left. */
export function spark(numbers, width = 160, height = 26) {
  const values = numbers.slice(-60);
  const top = Math.max(1, ...values);
  const x = (index) => ((index + 60 - values.length) / 59) * width;
  const y = (value) => height - 2 - (value / top) * (height - 4);
  const points = values.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  const area = line && `${line}L${width} ${height}L${x(0).toFixed(1)} ${height}Z`;
  return s("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    s("path", { class: "area", d: area }), s("path", { d: line }));
}
