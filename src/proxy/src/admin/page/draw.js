// Pictures: SVG made of numbers. Whatever is a name becomes text, never markup.

const SPACE = "http://www.w3.org/2000/svg";

/** An element with attributes and children; children that are no elements become text. */
export function make(tag, attributes = {}, ...children) {
  const inPicture = ["svg", "g", "path", "line", "rect", "circle", "text", "title", "tspan"].includes(tag);
  const element = inPicture ? document.createElementNS(SPACE, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const colour = (at) => `var(--c${at % 8})`;

export const short = (number, digits = 3) => {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  if (number >= 1e6) return `${(number / 1e6).toPrecision(digits)} M`;
  if (number >= 1e4) return `${(number / 1e3).toPrecision(digits)} k`;
  return number >= 100 || Number.isInteger(number) ? String(Math.round(number)) : number.toPrecision(2);
};

/** Lines over the last `length` seconds: `series` is [{name, values}], null where nothing is known. */
export function lines(box, series, length) {
  const [width, height, left, bottom] = [560, 190, 44, 20];
  const top = Math.max(0, ...series.flatMap(({ values }) => values.filter((value) => value !== null))) || 1;
  const step = 10 ** Math.floor(Math.log10(top));
  const highest = [1, 2, 2.5, 5, 10].map((times) => times * step).find((bound) => bound >= top) ?? top;
  const x = (at, count) => left + ((length - count + at) / (length - 1)) * (width - left);
  const y = (value) => height - bottom - (value / highest) * (height - bottom - 8);
  const picture = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const words = series.map(({ name, values }) => `${name}: ${short(values.at(-1))}`).join(", ");
  picture.append(make("title", {}, words || "nothing yet"));
  for (const share of [0, 0.5, 1]) {
    const at = y(highest * share);
    picture.append(
      make("line", { class: "grid", x1: left, x2: width, y1: at, y2: at }),
      make("text", { x: left - 8, y: at + 4, "text-anchor": "end" }, short(highest * share)),
    );
  }
  picture.append(
    make("text", { x: left, y: height - 2 }, `${length - 1} s ago`),
    make("text", { x: width, y: height - 2, "text-anchor": "end" }, "now"),
  );
  series.forEach(({ values }, number) => {
    let path = "";
    values.forEach((value, at) => {
      if (value === null) return;
      const joins = at > 0 && values[at - 1] !== null;
      path += `${joins ? "L" : "M"}${x(at, values.length).toFixed(1)} ${y(value).toFixed(1)}`;
      if (!joins && (at + 1 === values.length || values[at + 1] === null)) path += "h.1";
    });
    const line = make("path", { class: "trace", d: path, "stroke-linecap": "round" });
    line.style.stroke = colour(number);
    picture.append(line);
  });
  const legend = make("div", { class: "legend" });
  series.forEach(({ name, values, isCode }, number) => {
    const mark = make("i");
    mark.style.background = colour(number);
    legend.append(make("span", {}, mark, isCode ? make("code", { title: name }, name) : name, ` ${short(values.at(-1))}`));
  });
  box.replaceChildren(picture, legend);
}

const tone = (state) => ({ online: "good", lagging: "warn", "offline-soft": "warn" })[state] ?? "bad";

/** Listeners on the left, their chains in the middle, servers by hostgroup on the right. */
export function map(box, view, rates) {
  const { listeners } = view.status;
  const chains = [...new Set(listeners.map((listener) => listener.chain))];
  const groups = new Map();
  for (const pool of view.pools) {
    if (!groups.has(pool.hostgroup)) groups.set(pool.hostgroup, []);
    groups.get(pool.hostgroup).push(pool);
  }
  const rows = view.pools.length + groups.size * 0.65;
  const height = Math.max(rows * 62 + 10, listeners.length * 62 + 20, 150);
  const picture = make("svg", { viewBox: `0 0 1100 ${height}`, role: "img" });
  picture.append(make("title", {}, "Clients come by listeners, go through chains, and end at servers"));
  const edges = make("g");
  picture.append(edges);
  const place = (count, at) => (height / (count + 1)) * (at + 1);
  const node = (x, y, wide, kind, name, below, hint) => {
    const group = make("g", {}, make("title", {}, hint ?? name));
    group.append(
      make("rect", { class: `node ${kind}`, x, y: y - 24, width: wide, height: 48, rx: 9 }),
      make("text", { class: "name", x: x + 14, y: y - 3 }, name),
      make("text", { x: x + 14, y: y + 14 }, below),
    );
    picture.append(group);
    return group;
  };
  const edge = (x1, y1, x2, y2, rate) => {
    const bend = (x2 - x1) / 2;
    const line = make("path", { class: rate > 0 ? "edge" : "edge quiet", d: `M${x1} ${y1}c${bend} 0 ${bend} ${y2 - y1} ${x2 - x1} ${y2 - y1}` });
    line.style.strokeWidth = rate > 0 ? Math.min(9, 1.5 + Math.log10(1 + rate) * 1.6) : 1.5;
    edges.append(line);
  };
  const total = [...rates.values()].reduce((sum, rate) => sum + (rate ?? 0), 0);
  listeners.forEach(({ address, chain }, at) => {
    const y = place(listeners.length, at);
    node(10, y, 240, "", address.length > 30 ? `…${address.slice(-28)}` : address, "listener", address);
    edge(250, y, 400, place(chains.length, chains.indexOf(chain)), total / listeners.length);
  });
  let y = 6;
  for (const [hostgroup, pools] of groups) {
    picture.append(make("rect", { class: "group", x: 650, y, width: 440, height: pools.length * 62 + 32, rx: 12 }));
    picture.append(make("text", { x: 666, y: y + 20 }, `hostgroup ${hostgroup}`));
    y += 56;
    for (const pool of pools) {
      const rate = rates.get(`${hostgroup} ${pool.server}`) ?? 0;
      const known = view.servers.servers.find((server) => server.name === pool.server) ?? {};
      const lag = known.lag_seconds ? `, ${short(known.lag_seconds)} s behind` : "";
      const words = `${pool.state}${known.role && known.role !== "unknown" ? `, ${known.role}` : ""}${lag}`;
      const use = `${pool.attached} attached, ${pool.idle} idle, ${short(rate)}/s`;
      const group = node(666, y, 408, tone(pool.state), pool.server, `${words} · ${use}`, `${pool.server}: ${known.cause ?? pool.state}`);
      group.append(make("circle", { class: `dot ${tone(pool.state)}`, cx: 1056, cy: y - 8, r: 5 }));
      for (const [at] of chains.entries()) edge(560, place(chains.length, at), 666, y, rate / chains.length);
      y += 62;
    }
    y += -16;
  }
  chains.forEach((name, at) => node(400, place(chains.length, at), 160, "chain", name, "chain"));
  box.replaceChildren(picture);
}
