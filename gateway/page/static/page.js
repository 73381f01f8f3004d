// The page of kwire: the metadata log of a Kafka cluster, as it is now and as it became so.
//
// It reads JSON of the server that served it, or of the file that it is part of (kwire report), and
// asks nothing else. Text of the cluster is set as text, never as markup.
"use strict";

// ---------------------------------------------------------------------------- elements and text

const $ = (id) => document.getElementById(id);

/** An element: el("td", {class: "number", on: {click}}, "text", child, ...). */
function el(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name === "on") for (const [type, run] of Object.entries(value)) made.addEventListener(type, run);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const number = (value) => (value === null || value === undefined ? "unknown" : value.toLocaleString("en-US"));

/** A time in UTC, as kwire's commands print it. */
function clock(ms, withDate = true) {
  if (ms === null || ms === undefined || ms < 0) return "unknown";
  const text = new Date(ms).toISOString();
  return withDate ? text.replace("T", " ").slice(0, 19) : text.slice(11, 23);
}

function age(ms) {
  if (ms < 1000) return "now";
  if (ms < 120e3) return `${Math.round(ms / 1000)} s ago`;
  if (ms < 7200e3) return `${Math.round(ms / 60e3)} min ago`;
  return `${Math.round(ms / 3600e3)} h ago`;
}

function span(ms) {
  if (ms < 1000) return `${Math.max(1, Math.round(ms))} ms`;
  if (ms < 120e3) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200e3) return `${(ms / 60e3).toFixed(1)} min`;
  if (ms < 172800e3) return `${(ms / 3600e3).toFixed(1)} h`;
  return `${(ms / 86400e3).toFixed(1)} days`;
}

const counted = (count, one, more = `${one}s`) => `${number(count)} ${count === 1 ? one : more}`;
/** A number with three digits or more: 0.25, 9.5, 12,345. */
const digits = (value) => value.toLocaleString("en-US", { maximumFractionDigits: value < 1 ? 2 : value < 100 ? 1 : 0 });

/** Bytes in the largest unit of which there is one. */
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${digits(value)} ${units[unit]}`;
}

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Runs a function once in the next frame, however often it is asked for. */
function inFrame(run) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; run(); });
  };
}

/** The drawing context of a canvas, in CSS pixels; the canvas is cleared. */
function drawing(canvas, height, width = canvas.clientWidth) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return { context, width, height };
}

// ---------------------------------------------------------------------------- where the data is

/** A server. Every method rejects with an Error whose message is a sentence. */
const server = {
  isLive: true,
  now: () => ask("api/now"),
  changes: (after) => ask("api/changes", { after }),
  change: (index) => ask("api/change", { offset: changes.place(index) }),
  state: (path, { at = "", start = 0, text = "" } = {}) => ask("api/state", { path: JSON.stringify(path), at, start, text }),
  topics: (wanted) => ask("api/topics", wanted),
  brokers: (wanted) => ask("api/brokers", wanted),
  partitions: (wanted) => ask("api/partitions", wanted),
  difference: (before, after) => ask("api/difference", { before, after }),
  apis: () => ask("api/apis"),
  fields: (api, version) => ask("api/fields", { api, version }),
  dissect: (asked) => ask("api/dissect", {}, JSON.stringify(asked)),
  capture: (file) => ask("api/capture", {}, file),
};

async function ask(path, query = {}, body = undefined) {
  const target = `${path}?${new URLSearchParams(query)}`;
  const patience = path === "api/now" || path === "api/changes" ? 4000 : 120000;
  const response = await fetch(target, {
    method: body === undefined ? "GET" : "POST", body, signal: AbortSignal.timeout(patience), cache: "no-store",
  });
  if (response.status === 401) throw new Error("Log in again: load the page anew.");
  if (!response.headers.get("content-type").startsWith("application/json")) throw new Error(await response.text());
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}

/** The elements of this file that hold packed texts. */
const report = {
  isLive: false,
  now: () => unpacked("facts"),
  changes: async () => ({ ...(await unpacked("rows")), more: false }),
  async change(index) {
    const lines = await unpacked(`lines-${Math.floor(index / 1000)}`, (text) => text.split("\n"));
    return JSON.parse(lines[index % 1000]);
  },
  async state(path, { start = 0, text = "" } = {}) {
    let node = await unpacked("tree");
    for (const name of path) node = node[name];
    const sought = text.toLowerCase();
    const names = Object.keys(node).filter((name) => name.toLowerCase().includes(sought));
    const entries = names.slice(start, start + 500).map((name) => {
      const value = node[name];
      return value !== null && typeof value === "object" && !Array.isArray(value)
        ? [name, null, Object.keys(value).length] : [name, value];
    });
    return { path, offset: now.log.end, total: names.length, start, entries };
  },
  /** The partitions in the tree, each with its topic's name. */
  async all() {
    const { topics } = await unpacked("tree");
    return Object.entries((topics || {}).byName || {}).flatMap(([topic, node]) => Object.entries(node)
      .filter(([, one]) => one !== null && typeof one === "object" && !Array.isArray(one))
      .map(([partition, one]) => ({ ...one, topic, partition: Number(partition) })));
  },
  async topics(wanted) {
    const tree = await unpacked("tree"), rows = new Map();
    for (const name of Object.keys((tree.topics || {}).byName || {})) {
      rows.set(name, { name, partitions: 0, factor: new Set(), leaders: new Set(), offline: 0, under: 0,
        configs: (tree.configs || {})[`TOPIC:${name}`] || {} });
    }
    for (const one of await report.all()) {
      const row = rows.get(one.topic);
      row.partitions++;
      row.factor.add(one.replicas.length);
      if (one.leader < 0) row.offline++; else row.leaders.add(one.leader);
      if (one.isr.length < one.replicas.length) row.under++;
    }
    return part([...rows.values()].map((row) => ({ ...row, factor: [...row.factor].sort(), leaders: row.leaders.size })), wanted);
  },
  async brokers(wanted) {
    const { cluster } = await unpacked("tree"), all = await report.all();
    const count = (holds) => all.filter(holds).length;
    return part(Object.entries(cluster.brokers || {}).map(([name, one]) => ({
      name, id: one.id, rack: one.rack, state: one.fenced ? 1 : one.inControlledShutdown ? 3 : 2,
      address: one.listeners.map(({ host, port }) => `${host}:${port}`).join(", "),
      partitions: count(({ replicas }) => replicas.includes(one.id)), leaders: count(({ leader }) => leader === one.id),
      out: count(({ replicas, isr }) => replicas.includes(one.id) && !isr.includes(one.id)),
    })), wanted);
  },
  async partitions({ topic = "", only = "", start = 0 }) {
    const holds = topic ? (one) => one.topic === topic : only === "offline" ? (one) => one.leader < 0
      : only === "under" ? (one) => one.isr.length < one.replicas.length : (one) => one.replicas.includes(Number(only));
    const found = (await report.all()).filter(holds), { configs } = await unpacked("tree");
    return { total: found.length, start, rows: found.slice(start, start + PAGE_ROWS), configs: (configs || {})[`TOPIC:${topic}`] || {} };
  },
};

const PAGE_ROWS = 100;

/** The part of a table that is wanted, as a server gives it. */
function part(rows, { sort = "name", order = "", start = 0, text = "" }) {
  const found = rows.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()));
  const key = (row) => (sort === "configs" ? Object.keys(row.configs).length : Array.isArray(row[sort]) ? row[sort][0] : row[sort]);
  const compare = (a, b) => (typeof key(a) === "number" ? key(a) - key(b) : 0) || String(key(a)).localeCompare(String(key(b)), "en", { numeric: true });
  found.sort((a, b) => (order === "desc" ? -1 : 1) * compare(a, b));
  return { total: found.length, start: Number(start), rows: found.slice(Number(start), Number(start) + PAGE_ROWS) };
}

const kept = new Map();

/** The text of an element, unpacked and parsed once. */
function unpacked(id, parse = JSON.parse) {
  if (!kept.has(id)) {
    const bytes = Uint8Array.from(atob($(`data-${id}`).textContent), (letter) => letter.charCodeAt(0));
    const text = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    kept.set(id, text.then(parse));
  }
  return kept.get(id);
}

const source = $("data-facts") ? report : server;

// ---------------------------------------------------------------------------- changes

/** All changes, in columns: there may be a million. */
class Changes {
  constructor() {
    this.count = 0;
    this.last = "";
    this.first = Infinity; // the first and the latest time, ms
    this.latest = -Infinity;
    this.kinds = new Set();
    this.names = [];
    this.numbers = new Map();
    this.texts = []; // what changed: many changes have the same text
    this.textNumbers = new Map();
    this.replicas = new ReplicaHistory();
    this.grow(4096);
  }

  grow(size) {
    for (const [name, type] of [["offset", Float64Array], ["part", Uint32Array], ["time", Float64Array],
      ["kind", Uint8Array], ["op", Uint8Array], ["name", Uint32Array], ["text", Uint32Array]]) {
      const before = this[name];
      this[name] = new type(size);
      if (before) this[name].set(before);
    }
  }

  add(row) {
    const index = this.count;
    if (index === this.offset.length) this.grow(2 * index);
    const [offset, part, time, kind, op, name] = row;
    this.offset[index] = offset;
    this.part[index] = part;
    this.time[index] = time;
    this.kind[index] = kind;
    this.op[index] = "cudr".indexOf(op);
    this.name[index] = numbered(name, this.names, this.numbers);
    const text = kind === partitionKind ? partitionText(row) : row[kind === brokerKind ? 8 : 6];
    this.text[index] = numbered(text || "", this.texts, this.textNumbers);
    if (kind === partitionKind) this.replicas.partition(time, name, row);
    else if (kind === brokerKind) this.replicas.broker(time, name, row);
    if (time >= 0 && time < this.first) this.first = time;
    if (time > this.latest) this.latest = time;
    this.kinds.add(kind);
    this.count = index + 1;
  }

  place(index) { return `${this.offset[index]}.${this.part[index]}`; }

  /** The index of the change at a place, or of the first one at its offset; -1 if there is none. */
  at(place) {
    const [offset, part] = String(place).split(".").map(Number);
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      const before = this.offset[middle] - offset || this.part[middle] - (part || 0);
      if (before < 0) low = middle + 1; else high = middle;
    }
    return low < this.count && this.offset[low] === offset ? low : -1;
  }

  /** The first time and the last, ms: that of the log's last record, and a little more, so that what
   * the last change began is seen.
   */
  span() {
    if (this.first > this.latest) return [0, 1];
    const end = Math.max(this.latest, now.latest || 0, this.first + 1);
    return [this.first, end + Math.max(1, (end - this.first) / 50)];
  }
}

/** The number of a text among those that are kept once. */
function numbered(text, texts, numbers) {
  let known = numbers.get(text);
  if (known === undefined) numbers.set(text, known = texts.push(text) - 1);
  return known;
}

const node = (id) => (id < 0 ? "none" : String(id));

/** What changed in a partition. */
function partitionText([, , , , , , wasLeader, leader, wasIsr, isr, replicas, other]) {
  if (leader === null) return "";
  if (wasLeader === null) return `leader ${node(leader)}, replicas ${replicas.join(" ")}`;
  const told = [];
  if (leader !== wasLeader) told.push(`leader ${node(wasLeader)} \u2192 ${node(leader)}`);
  if (String(isr) !== String(wasIsr)) told.push(`ISR ${wasIsr.join(" ") || "empty"} \u2192 ${isr.join(" ") || "empty"}`);
  return told.length ? `${told.join(", ")}; replicas ${replicas.join(" ")}` : other;
}

const FINE = 0, ONE_OUT = 1, MORE_OUT = 2, OFFLINE = 3; // troubles of a partition

/** The lives of brokers, moves of leaders, and partitions that lacked replicas. */
class ReplicaHistory {
  constructor() {
    this.brokers = new Map(); // name -> [time, state] of each change
    this.partitions = new Map(); // name -> changes, replicas that are out now, brokers that left or returned
    this.moves = []; // times at which a leader moved to another broker
    this.losses = []; // and at which a partition lost its leader
    this.flapping = new Map(); // broker -> how often it left an ISR and returned
  }

  broker(time, name, [, , , , , , , state]) {
    if (!this.brokers.has(name)) this.brokers.set(name, []);
    this.brokers.get(name).push([time, state]);
  }

  partition(time, name, [, , , , , , leaderBefore, leaderAfter, isrBefore, isrAfter, replicas]) {
    if (leaderBefore >= 0 && leaderAfter !== null && leaderBefore !== null && leaderBefore !== leaderAfter) {
      (leaderAfter < 0 ? this.losses : this.moves).push(time);
    }
    const out = isrAfter === null ? [] : replicas.filter((id) => !isrAfter.includes(id));
    const trouble = leaderAfter === null ? FINE : leaderAfter < 0 ? OFFLINE : Math.min(out.length, MORE_OUT);
    let partition = this.partitions.get(name);
    if (partition === undefined) {
      if (trouble === FINE) return;
      this.partitions.set(name, partition = { changes: [], brokers: new Set() });
    }
    partition.changes.push([time, trouble]);
    partition.trouble = trouble;
    partition.out = out;
    partition.replicas = isrAfter === null ? 0 : replicas.length;
    if (isrBefore === null || isrAfter === null) return;
    for (const id of replicas) { // a replica that was removed has not left
      if (isrBefore.includes(id) === isrAfter.includes(id)) continue;
      partition.brokers.add(id);
      if (isrAfter.includes(id)) this.flaps(id).returned++; else this.flaps(id).left++;
    }
  }

  flaps(id) {
    if (!this.flapping.has(id)) this.flapping.set(id, { left: 0, returned: 0 });
    return this.flapping.get(id);
  }

  /** In how many partitions each broker is out of the ISR now. */
  out() {
    const counts = new Map();
    for (const { out } of this.partitions.values()) for (const id of out) counts.set(id, (counts.get(id) || 0) + 1);
    return counts;
  }
}

const OPS = ["c", "u", "d", "r"], SIGNS = ["+", "~", "\u2212", "="];
const LANES = [
  ["topics", ["topic"]], ["partitions", ["partition"]], ["configs", ["config"]], ["ACLs", ["acl"]],
  ["brokers", ["broker", "controller"]], ["quotas", ["quota"]], ["features", ["feature", "producer_ids"]],
  ["users", ["user", "token"]],
];

let now = null; // the newest answer of the source
let partitionKind = -1, brokerKind = -1; // numbers of kinds in rows
let changes = new Changes();
let changesNumber = null; // of the server's fold that the changes are of
const watchers = []; // run when there are other changes

/** Fetches the changes that the server has and the page has not. */
async function fetchChanges() {
  const told = now.changes;
  if (told === null) return false;
  if (told.number !== changesNumber) {
    changes = new Changes();
    changesNumber = told.number;
    [partitionKind, brokerKind] = ["partition", "broker"].map((kind) => now.kinds.indexOf(kind));
    timeline.selected = -1;
    watchers.forEach((run) => run());
  }
  let fetched = 0;
  while (changes.last !== told.last) {
    const found = await source.changes(changes.last);
    if (found.number !== changesNumber) return true;
    found.rows.forEach((row) => changes.add(row));
    if (found.last === changes.last) break;
    changes.last = found.last;
    fetched += found.rows.length;
    if (found.more) watchers.forEach((run) => run());
    else break;
  }
  if (fetched) watchers.forEach((run) => run());
  return told.offset < now.log.end - 1000; // the server still reads
}

// ---------------------------------------------------------------------------- health and polling

const INTERVAL_MS = 500;
let timer = null, answeredAt = 0, isPolling = false;

async function poll() {
  clearTimeout(timer);
  if (isPolling) return;
  isPolling = true;
  let isBehind = false;
  try {
    now = await source.now();
    answeredAt = Date.now();
    isBehind = await fetchChanges();
    showHealth(null);
    showAbout();
    showQuorum();
    showTimePass();
  } catch (error) {
    showHealth(error);
  }
  isPolling = false;
  if (source.isLive && document.visibilityState === "visible") timer = setTimeout(poll, isBehind ? 50 : INTERVAL_MS);
}

function showHealth(error) {
  let kind = "live", text = "live";
  if (!source.isLive) text = `report of ${clock(now.time)} UTC`;
  else if (error) {
    kind = "stale";
    const why = ["TypeError", "TimeoutError", "AbortError"].includes(error.name) ? "The server does not answer." : error.message;
    text = answeredAt ? `stale since ${clock(answeredAt)} UTC: ${why}` : why;
  } else if (!now.readiness.ready) {
    kind = now.readiness.state === "loading" ? "loading" : "stale";
    text = `${now.readiness.state}: ${now.readiness.reason || ""}`;
  } else if (now.changes && now.changes.offset < now.log.end - 1000) {
    kind = "loading";
    text = `reading the log: offset ${number(now.changes.offset)} of ${number(now.log.end)}`;
  }
  const health = $("health");
  health.className = kind;
  if (health.textContent !== text) health.textContent = text;
}

function showAbout() {
  const where = source.isLive ? `node ${now.node}, source ${now.source}` : now.source;
  const title = now.name || "kwire";
  if ($("title").textContent !== title) $("title").textContent = document.title = title;
  const text = `cluster ${now.cluster}, ${where}, offset ${number(now.log.end)}, kwire ${now.version}`;
  if ($("about").textContent !== text) $("about").textContent = text;
}

// ---------------------------------------------------------------------------- quorum

function showQuorum() {
  if (current.view !== "quorum") return;
  const quorum = now.quorum, counts = now.changes ? now.changes.counts : {};
  const count = (name) => counts[name] || 0;
  const figures = [
    ["leaderless", "offline partitions", count("leaderless"), { view: "topics", only: "offline" }],
    ["under_replicated", "under-replicated", count("under_replicated"), { view: "topics", only: "under" }],
    ["fenced", "fenced brokers", count("fenced"), { view: "brokers", sort: "state" }],
    ["leader", "controller", quorum && quorum.leader >= 0 ? quorum.leader : now.leaders[0] ? now.leaders[0].leader : null, { view: "quorum", to: "leaders" }],
    ["epoch", "epoch", quorum ? quorum.epoch : now.log.epoch, { view: "quorum", to: "leaders" }],
    ["end", "high watermark", now.log.end, { view: "timeline" }],
    ["version", "metadata version", now.metadataVersion, { view: "state", path: "features" }],
    ["topic", "topics", count("topic"), { view: "topics" }],
    ["partition", "partitions", count("partition"), { view: "topics", sort: "partitions", order: "desc" }],
    ["broker", "brokers", count("broker"), { view: "brokers" }],
    ["config", "resources with configs", count("config"), { view: "state", path: "configs" }],
    ["acl", "ACLs", count("acl"), { view: "state", path: "acls" }],
    ["user", "SCRAM users", count("user"), { view: "state", path: "scram" }],
    ["quota", "quotas", count("quota"), { view: "state", path: "clientQuotas" }],
    ["token", "delegation tokens", count("token"), { view: "state", path: "delegationToken" }],
  ];
  const bad = new Set(["leaderless", "under_replicated", "fenced"]);
  $("figures").replaceChildren(...figures.map(([key, label, value, link]) => el("a",
    { "data-figure": key, class: bad.has(key) && value > 0 ? "problem" : null, href: `#${new URLSearchParams(link)}` },
    el("b", {}, typeof value === "number" ? (key === "leader" ? String(value) : number(value)) : value || "none"), el("span", {}, label))));
  showCopy(now.copy);
  const problem = now.available ? now.quorumProblem : "The log begins after offset 0, and is served without a snapshot: there is no state.";
  $("quorum-problem").textContent = problem || "";
  $("quorum-problem").hidden = !problem;
  showReplicas(quorum);
  $("leader-table").tBodies[0].replaceChildren(...now.leaders.map((one) => el("tr", {},
    el("td", { class: "number" }, String(one.epoch)), el("td", {}, one.leader === null ? "not recorded" : `node ${one.leader}`),
    el("td", { class: "number" }, number(one.offset)), el("td", {}, clock(one.time)))));
}

function showCopy(copy) {
  $("copy").hidden = !copy;
  if (!copy) return;
  const caughtUp = copy.caughtUp === null ? "and never was" : `and last had every committed record ${age(now.time - copy.caughtUp)}`;
  $("copy").textContent = copy.completeSince === null ? `The copy of the log in this gateway is not complete, ${caughtUp}.`
    : `The copy of the log in this gateway is complete since ${clock(copy.completeSince)} UTC; records behind: ${number(copy.lag)}.`;
  $("copy").className = copy.completeSince === null ? "problem" : "dim";
}

function showReplicas(quorum) {
  $("quorum-none").hidden = quorum !== null || now.quorumProblem !== null;
  const replicas = quorum ? [...quorum.voters.map((one) => [one, one.id === quorum.leader ? "leader" : "voter"]),
    ...quorum.observers.map((one) => [one, "observer"])] : [];
  $("replica-table").hidden = replicas.length === 0;
  const longest = Math.max(1, ...replicas.map(([one]) => one.lag || 0));
  $("replica-table").tBodies[0].replaceChildren(...replicas.map(([one, role]) => {
    const bar = el("i", { class: one.lag ? "behind" : null });
    bar.style.width = `${one.lag === null ? 0 : Math.max(one.lag ? 4 : 100, 100 * one.lag / longest)}%`;
    return el("tr", { "data-node": one.id }, el("td", {}, String(one.id)), el("td", {}, role),
      el("td", { class: "number" }, one.end < 0 ? "unknown" : number(one.end)), el("td", { class: "number" }, number(one.lag)),
      el("td", {}, el("div", { class: "bar" }, bar)),
      el("td", {}, role === "leader" ? "" : one.fetched === null ? "unknown" : age(now.time - one.fetched)));
  }));
}

// ---------------------------------------------------------------------------- tables of topics and brokers

const BROKER_STATES = ["not registered", "fenced", "active", "shutting down"];
const STATE_CLASSES = ["problem", "problem", "", "warned"];
const link = (text, to, kind = null) => el("a", { href: `#${new URLSearchParams(to)}`, class: kind }, text);
const ids = (some) => some.join(" ") || "none";
const changesOf = (name) => link("changes", { view: "timeline", name });
const nodeLink = (id) => (id < 0 ? el("span", { class: "problem" }, "none") : link(String(id), { view: "topics", only: id }));

/** The columns of the tables: key, label, cell of a row, class. Without a key a column is not sorted. */
const COLUMNS = {
  topics: [
    ["name", "Topic", (row) => link(row.name, { view: "topics", topic: row.name })],
    ["partitions", "Partitions", (row) => number(row.partitions), "number"],
    ["factor", "Replicas", (row) => row.factor.join(", ") || "0", "number optional"],
    ["leaders", "Leaders", (row) => number(row.leaders), "number optional"],
    ["offline", "Offline", (row) => (row.offline ? el("b", { class: "problem" }, number(row.offline)) : "0"), "number"],
    ["under", "Under-replicated", (row) => (row.under ? el("b", { class: "warned" }, number(row.under)) : "0"), "number optional"],
    ["size", "Size", (row) => bytes(row.size), "number usage"],
    ["messages", "Records/s", (row) => digits(row.messages), "number usage"],
    ["bytes_in", "In/s", (row) => bytes(row.bytes_in), "number usage optional"],
    ["bytes_out", "Out/s", (row) => bytes(row.bytes_out), "number usage optional"],
    ["configs", "Configs", (row) => configText(row.configs), "configs"],
    [null, "", (row) => changesOf(row.name), "optional"],
  ],
  brokers: [
    ["name", "Broker", (row) => link(String(row.id), { view: "topics", only: row.id })],
    ["state", "State", (row) => el("span", { class: STATE_CLASSES[row.state] }, BROKER_STATES[row.state])],
    ["rack", "Rack", (row) => row.rack || el("span", { class: "dim" }, "none")],
    ["partitions", "Replicas", (row) => number(row.partitions), "number"],
    ["leaders", "Leads", (row) => number(row.leaders), "number"],
    ["out", "Out", (row) => (row.out ? el("b", { class: "warned" }, number(row.out)) : "0"), "number"],
    [null, "Address", (row) => row.address, "optional"],
    [null, "", (row) => changesOf(`broker ${row.id}`), "optional"],
  ],
  partitions: [
    [null, "Partition", (row) => link(`${row.topic}-${row.partition}`, { view: "timeline", name: `${row.topic}-${row.partition}` })],
    [null, "Leader", (row) => nodeLink(row.leader), "number"],
    [null, "Replicas", (row) => ids(row.replicas)],
    [null, "ISR", (row) => ids(row.isr)],
    [null, "ELR", (row) => ids(row.elr), "optional"],
    [null, "", (row) => trouble(row)],
  ],
};

function configText(configs) {
  const names = Object.entries(configs).flatMap(([name, value], i) => [i ? ", " : "", el("code", {}, `${name}=${value}`)]);
  return el("span", {}, ...names);
}

function trouble({ leader, isr, replicas }) {
  if (leader < 0) return el("b", { class: "problem" }, `offline, ${isr.length} of ${replicas.length} in the ISR`);
  if (isr.length < replicas.length) return el("span", { class: "warned" }, `${isr.length} of ${replicas.length} in the ISR`);
  return null;
}

const table = { wanted: {}, asked: "", last: null, at: 0, hasUsage: false }; // what the link wants, and what is shown

/** Shows the table of the present section; ``again``: when there were changes since it was shown. */
async function showTable(again = false) {
  const view = current.view, wanted = table.wanted;
  if (!["topics", "brokers"].includes(view) || !now || !now.changes) return;
  const asked = JSON.stringify([view, wanted]), last = now.changes.last;
  const isSame = last === table.last && !table.hasUsage; // usage changes without changes of the log
  if (again && asked === table.asked && (isSame || Date.now() - table.at < 2000)) return;
  Object.assign(table, { asked, last, at: Date.now() });
  const isList = view === "topics" && Boolean(wanted.topic || wanted.only);
  try {
    const found = await source[isList ? "partitions" : view](wanted);
    if (asked === table.asked) fillTable(view, isList ? "partitions" : view, wanted, found);
  } catch (error) {
    $(`${view}-said`).textContent = error.message;
  }
}

function fillTable(view, kind, wanted, found) {
  table.hasUsage = Boolean(found.hasUsage);
  const sort = wanted.sort || "name";
  const columns = COLUMNS[kind].filter(([, , , how = ""]) => found.hasUsage || !how.includes("usage"));
  $(`${view}-table`).tHead.replaceChildren(el("tr", {}, ...columns.map(([key, label, , how = ""]) => {
    const isSorted = key === sort && kind !== "partitions";
    const order = isSorted && wanted.order !== "desc" ? "desc" : isSorted || ["name", "rack", "state"].includes(key) ? "" : "desc";
    const sorting = () => go({ ...wanted, view, sort: key, order, start: 0 });
    return el("th", { class: how, "aria-sort": isSorted ? (wanted.order === "desc" ? "descending" : "ascending") : null },
      key === null ? label : el("button", { type: "button", on: { click: sorting } }, label));
  })));
  $(`${view}-table`).tBodies[0].replaceChildren(...found.rows.map((row) => el("tr", {},
    ...columns.map(([, , cell, how = ""]) => el("td", { class: how }, cell(row))))));
  const end = found.start + found.rows.length, to = (start) => ({ ...wanted, view, start });
  $(`${view}-said`).textContent = found.total > found.rows.length
    ? `${number(found.start + 1)} to ${number(end)} of ${number(found.total)} ${kind}` : counted(found.total, kind.slice(0, -1));
  $(`${view}-pages`).replaceChildren(
    ...(found.start > 0 ? [link("\u2190 before", to(Math.max(0, found.start - PAGE_ROWS)))] : []),
    ...(end < found.total ? [link("next \u2192", to(end))] : []));
  if (view === "topics") aboutTopics(wanted, found);
}

/** The heading of the section of topics: what the list is of. */
function aboutTopics({ topic, only }, found) {
  const lists = { offline: "Offline partitions", under: "Under-replicated partitions" };
  $("topics-title").textContent = topic ? `Topic ${topic}` : only ? lists[only] || `Partitions on broker ${only}` : "Topics";
  $("topics-text").parentElement.hidden = Boolean(topic || only);
  $("topics-usage").hidden = !found.hasUsage;
  for (const one of document.querySelectorAll(".chips a")) {
    const { only: its } = Object.fromEntries(new URLSearchParams(one.hash.slice(1)));
    if (!topic && its === only) one.setAttribute("aria-current", "true"); else one.removeAttribute("aria-current");
  }
  const changes = topic ? ["Changes: ", link("of the topic and its partitions", { view: "timeline", name: topic }), ", ",
    link("of its configs", { view: "timeline", name: `TOPIC:${topic}` })]
    : only && !lists[only] ? [link("Changes of the broker", { view: "timeline", name: `broker ${only}` })] : [];
  const configs = topic ? Object.entries(found.configs).map(([name, value]) => el("li", {}, el("code", {}, `${name}=${value}`))) : [];
  $("topics-about").replaceChildren(el("p", {}, ...changes), el("ul", {}, ...configs));
}

/** Goes to a place of the page by its link. */
function go(to) {
  const given = Object.entries(to).filter(([, value]) => value !== "" && value !== undefined && value !== 0);
  location.hash = `#${new URLSearchParams(given)}`;
}

function startTables() {
  for (const view of ["topics", "brokers"]) {
    let wait = null;
    $(`${view}-form`).addEventListener("submit", (event) => event.preventDefault());
    $(`${view}-text`).addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => {
        table.wanted = { ...table.wanted, text: $(`${view}-text`).value, start: 0 };
        showTable();
        writeHash();
      }, 200);
    });
  }
  watchers.push(() => showTable(true));
  setInterval(() => { if (document.visibilityState === "visible") showTable(true); }, 1000);
}

// ---------------------------------------------------------------------------- timeline

const LANE_HEIGHT = 22, AXIS_HEIGHT = 16;
const ROW_HEIGHT = matchMedia("(max-width: 600px)").matches ? 44 : 24; // as page.css has it
const ROWS_MAX = 1e6; // browsers lay out no element that is higher than some 30 million pixels
const MINUTE_MS = 60e3, HOUR_MS = 3600e3, DAY_MS = 86400e3;
const timeline = { from: null, to: null, name: "", found: new Uint32Array(0), seen: 0, selected: -1, lanes: [] };

/** The span that is shown: chosen, or all. */
function timelineSpan() {
  return timeline.from === null ? changes.span() : [timeline.from, timeline.to];
}

/** Finds the changes of the span and the name; draws them. */
function filterTimeline() {
  const sought = timeline.name.toLowerCase();
  const matches = changes.names.map((name) => !sought || name.toLowerCase().includes(sought));
  const [from, to] = timelineSpan(), all = timeline.from === null;
  const found = new Uint32Array(changes.count);
  let count = 0;
  for (let i = changes.count - 1; i >= 0; i--) { // the newest first
    if (matches[changes.name[i]] && (all || (changes.time[i] >= from && changes.time[i] <= to))) found[count++] = i;
  }
  // Who reads further down stays there; who is at the top sees what is new.
  const more = timeline.found.length && changes.count > timeline.seen ? count - timeline.found.length : 0;
  timeline.found = found.subarray(0, count);
  timeline.seen = changes.count;
  timeline.lanes = LANES.map(([label, kinds]) => [label, kinds.map((kind) => now.kinds.indexOf(kind))])
    .filter(([, kinds]) => kinds.some((kind) => changes.kinds.has(kind)));
  drawLanes();
  const start = parseInt(now.changes ? now.changes.start : "0", 10);
  $("found").textContent = `${number(count)} of ${number(changes.count)} changes`
    + (count > ROWS_MAX ? `; the newest ${number(ROWS_MAX)} are in the list` : "")
    + (start > 0 ? `; those before offset ${number(start)} are no longer kept` : "");
  $("span").textContent = changes.count ? `${clock(from)} to ${clock(to)} UTC (${span(to - from)})` : "";
  $("list-space").style.height = `${Math.min(count, ROWS_MAX) * ROW_HEIGHT}px`;
  if (more > 0 && $("list").scrollTop > 0) $("list").scrollTop += more * ROW_HEIGHT;
  drawList();
}

function drawLanes() {
  const lanes = timeline.lanes;
  const { context, width, height } = drawing($("canvas"), Math.max(1, lanes.length) * LANE_HEIGHT + AXIS_HEIGHT);
  const columns = Math.max(1, Math.floor(width)), [from, to] = timelineSpan();
  const lane = new Int8Array(now.kinds.length).fill(-1);
  lanes.forEach(([, kinds], y) => kinds.forEach((kind) => { if (kind >= 0) lane[kind] = y; }));
  // The operations of a column and lane as bits, and their number.
  const ops = new Uint8Array(columns * lanes.length), counts = new Uint32Array(columns * lanes.length);
  const scale = (columns - 1) / (to - from);
  for (const i of timeline.found) {
    const y = lane[changes.kind[i]];
    if (y < 0) continue;
    const cell = y * columns + Math.min(columns - 1, Math.max(0, Math.round((changes.time[i] - from) * scale)));
    ops[cell] |= 1 << changes.op[i];
    counts[cell]++;
  }
  const totals = lanes.map((_, y) => counts.subarray(y * columns, (y + 1) * columns).reduce((sum, one) => sum + one, 0));
  $("lane-names").replaceChildren(...lanes.map(([label], y) => el("div", { title: `${label}: ${number(totals[y])} changes` },
    label, el("b", { class: "dim" }, ` ${number(totals[y])}`))));
  if (changes.count) drawAxis(context, from, to, width, height - AXIS_HEIGHT, true);
  const [created, updated, deleted, read] = ["--good", "--accent", "--bad", "--soft"].map(colour);
  for (let cell = 0; cell < ops.length; cell++) {
    if (!ops[cell]) continue;
    context.fillStyle = ops[cell] & 4 ? deleted : ops[cell] & 1 ? created : ops[cell] & 2 ? updated : read;
    const size = Math.min(LANE_HEIGHT - 4, 6 + 3 * Math.log2(counts[cell]));
    context.fillRect(cell % columns, (Math.floor(cell / columns) + 1) * LANE_HEIGHT - 2 - size, 2, size);
  }
  if (timeline.selected >= 0) {
    context.fillStyle = colour("--ink");
    context.fillRect((changes.time[timeline.selected] - from) * scale, 0, 1, height);
  }
}

/** Draws times below what a canvas shows, as far apart as their texts need; ``grid``: with lines above them. */
function drawAxis(context, from, to, width, top, grid = false) {
  const sizes = [1e3, 5e3, 15e3, 30e3, MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 12 * HOUR_MS, DAY_MS, 7 * DAY_MS,
    30 * DAY_MS, 90 * DAY_MS, 365 * DAY_MS, 3650 * DAY_MS];
  const size = sizes.find((one) => (to - from) / one * 76 <= width) || 36500 * DAY_MS;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "bottom";
  for (let time = Math.ceil(from / size) * size; time <= to; time += size) {
    const x = Math.round((time - from) / (to - from) * (width - 1)), text = clock(time);
    context.fillStyle = colour("--line");
    context.fillRect(x, grid ? 0 : top, 1, grid ? top + 4 : 4);
    context.fillStyle = colour("--soft");
    const label = size >= DAY_MS ? text.slice(0, 10) : size >= MINUTE_MS ? text.slice(11, 16) : text.slice(11);
    if (x + context.measureText(label).width + 3 < width) context.fillText(label, x + 3, top + AXIS_HEIGHT);
  }
}

/** Draws the rows of the list that can be seen, and no others. */
function drawList() {
  const list = $("list"), rows = [], [from, to] = timelineSpan(), isLong = to - from > DAY_MS;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW_HEIGHT) - 4);
  const last = Math.min(timeline.found.length, ROWS_MAX, first + Math.ceil(list.clientHeight / ROW_HEIGHT) + 8);
  for (let position = first; position < last; position++) {
    const i = timeline.found[position], op = changes.op[i];
    const time = isLong ? clock(changes.time[i]) : clock(changes.time[i], false);
    const row = el("div", { class: "row", role: "option", id: `change-${i}`, "aria-selected": String(i === timeline.selected),
      on: { click: () => select(position) } },
      el("span", { class: "time" }, time), el("span", { class: `op-${OPS[op]}` }, SIGNS[op]),
      el("span", { class: "what" }, now.kinds[changes.kind[i]]), el("span", { class: "name" }, changes.names[changes.name[i]]),
      el("span", { class: "change" }, changes.texts[changes.text[i]] || (OPS[op] === "d" ? "deleted" : OPS[op] === "c" ? "created" : "")),
      el("span", { class: "offset" }, String(changes.offset[i])));
    row.style.top = `${position * ROW_HEIGHT}px`;
    rows.push(row);
  }
  $("list-space").replaceChildren(...rows);
  if (timeline.selected >= 0) list.setAttribute("aria-activedescendant", `change-${timeline.selected}`);
}

/** Selects the change at a position of the list, and shows it in full. */
async function select(position, { link = true } = {}) {
  const i = timeline.found[position];
  if (i === undefined) return;
  timeline.selected = i;
  const list = $("list"), top = position * ROW_HEIGHT;
  if (top < list.scrollTop || top + ROW_HEIGHT > list.scrollTop + list.clientHeight) {
    list.scrollTop = Math.max(0, top - list.clientHeight / 2);
  }
  drawList();
  drawLanes();
  if (link) writeHash();
  try {
    const found = await source.change(i);
    if (timeline.selected === i) showDetail(found, changes.names[changes.name[i]]);
  } catch (error) {
    if (timeline.selected === i) $("detail").replaceChildren(el("p", { class: "problem" }, error.message));
  }
}

function showDetail(change, name) {
  const origin = change.source, before = change.before || {}, after = change.after || {};
  const what = { c: "created", u: "changed", d: "deleted", r: "in the snapshot" }[change.op];
  const record = origin.record_type === null ? `the snapshot that ends behind offset ${origin.offset}`
    : `${origin.record_type} v${origin.record_version} at offset ${origin.offset}, epoch ${origin.epoch}`
    + (origin.transaction_end === null ? "" : `, in a transaction that ends at ${origin.transaction_end}`);
  const rows = [...new Set([...Object.keys(before), ...Object.keys(after)])].map((field) => {
    const [was, is] = [before, after].map((side) => (Object.hasOwn(side, field) ? shown(side[field]) : ""));
    return el("tr", { class: change.op === "u" && was !== is ? "changed" : null },
      el("th", {}, field), el("td", {}, was), el("td", {}, is));
  });
  const who = change.who ? `, asked for by ${change.who.principal} from ${change.who.host} (${change.who.api})` : "";
  $("detail").replaceChildren(
    el("h2", {}, `${change.kind} ${name} ${what}`),
    el("p", {}, `${clock(change.ts_ms)} UTC, by ${record}${who}`),
    el("div", { class: "wide" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, "Field"), el("th", {}, "Before"), el("th", {}, "After"))), el("tbody", {}, ...rows))));
}

/** Shows a span of time; null for all. */
function look(from, to) {
  const [first, last] = changes.span();
  if (from !== null && (to - from >= last - first || from >= last || to <= first)) from = to = null;
  timeline.from = from;
  timeline.to = to;
  redrawTimeline();
  writeHash();
}

function zoom(factor, around = 0.5) {
  const [from, to] = timelineSpan(), middle = from + around * (to - from), size = Math.max(10, (to - from) * factor);
  look(middle - around * size, middle + (1 - around) * size);
}

function move(part) {
  const [from, to] = timelineSpan(), by = part * (to - from);
  if (timeline.from !== null) look(from + by, to + by);
}

const redrawTimeline = inFrame(() => { if (current.view === "timeline" && now) filterTimeline(); });

function startTimeline() {
  const canvas = $("canvas"), list = $("list");
  let wait = null, dragged = null;
  $("timeline-form").addEventListener("submit", (event) => event.preventDefault());
  $("name").addEventListener("input", () => {
    timeline.name = $("name").value;
    clearTimeout(wait);
    wait = setTimeout(() => { redrawTimeline(); writeHash(); }, 120);
  });
  $("zoom-in").addEventListener("click", () => zoom(0.5));
  $("zoom-out").addEventListener("click", () => zoom(2));
  $("earlier").addEventListener("click", () => move(-0.5));
  $("later").addEventListener("click", () => move(0.5));
  $("all").addEventListener("click", () => look(null, null));
  $("newest").addEventListener("click", () => { $("list").scrollTop = 0; drawList(); });
  const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5),
    "-": () => zoom(2), Home: () => look(null, null) };
  canvas.addEventListener("keydown", (event) => {
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / canvas.clientWidth);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.offsetX, span: timelineSpan() };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged || timeline.from === null || Math.abs(event.offsetX - dragged.x) < 4) return;
    const [from, to] = dragged.span, by = (dragged.x - event.offsetX) / canvas.clientWidth * (to - from);
    look(from + by, to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && Math.abs(event.offsetX - dragged.x) < 4) pick(event.offsetX, event.offsetY);
    dragged = null;
  });
  list.addEventListener("scroll", inFrame(drawList));
  list.addEventListener("keydown", (event) => {
    const page = Math.floor(list.clientHeight / ROW_HEIGHT) - 1;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    const position = timeline.found.indexOf(timeline.selected);
    if (step !== undefined) {
      event.preventDefault();
      select(position < 0 ? 0 : Math.max(0, Math.min(timeline.found.length - 1, position + step)));
    } else if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      select(event.key === "Home" ? 0 : timeline.found.length - 1);
    }
  });
}

/** Selects the change that is nearest to a point of the lanes. */
function pick(x, y) {
  const [from, to] = timelineSpan(), time = from + x / $("canvas").clientWidth * (to - from);
  const lane = timeline.lanes[Math.min(timeline.lanes.length - 1, Math.max(0, Math.floor(y / LANE_HEIGHT)))];
  let best = -1, distance = Infinity;
  timeline.found.forEach((i, position) => {
    const far = Math.abs(changes.time[i] - time);
    if (lane[1].includes(changes.kind[i]) && far < distance) [best, distance] = [position, far];
  });
  select(best);
}

// ---------------------------------------------------------------------------- replicas and brokers

const STRIPS_MAX = 60;
const BROKER_COLOURS = ["--line", "--bad", "--good", "--warn"];

function drawReplicas() {
  const [from, to] = changes.span(), paint = (state) => colour(BROKER_COLOURS[state]);
  const byNumber = ([a], [b]) => a.localeCompare(b, "en", { numeric: true });
  showStrips($("lifelines"), from, to, paint, [...changes.replicas.brokers].sort(byNumber).map(([label, values]) => {
    const fenced = values.filter(([, one], i) => one === 1 && i > 0 && values[i - 1][1] > 1).length;
    return { label, values, note: BROKER_STATES[values.at(-1)[1]] + (fenced ? `, was fenced ${number(fenced)}\u00d7` : ""), to: { view: "timeline", name: label } };
  }));
  drawMoves(changes.replicas, from, to);
  drawHeat(changes.replicas, from, to);
}

/** Shows strips: a label, a canvas with a colour for each value, from its time to the next, a note. */
function showStrips(into, from, to, paint, strips) {
  const canvases = strips.map(({ label, note }) => el("canvas", { role: "img", "aria-label": `${label}: ${note}`, title: note }));
  const axis = el("canvas", { class: "axis", "aria-hidden": "true" });
  into.replaceChildren(...strips.flatMap(({ label, note, to: place, kind }, i) => [
    el("a", { class: "label", title: label, href: `#${new URLSearchParams(place)}` }, label),
    canvases[i], el("span", { class: `note ${kind || ""}`, title: note }, note)]),
  ...(strips.length ? [el("span", { class: "label" }), axis, el("span", { class: "note" })] : []));
  const all = canvases.length ? canvases[0].clientWidth : 0;
  strips.forEach(({ values }, i) => {
    const { context, width, height } = drawing(canvases[i], 14, all);
    const x = (time) => Math.round((Math.max(from, time) - from) / (to - from) * width);
    values.forEach(([time, value], at) => {
      const left = x(time), right = x(at + 1 < values.length ? values[at + 1][0] : to);
      context.fillStyle = paint(value);
      context.fillRect(left, 0, Math.max(1, right - left), height);
    });
  });
  if (all && changes.count) drawAxis(drawing(axis, AXIS_HEIGHT, all).context, from, to, all, 0);
}

/** Bars of the leaders that moved or were lost in every minute, hour or day: as many as can be told apart. */
function drawMoves({ moves, losses }, from, to) {
  const units = [["a second", 1e3], ["10 seconds", 10e3], ["a minute", MINUTE_MS], ["an hour", HOUR_MS]];
  const [unit, size] = units.find(([, one]) => (to - from) / one <= 240) || ["a day", DAY_MS];
  const first = Math.floor(from / size), length = Math.floor(to / size) - first + 1;
  const [moved, lost] = [moves, losses].map((times) => {
    const counts = new Uint32Array(length);
    for (const time of times) counts[Math.max(0, Math.floor(time / size) - first)]++;
    return counts;
  });
  const most = moved.reduce((a, b, i) => Math.max(a, b + lost[i]), 0);
  $("moves-total").textContent = `${counted(moves.length, "move")} to another broker, ${counted(losses.length, "loss", "losses")} of a leader`
    + (most ? `; at most ${number(most)} in ${unit}` : "");
  const { context, width, height } = drawing($("moves"), 80 + AXIS_HEIGHT + 2), step = width / length, floor = height - AXIS_HEIGHT;
  if (changes.count) drawAxis(context, from, to, width, floor);
  for (let i = 0; i < length && most; i++) {
    const [a, b] = [moved[i], lost[i]].map((count) => (count ? Math.max(1, (floor - 14) * count / most) : 0));
    context.fillStyle = colour("--accent");
    context.fillRect(i * step, floor - a, Math.max(1, step - 1), a);
    context.fillStyle = colour("--bad");
    context.fillRect(i * step, floor - a - b, Math.max(1, step - 1), b);
  }
  context.fillStyle = colour("--soft");
  if (most) context.fillText(`${number(most)} in ${unit}`, 3, 13);
}

function drawHeat(history, from, to) {
  const { partitions, flapping } = history, out = history.out();
  for (const id of out.keys()) history.flaps(id);
  const ranked = [...flapping].sort((a, b) => b[1].left - a[1].left || a[0] - b[0]);
  const rank = new Map(ranked.map(([id], i) => [id, i]));
  const rows = [...partitions].map(([label, one]) => ({ label, one, rank: Math.min(...[...one.brokers].map((id) => rank.get(id)), Infinity) }))
    .sort((a, b) => (b.one.trouble === OFFLINE) - (a.one.trouble === OFFLINE) || a.rank - b.rank || b.one.changes.length - a.one.changes.length);
  const lacking = rows.filter(({ one }) => one.out.length > 0).length, offline = rows.filter(({ one }) => one.trouble === OFFLINE).length;
  $("heat-total").replaceChildren(...(offline ? [link(`${counted(offline, "partition is", "partitions are")} offline`, { view: "topics", only: "offline" }, "problem"), ", "] : []),
    link(counted(lacking, "lacks a replica", "lack a replica"), { view: "topics", only: "under" }), `, ${number(rows.length)} were offline or lacked one at some time`
    + (rows.length > STRIPS_MAX ? `; the first ${STRIPS_MAX} are drawn` : ""));
  $("flapping").hidden = ranked.length === 0;
  $("flapping").tBodies[0].replaceChildren(...ranked.slice(0, STRIPS_MAX).map(([id, one]) => el("tr", { "data-node": id },
    el("td", {}, nodeLink(id)), el("td", { class: "number" }, number(one.left)), el("td", { class: "number" }, number(one.returned)),
    el("td", { class: "number" }, number(out.get(id) || 0)))));
  const paints = ["transparent", colour("--warn"), colour("--more"), colour("--bad")];
  showStrips($("heat"), from, to, (state) => paints[state], rows.slice(0, STRIPS_MAX).map(({ label, one }) => ({
    label, values: one.changes, to: { view: "timeline", name: label }, kind: one.trouble === OFFLINE ? "offline" : "",
    note: one.replicas ? `${one.trouble === OFFLINE ? "offline, " : ""}${one.replicas - one.out.length} of ${one.replicas} in the ISR` : "deleted",
  })));
}

let drawnUntil = 0; // the last time that is drawn, ms

/** Draws what reaches to the present again when that has moved by the width of a line. */
function showTimePass() {
  const [from, to] = changes.span();
  if (Math.abs(to - drawnUntil) < (to - from) / 400) return;
  drawnUntil = to;
  if (timeline.from === null) redrawTimeline();
  redrawReplicas();
}

const redrawReplicas = inFrame(() => { if (current.view === "replicas" && now) drawReplicas(); });

// ---------------------------------------------------------------------------- state

let stateAt = "";

/** An offset or a time as the server takes it. Throws an Error for another text. */
function moment(text) {
  const plain = text.trim();
  if (plain === "" || plain === "now") return "";
  if (/^[0-9]+$/.test(plain)) return plain;
  const time = Date.parse(/Z$|[+-][0-9]{2}:?[0-9]{2}$/.test(plain) ? plain : `${plain.replace(" ", "T")}Z`);
  if (Number.isNaN(time)) throw new Error(`${plain} is neither an offset nor a time such as 2026-11-21T03:18:00Z`);
  return String(time);
}

async function showState() {
  const said = $("state-said");
  said.className = "";
  try {
    stateAt = moment($("state-at").value);
    said.textContent = "loading";
    const root = await source.state([], { at: stateAt });
    said.textContent = `the state before offset ${number(root.offset)}`;
    $("tree").replaceChildren(level([], root));
  } catch (error) {
    said.className = "problem";
    said.textContent = error.message;
  }
}

/** Shows the state now with one of its entries open. */
async function openPath(name) {
  await showState();
  [...document.querySelectorAll("#tree > ul > li > button")].find((one) => one.textContent === name)?.click();
}

/** The entries of an answer as a list; objects open when they are asked for. */
function level(path, found) {
  const list = el("ul", { role: "group" });
  append(list, path, found, "");
  if (found.total > found.entries.length) {
    const filter = el("input", { type: "search", placeholder: `filter ${number(found.total)} names`, "aria-label": "Filter" });
    filter.addEventListener("change", async () => {
      const other = await source.state(path, { at: stateAt, text: filter.value });
      list.replaceChildren(el("li", {}, filter));
      append(list, path, other, filter.value);
    });
    list.prepend(el("li", {}, filter));
  }
  return list;
}

function append(list, path, found, text) {
  for (const [name, value, size] of found.entries) {
    list.append(size === undefined
      ? el("li", {}, `${name}: `, el("span", { class: "value" }, shown(value)))
      : branch([...path, name], size));
  }
  const next = found.start + found.entries.length;
  if (next < found.total) {
    const more = el("button", {}, `${number(found.total - next)} more`);
    const item = el("li", {}, more);
    more.addEventListener("click", async () => {
      const rest = await source.state(path, { at: stateAt, start: next, text });
      item.remove();
      append(list, path, rest, text);
    });
    list.append(item);
  }
}

function branch(path, size) {
  const button = el("button", { class: "node", "aria-expanded": "false" }, path.at(-1));
  const item = el("li", {}, button, el("span", { class: "dim" }, ` ${number(size)}`));
  button.addEventListener("click", async () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) { item.querySelector("ul")?.remove(); return; }
    try {
      item.append(level(path, await source.state(path, { at: stateAt })));
    } catch (error) {
      item.append(el("ul", {}, el("li", { class: "problem" }, error.message)));
    }
  });
  return item;
}

async function showDifference() {
  const said = $("state-said");
  said.className = "";
  try {
    const [before, after] = [moment($("state-before").value), moment($("state-at").value)];
    said.textContent = "comparing";
    const found = await source.difference(before, after);
    said.textContent = `${found.more ? "more than " : ""}${number(found.differences.length)} differences between offsets`
      + ` ${number(found.before)} and ${number(found.after)}`;
    const signs = { added: "+", removed: "\u2212", changed: "~" }, classes = { added: "op-c", removed: "op-d", changed: "op-u" };
    $("tree").replaceChildren(el("ul", {}, ...found.differences.map((one) => {
      const before = one.before || {}, after = one.after || {};
      const fields = [...new Set([...Object.keys(before), ...Object.keys(after)])].map((name) => el("li", {}, `${name}: `,
        el("span", { class: "value" }, [before, after].filter((side) => Object.hasOwn(side, name)).map((side) => shown(side[name])).join(" \u2192 "))));
      return el("li", { class: "difference" }, el("span", { class: classes[one.change] }, `${signs[one.change]} /${one.path.join("/")}`), el("ul", {}, ...fields));
    })));
  } catch (error) {
    said.className = "problem";
    said.textContent = error.message;
  }
}

function startState() {
  $("state-form").addEventListener("submit", (event) => { event.preventDefault(); showState(); });
  $("compare").addEventListener("click", showDifference);
  if (!source.isLive) $("state-form").hidden = true; // a report has the state at its end
}

// ---------------------------------------------------------------------------- wire

let apis = null;

async function showWire() {
  if (apis || !source.isLive) return;
  apis = await source.apis();
  $("api").replaceChildren(...apis.map((one) => el("option", { value: one.key }, `${one.name} (${one.key})`)));
  chooseApi();
}

function chooseApi() {
  const api = apis.find((one) => one.key === Number($("api").value));
  const versions = Array.from({ length: api.last - api.first + 1 }, (_, i) => api.last - i);
  $("version").replaceChildren(...versions.map((one) => el("option", {}, String(one))));
  return showFields();
}

async function showFields() {
  const found = await source.fields($("api").value, $("version").value);
  $("fields").replaceChildren(...["request", "response"].map((kind) => el("div", {}, el("h2", {}, kind),
    el("ul", {}, ...found[kind].map((field) => {
      const about = [field.type, field.nullable ? "or null" : "", field.tag === null ? "" : `tag ${field.tag}`].filter(Boolean).join(" ");
      const item = el("li", {}, el("code", {}, field.name), " ", el("span", { class: "dim" }, about));
      item.style.paddingLeft = `${16 * field.depth}px`;
      return item;
    })))));
}

async function dissect() {
  const said = $("wire-said"), kind = $("wire-kind").value;
  said.className = "";
  try {
    const asked = { hex: $("hex").value, kind, api: Number($("api").value), version: Number($("version").value) };
    const found = await source.dissect(asked);
    said.textContent = `${number(found.bytes)} bytes${found.ok ? "" : ": something does not decode"}`;
    $("dissected").replaceChildren(el("ul", {}, ...nodes(found.tree)));
  } catch (error) {
    said.className = "problem";
    said.textContent = error.message;
  }
}

/** Shows the frames of a packet capture. */
async function showCapture(file) {
  const said = $("wire-said");
  said.className = "";
  try {
    const found = await source.capture(file);
    said.textContent = `${found.more ? "the first " : ""}${number(found.frames.length)} frames of ${file.name}`;
    $("dissected").replaceChildren(...found.frames.map((one) => {
      const frame = el("details", {}, el("summary", { class: one.ok ? null : "problem" },
        `${clock(one.time, false)} ${one.source} \u2192 ${one.target} ${one.title}`));
      frame.addEventListener("toggle", () => frame.append(el("ul", {}, ...nodes(one.tree))), { once: true });
      return frame;
    }));
  } catch (error) {
    said.className = "problem";
    said.textContent = error.message;
  }
}

function nodes(node) {
  const place = node.start === undefined ? "" : ` ${node.start}-${node.end}`;
  const item = el("li", {}, el("b", {}, node.name), el("span", { class: "dim" }, ` ${node.type}${place}`));
  if ("value" in node) item.append(` = ${shown(node.value)}`);
  if (node.error) item.append(el("span", { class: "problem" }, ` ${node.error.reason}`));
  if (node.children) item.append(el("ul", {}, ...node.children.flatMap(nodes)));
  return [item];
}

function startWire() {
  $("wire-form").addEventListener("submit", (event) => { event.preventDefault(); dissect(); });
  $("capture").addEventListener("change", () => { if ($("capture").files[0]) showCapture($("capture").files[0]); });
  $("wire").addEventListener("dragover", (event) => event.preventDefault());
  $("wire").addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) showCapture(event.dataTransfer.files[0]);
  });
  $("api").addEventListener("change", chooseApi);
  $("version").addEventListener("change", showFields);
  if (!source.isLive) $("tab-wire").hidden = true; // a report has no server that dissects
}

// ---------------------------------------------------------------------------- sections and links

const VIEWS = ["quorum", "topics", "brokers", "timeline", "replicas", "state", "wire"];
const current = { view: "quorum" };

function show(view) {
  current.view = view;
  for (const one of VIEWS) {
    const isShown = one === view;
    $(one).hidden = !isShown;
    $(`tab-${one}`).setAttribute("aria-selected", String(isShown));
    $(`tab-${one}`).tabIndex = isShown ? 0 : -1;
  }
  if (!now) return;
  if (view === "quorum") showQuorum();
  showTable();
  if (view === "timeline") redrawTimeline();
  if (view === "replicas") redrawReplicas();
  if (view === "state" && !$("tree").firstChild) showState();
  if (view === "wire") showWire();
}

/** Writes what is shown into the link of the page: a copy of the link shows the same. A browser
 * refuses many writes in a row, as of a drag.
 */
function writeHash() {
  clearTimeout(hashTimer);
  hashTimer = setTimeout(writeHashNow, 150);
}

let hashTimer = null;

function writeHashNow() {
  const hash = new URLSearchParams({ view: current.view });
  if (current.view === "timeline") {
    if (timeline.selected >= 0) hash.set("at", changes.place(timeline.selected));
    if (timeline.name) hash.set("name", timeline.name);
    if (timeline.from !== null) { hash.set("from", Math.round(timeline.from)); hash.set("to", Math.round(timeline.to)); }
  }
  if (current.view === "state" && $("state-at").value) hash.set("at", $("state-at").value);
  if (["topics", "brokers"].includes(current.view)) {
    for (const [name, value] of Object.entries(table.wanted)) if (value) hash.set(name, value);
  }
  history.replaceState(null, "", `#${hash}`);
}

/** Shows what the link of the page says; ``#at=OFFSET`` alone is a change. */
function readHash() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const given = hash.get("view") || (hash.has("at") || hash.has("name") ? "timeline" : "quorum");
  const view = VIEWS.includes(given) ? given : "quorum";
  if (view === "timeline") {
    timeline.name = $("name").value = hash.get("name") || "";
    const from = Number(hash.get("from")), to = Number(hash.get("to"));
    [timeline.from, timeline.to] = hash.has("from") && from < to ? [from, to] : [null, null];
    wanted = hash.get("at");
  }
  if (view === "state") {
    $("state-at").value = hash.get("at") || "";
    if (hash.has("path")) openPath(hash.get("path"));
  }
  if (view === "topics" || view === "brokers") {
    table.wanted = Object.fromEntries([...hash].filter(([name]) => ["topic", "only", "text", "sort", "order", "start"].includes(name)));
    if (document.activeElement !== $(`${view}-text`)) $(`${view}-text`).value = table.wanted.text || "";
  }
  show(view);
  if (hash.get("to") === "leaders") $("leader-table").scrollIntoView();
}

let wanted = null; // the place of the change that the link names, until it is there

function showWanted() {
  if (wanted === null || current.view !== "timeline" || changes.at(wanted) < 0) return;
  const index = changes.at(wanted);
  wanted = null;
  filterTimeline();
  select(timeline.found.indexOf(index), { link: false });
}

function start() {
  startTimeline();
  startTables();
  startState();
  startWire();
  for (const view of VIEWS) {
    $(`tab-${view}`).addEventListener("click", () => { table.wanted = {}; show(view); writeHash(); });
    $(`tab-${view}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const shownTabs = VIEWS.filter((one) => !$(`tab-${one}`).hidden);
      const next = shownTabs[(shownTabs.indexOf(view) + step + shownTabs.length) % shownTabs.length];
      $(`tab-${next}`).focus();
      $(`tab-${next}`).click();
    });
  }
  watchers.push(redrawTimeline, redrawReplicas, showWanted);
  window.addEventListener("resize", () => { redrawTimeline(); redrawReplicas(); });
  window.addEventListener("hashchange", () => { readHash(); showWanted(); });
  document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") poll(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { redrawTimeline(); redrawReplicas(); });
  readHash();
  poll().then(() => { if (now) { show(current.view); showWanted(); } });
}

start();
