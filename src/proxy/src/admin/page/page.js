// The page: an overview each second, drawn. What is seen over time is kept here, for two minutes.

import { lines, make, map, short } from "./draw.js";

const LENGTH = 120;
const byId = (id) => document.getElementById(id);
const kept = [];

// light or dark: as the system has it, until somebody says otherwise
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => {
  const chosen = sessionStorage.getItem("theme");
  document.documentElement.classList.toggle("dark", chosen ? chosen === "dark" : dark.matches);
};
dark.addEventListener("change", paint);
byId("theme").addEventListener("click", () => {
  const isDark = document.documentElement.classList.contains("dark");
  sessionStorage.setItem("theme", isDark ? "light" : "dark");
  paint();
});
paint();

function table(id, columns, rows, empty) {
  if (rows.length === 0) return byId(id).replaceChildren(make("caption", { class: "empty" }, empty));
  const head = columns.map(([name, , isNumber]) => make("th", { scope: "col", class: isNumber && "number" }, name));
  const body = rows.map((row) => make("tr", {}, ...columns.map(([, show, isNumber]) => make("td", { class: isNumber && "number" }, ...[show(row)].flat()))));
  byId(id).replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

const chips = (words) => words.map((word) => make("span", { class: "chip" }, word));
const seconds = (value) => value < 1 ? `${short(value * 1000)} ms` : value < 120 ? `${short(value)} s` : value < 7200 ? `${Math.round(value / 60)} min` : `${short(value / 3600)} h`;

const moment = (value) => value === null ? "–" : value < 1e-3 ? `${short(value * 1e6)} µs` : seconds(value);

/** What has been added to a counter each second, and the time that one took, for each key. */
function series(pick) {
  const keys = new Map();
  for (const item of pick(kept.at(-1))) keys.set(item.key, item);
  const counts = kept.map((view) => new Map(pick(view).map((item) => [item.key, item])));
  return [...keys.values()].map(({ key, name, isCode }) => {
    const [rate, time] = [[], []];
    for (let at = 1; at < kept.length; at += 1) {
      const [before, now] = [counts[at - 1].get(key), counts[at].get(key)];
      const passed = kept[at].unix_time - kept[at - 1].unix_time;
      const more = now && before && passed > 0 ? now.count - before.count : null;
      rate.push(more === null || more < 0 ? null : more / passed);
      time.push(more > 0 ? ((now.seconds - before.seconds) / more) * 1000 : null);
    }
    return { key, name, isCode, rate, time };
  });
}

const ofServers = (view) => view.pools.map((pool) => ({
  key: `${pool.hostgroup} ${pool.server}`, name: `${pool.server} (${pool.hostgroup})`, count: pool.answered, seconds: pool.answered_seconds,
}));
const ofDigests = (view) => (view.digests ?? []).slice(0, 8).map((digest) => ({
  key: `${digest.digest} ${digest.user} ${digest.hostgroup}`, name: digest.text || "all others", isCode: true, count: digest.calls, seconds: digest.seconds,
}));

function charts(rateId, timeId, all) {
  lines(byId(rateId), all.map(({ name, isCode, rate }) => ({ name, isCode, values: rate })), LENGTH);
  lines(byId(timeId), all.map(({ name, isCode, time }) => ({ name, isCode, values: time })), LENGTH);
}

function figures(view, servers) {
  const before = kept.at(-2);
  const passed = before ? view.unix_time - before.unix_time : 0;
  const rate = (key) => passed > 0 ? (view.totals[key] - before.totals[key]) / passed : null;
  const busy = servers.filter(({ time }) => time.at(-1) !== null && time.at(-1) !== undefined);
  const weight = busy.reduce((sum, { rate: rates }) => sum + rates.at(-1), 0);
  const mean = weight > 0 ? busy.reduce((sum, { rate: rates, time }) => sum + rates.at(-1) * time.at(-1), 0) / weight : null;
  const faults = view.totals.client_errors + view.totals.backend_errors + view.totals.filter_errors;
  const shown = [
    ["commands a second", short(rate("commands"))],
    ["ms for a query", short(mean)],
    ["clients", short(view.status.sessions)],
    ["clients without a chain", short(view.totals.forwarded_sessions)],
    ["errors of the proxy's own", short(faults)],
    ["up", seconds(view.status.uptime_seconds)],
  ];
  byId("figures").replaceChildren(...shown.map(([name, value]) => make("div", { class: "figure" }, make("b", {}, value), make("span", {}, name))));
}

/** What one command takes at a place of a chain: over what is kept, or else since the start; null if none was measured. */
function taken(view, pick) {
  const [now, first] = [pick(view), pick(kept[0])];
  const since = first && now.commands > first.commands ? first : { commands: 0, seconds: 0 };
  return now.commands > 0 ? Math.max(0, now.seconds - since.seconds) / (now.commands - since.commands) : null;
}

function chains(view) {
  const shown = view.chains.map(({ name, filters }, number) => {
    const of = (pick) => taken(view, (one) => one.chains[number]?.name === name ? pick(one.chains[number]) : null);
    const places = filters.map(({ name: filter, part, counters }, at) => ({
      name: filter, kind: part, counters, time: of((chain) => chain.filters[at]?.name === filter ? chain.filters[at].time : null),
      hint: part === "backend" ? "once for each connection" : "once for each session",
    }));
    const below = places.findIndex(({ kind }) => kind === "backend");
    const dispatch = { name: "dispatch", kind: "dispatch", counters: [], time: of((chain) => chain.dispatch), hint: "finds a connection, or opens one" };
    places.splice(below < 0 ? places.length : below, 0, dispatch);
    const all = places.reduce((sum, { time }) => sum + (time ?? 0), 0);
    const picture = make("div", { class: "card chain" }, make("h3", {}, name), make("div", { class: "filter end" }, "client"));
    for (const place of places) {
      const counts = place.counters.flatMap(({ counts: values, help, label }) => values.filter(({ count }) => count > 0).map(({ value, count }) => [`${label} ${value}`, count, help]));
      const list = counts.slice(0, 6).flatMap(([value, count, help]) => [make("dt", { title: help }, value), make("dd", {}, short(count))]);
      const share = make("i", { class: "share" });
      share.style.width = `${all > 0 ? (100 * (place.time ?? 0)) / all : 0}%`;
      picture.append(make("div", { class: `filter ${place.kind}`, title: place.hint }, place.name,
        make("div", { class: "takes" }, moment(place.time)), share, list.length ? make("dl", {}, ...list) : null));
    }
    picture.append(make("div", { class: "filter end" }, "server", make("div", { class: "takes" }, moment(of((chain) => chain.servers)))));
    return picture;
  });
  byId("chain-list").replaceChildren(...shown);
}

function sessions(view) {
  const { total, sessions: shown } = view.sessions;
  byId("sessions-count").textContent = total > shown.length ? `the ${shown.length} busiest of ${total}` : `${total}`;
  byId("pins").replaceChildren(...view.pins.map(({ cause, sessions: count }) => make("span", {}, `${count} held by ${cause}`)));
  table("session-table", [
    ["id", ({ id }) => make("code", {}, id)],
    ["user", ({ user, client }) => [user, make("small", {}, ` @${client}`)]],
    ["schema", ({ schema }) => schema ?? "–"],
    ["chain", ({ chain, fast_forward }) => fast_forward ? chips(["fast-forward"]) : chain],
    ["holds", ({ connections }) => chips(connections.map(({ server, hostgroup }) => `${server} (${hostgroup})`))],
    ["pins", ({ pins, in_transaction }) => chips([...(in_transaction ? ["transaction"] : []), ...pins])],
    ["sticky", ({ sticky, sticky_servers }) => sticky === "off" ? "–" : [`${sticky} `, ...chips(sticky_servers.map(({ server, hostgroup }) => `${server ?? "gone"} (${hostgroup})`))]],
    ["has set", ({ log_entries, log_bytes }) => log_entries ? `${log_entries}, ${short(log_bytes)} B` : "–", true],
    ["commands", ({ commands }) => short(commands), true],
    ["doing", ({ running, since_seconds }) => make("span", { class: running ? "pill good" : "" }, `${running ? "runs" : "idle"} ${seconds(since_seconds)}`)],
  ], shown, "Nobody is logged in.");
}

function statements(view) {
  byId("digest-charts").hidden = !view.digests?.length;
  if (view.digests?.length) charts("digest-rate", "digest-time", series(ofDigests));
  const off = "Not counted. [admin] digests = 1000 counts the thousand first; it costs a look at each statement.";
  table("digest-table", [
    ["statement", ({ text }) => make("code", {}, text || "all others")],
    ["user", ({ user }) => user],
    ["hostgroup", ({ hostgroup }) => hostgroup ?? "–", true],
    ["calls", ({ calls }) => short(calls), true],
    ["errors", ({ errors }) => short(errors), true],
    ["all", ({ seconds: sum }) => seconds(sum), true],
    ["p50", ({ p50_seconds }) => seconds(p50_seconds), true],
    ["p99", ({ p99_seconds }) => seconds(p99_seconds), true],
  ], (view.digests ?? []).slice(0, 20), view.digests ? "No statement yet." : off);
}

function rules(view) {
  const asks = ["username", "schemaname", "client_addr", "proxy_port", "flagIN", "digest", "match_digest", "match_pattern"];
  const words = (rule, keys) => Object.entries(rule).filter(([key, value]) => keys(key) && value !== 0 && value !== false)
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`);
  const rest = ["rule_id", "active", "re_modifiers", "comment"];
  table("rule-table", [
    ["rule", ({ rule_id }) => make("code", {}, rule_id)],
    ["asks for", ({ rule }) => chips(words(rule, (key) => asks.includes(key)))],
    ["does", ({ rule }) => chips(words(rule, (key) => !asks.includes(key) && !rest.includes(key)))],
    ["for people", ({ rule }) => rule.comment ?? ""],
    ["chain", ({ chain }) => chain],
    ["hits", ({ hits }) => short(hits), true],
  ], view.rules, "No chain has query rules.");
}

function events(view) {
  const shown = view.events.map(({ unix_time, server, kind, from, to, cause }) => make("li", {},
    make("time", { datetime: new Date(unix_time * 1000).toISOString() }, new Date(unix_time * 1000).toLocaleTimeString()),
    make("strong", {}, server), make("span", {}, `${kind}: ${from} → ${to} `, make("span", { class: "because" }, cause))));
  byId("event-list").replaceChildren(...(shown.length ? shown : [make("li", { class: "because alone" }, "Nothing has happened to any server.")]));
}

function show(view) {
  kept.push(view);
  if (kept.length > LENGTH + 1) kept.shift();
  byId("version").textContent = view.status.version;
  const { state } = view.status;
  say(state, state === "running" ? "good" : "warn");
  const servers = series(ofServers);
  figures(view, servers);
  charts("rate", "time", servers);
  map(byId("map"), view, new Map(servers.map(({ key, rate }) => [key, rate.at(-1)])));
  chains(view);
  sessions(view);
  statements(view);
  rules(view);
  events(view);
  document.body.dataset.overviews = kept.length;
}

function say(words, tone) {
  const pill = byId("state");
  pill.className = `pill ${tone}`;
  if (pill.textContent !== words) pill.textContent = words;
}

/** EventSource sends no token, so the stream is read by hand: one line of data in each event. */
async function watch() {
  const token = sessionStorage.getItem("token");
  const answer = await fetch("overview/stream", { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (answer.status === 401) return login(token ? "That is not it." : "");
  if (!answer.ok) throw new Error(`${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the end");
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) if (block.startsWith("data:")) show(JSON.parse(block.slice(5)));
  }
}

async function login(why) {
  const dialog = byId("login");
  byId("login-error").textContent = why;
  say("wants a token", "warn");
  dialog.showModal();
  await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
  sessionStorage.setItem("token", byId("token").value);
}

for (;;) {
  try {
    await watch();
  } catch {
    say("not reached", "bad");
    await new Promise((later) => setTimeout(later, 2000));
  }
}
