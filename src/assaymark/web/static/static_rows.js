/* Search, filters, order and columns of a board on a static site, over the rows in a script beside the page.
   The language of searches is that of leaderboard/query.py; tests compare the two. Text is only ever set as text. */
"use strict";
(() => {
  const own = document.currentScript.dataset;
  const at = (path) => new URL(path, document.baseURI).href;
  const rowsUrl = at(own.rows);
  const HIDES = ["merged", "moe", "flagged", "unavailable", "partial", "baselines"];
  let data = null;

  // ------------------------------------------------------------------------------------------- the search language

  const match = (text, pattern) => text.match(pattern) || [];
  const bare = (text) => text.replaceAll('"', "");
  const slug = (title) => title.trim().toLowerCase().replace(/[\s:"]+/g, "-");

  function searchKeys() {
    const keys = new Map([["average", ["average", "score"]]]);
    for (const [key] of data.columns) keys.set(key.toLowerCase(), [key, "score"]);
    for (const [key, title] of data.columns) if (!keys.has(slug(title))) keys.set(slug(title), [key, "score"]);
    keys.set("avg", ["average", "score"]).set("model", ["model", "text"]).set("name", ["model", "text"]);
    for (const [key, kind, names] of data.keys) for (const name of names) keys.set(name, [key, kind]);
    return keys;
  }

  function parse(text) {
    const keys = searchKeys(), named = [], licences = [], apart = [];
    for (const segment of match(text, /(?:"[^"]*"?|[^;"])+/g)) {
      const tokens = match(segment, /(?:"[^"]*"?|[^\s"])+/g);
      if (!tokens.length) continue;
      const terms = tokens.map((token) => parseTerm(token, keys));
      const withAt = tokens.map((token) => token.replace(/^-+/, "").startsWith("@"));
      const onlyLicence = terms.every((term) => term.key === "licence") && !withAt.some(Boolean);
      (onlyLicence ? licences : withAt.every(Boolean) ? apart : named).push(terms);
    }
    const joined = licences.length && named.length
      ? named.flatMap((terms) => licences.map((licence) => [...terms, ...licence]))
      : licences.length ? licences : named;
    return [...joined, ...apart];
  }

  function parseTerm(token, keys) {
    const negated = token.startsWith("-") && token.length > 1;
    const text = negated ? token.slice(1) : token;
    const keyed = text.replace(/^@/, "").match(/^([^\s:"]+):([^]*)$/);
    if (!keyed) return { key: "model", test: contains(bare(text).toLowerCase()), negated };
    const name = keyed[1].toLowerCase();
    if (!keys.has(name)) throw new Error(`unknown search key '${name}'; known: ${[...new Set([...keys.values()].map((k) => k[0]))].sort().join(", ")}`);
    const [key, kind] = keys.get(name);
    const [, sign = "", given] = keyed[2].match(/^(<=|>=|<|>|=)?([^]*)$/);
    const value = bare(given);
    if (!value) throw new Error(`'${token}' lacks its value`);
    return { key, kind, negated, test: valueTest(key, kind, name, sign, value) };
  }

  const contains = (value) => (text) => text !== null && text.toLowerCase().includes(value);
  const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };

  function valueTest(key, kind, name, sign, value) {
    if (kind === "number" || kind === "score") return numberTest(name, sign, value);
    if (kind === "date") return dateTest(name, sign, value);
    if (kind === "flag") {
      const flag = { true: 1, yes: 1, 1: 1, false: 0, no: 0, 0: 0 }[value.toLowerCase()];
      if (flag === undefined) throw new Error(`'${name}:${value}': expected ${name}:true or ${name}:false`);
      return (have) => have === flag;
    }
    if (sign && sign !== "=") throw new Error(`'${name}:${sign}${value}': ${name} is not a number`);
    if (kind === "choice") {
      const wanted = canonical(key, value.toLowerCase());
      return (have) => have !== null && have.toLowerCase() === wanted;
    }
    const lowered = value.toLowerCase();
    if (sign) return (have) => have !== null && have.toLowerCase() === lowered;
    if (key === "model") return contains(lowered);
    const begins = new RegExp(`(?<![a-z0-9])${lowered.replace(/[.*+?^${}()|[\]\\\/-]/g, "\\$&")}`);
    return (have) => have !== null && begins.test(have.toLowerCase());
  }

  function canonical(key, value) {
    if (key === "type") {
      const found = data.types.find(([name, title, aliases]) => [name, title.toLowerCase(), ...aliases].includes(value));
      if (!found) throw new Error(`unknown type '${value}'; types: ${data.types.map((one) => one[0]).join(", ")}`);
      return found[0];
    }
    const short = { bf16: "bfloat16", fp16: "float16", half: "float16", fp32: "float32", f32: "float32", float: "float32", int8: "8bit", int4: "4bit" };
    return key === "precision" ? short[value.replace("torch.", "")] || value.replace("torch.", "") : value;
  }

  function number(name, text) {
    const plain = text.trim().replace(/[%bB]+$/, "");
    if (!/^-?\d{1,15}(\.\d{1,15})?$/.test(plain)) throw new Error(`'${name}:${text}' has no number; expected for example ${name}:<8`);
    return Number(plain);
  }

  function numberTest(name, sign, value) {
    const within = (low, high) => (have) => have !== null && have >= low - 1e-12 && have <= high + 1e-12;
    const [low, high] = value.includes("..") ? [value.slice(0, value.indexOf("..")), value.slice(value.indexOf("..") + 2)] : [];
    if (low !== undefined && !sign) return within(low ? number(name, low) : -Infinity, high ? number(name, high) : Infinity);
    const wanted = number(name, value);
    if (COMPARE[sign]) return (have) => have !== null && COMPARE[sign](have, wanted);
    if (sign) return within(wanted, wanted);
    const half = 0.5 * 10 ** -(value.trim().replace(/[%bB]+$/, "").split(".")[1] || "").length;
    return within(wanted - half, wanted + half);
  }

  function dateTest(name, sign, value) {
    if (!/^\d{4}(-\d{2}(-\d{2})?)?$/.test(value)) throw new Error(`'${name}:${value}' has no date; expected for example ${name}:>2024-06-15`);
    const end = sign === "<=" || sign === ">" ? `${value}\uffff` : value;
    if (COMPARE[sign]) return (have) => have !== null && COMPARE[sign](have, end);
    return (have) => have !== null && have.startsWith(value);
  }

  // ------------------------------------------------------------------------------------------------ values and rows

  const isShare = (key) => key === "average" || data.columns.find((one) => one[0] === key)[2];

  function value(key, row, forSearch = false) {
    if (key === "model") return data.model[row];
    if (data.scores[key]) {
      const found = data.scores[key][row];
      return found === null ? null : found[0] * (forSearch && isShare(key) ? 100 : 1);
    }
    const fact = data.facts[key];
    if (!fact) return null;
    if (fact.values) return fact.values[row];
    return fact.codes[row] < 0 ? null : fact.texts[fact.codes[row]];
  }

  function isHidden(key, row) {
    if (key === "partial") return !data.complete[row];
    if (key === "unavailable") return value("available", row) === 0;
    return value(key, row) === 1;
  }

  function selected(state) {
    const groups = parse(state.q);
    const low = state.low ?? 0, high = state.high ?? Infinity;
    const found = [];
    for (let row = 0; row < data.id.length; row++) {
      if (data.baseline[row]) continue;
      if (groups.length && !groups.some((terms) => terms.every((term) => term.test(value(term.key, row, true)) !== term.negated))) continue;
      if (state.types.length && !state.types.includes(value("type", row))) continue;
      if (state.precisions.length && !state.precisions.includes((value("precision", row) || "").toLowerCase())) continue;
      if (state.origins.length && !state.origins.includes(value("origin", row))) continue;
      if (state.low !== null || state.high !== null) {
        const size = value("params", row);
        if (size === null || size < low || size > high) continue;
      }
      if (state.hide.some((key) => key !== "baselines" && isHidden(key, row))) continue;
      found.push(row);
    }
    return found;
  }

  function ordered(rows, state) {
    const key = state.sort.replace(/^-/, ""), sign = state.sort.startsWith("-") ? -1 : 1;
    let listed = rows;
    if (data.scores[key] && !state.hide.includes("baselines")) {
      listed = [...rows, ...data.id.keys()].filter((row, place) => place < rows.length || data.baseline[row]);
    }
    const places = key === "type" ? new Map(data.types.map((one, place) => [one[0], place])) : null;
    const worth = (row) => (places ? places.get(value(key, row)) ?? null : value(key, row));
    const group = (row) => (key === "average" ? data.group[row] : 0);  // averages of different columns are never ordered
    const known = new Map(listed.map((row) => [row, worth(row)]));
    const lowered = (one) => (typeof one === "string" ? one.toLowerCase() : one);
    const byName = (a, b) => { const x = data.model[a].toLowerCase(), y = data.model[b].toLowerCase(); return x < y ? -1 : x > y ? 1 : a - b; };
    return listed.sort((a, b) => {
      if (group(a) !== group(b)) return group(a) - group(b);
      const x = lowered(known.get(a)), y = lowered(known.get(b));
      if ((x === null) !== (y === null)) return x === null ? 1 : -1;
      return x === y ? byName(a, b) : (x < y ? -1 : 1) * sign;
    });
  }

  // --------------------------------------------------------------------------------------------- the state of a page

  const listed = (query, key) => query.getAll(key).flatMap((one) => one.split(",")).filter(Boolean);

  function stateOf(query) {
    const size = (text) => (text === null || text === undefined || text === "" || Number.isNaN(Number(text)) ? null : Number(text));
    const [low, high] = (query.get("params") || "..").split("..");
    const cols = query.has("cols") ? listed(query, "cols").filter((one) => one !== "none") : null;
    return {
      q: (query.get("q") || "").trim().slice(0, 1000), types: listed(query, "types"),
      precisions: listed(query, "precisions").map((one) => canonical("precision", one.toLowerCase()).toLowerCase()),
      origins: listed(query, "origins"),
      low: size(query.get("min") || low), high: size(query.get("max") || high),
      hide: listed(query, "hide").filter((one) => HIDES.includes(one)), cols,
      sort: query.get("sort") || "-average", pins: listed(query, "pin"),
      page: Math.max(1, parseInt(query.get("page") || "1", 10) || 1), per: { 25: 25, 100: 100 }[query.get("per")] || 50,
    };
  }

  function queryOf(state, changes = {}) {
    const now = { ...state, page: 1, ...changes };
    const size = (one) => (one === null ? "" : String(one));
    const params = now.low === null && now.high === null ? "" : `${size(now.low)}..${size(now.high)}`;
    const given = {
      q: now.q, types: now.types.join(), precisions: now.precisions.join(), origins: now.origins.join(), params, hide: now.hide.join(),
      cols: now.cols === null ? "" : now.cols.join() || "none", sort: now.sort === "-average" ? "" : now.sort,
      pin: now.pins.join(), page: now.page === 1 ? "" : String(now.page), per: now.per === 50 ? "" : String(now.per),
    };
    const query = new URLSearchParams(Object.entries(given).filter((one) => one[1]));
    return `?${query}`;
  }

  // --------------------------------------------------------------------------------------------------------- drawing

  function make(tag, properties = {}, ...children) {
    const found = document.createElement(tag);
    for (const [name, one] of Object.entries(properties)) if (one !== null && one !== undefined && one !== "") found.setAttribute(name, one);
    found.append(...children.filter((one) => one !== null && one !== undefined));
    return found;
  }

  function icon(name) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), use = document.createElementNS(space, "use");
    for (const [key, one] of [["class", `icon icon-${name}`], ["aria-hidden", "true"], ["width", "14"], ["height", "14"]]) svg.setAttribute(key, one);
    use.setAttribute("href", `#icon-${name}`);  // the page has them all: no browser loads them from another file on a disk
    svg.append(use);
    return svg;
  }

  const digits = (one, share) => (share ? (100 * one).toFixed(1) : String(Number(one.toPrecision(4))));
  const file = (path) => (path ? new URL(path, rowsUrl).href : null);

  function scoreCell(key, row) {
    const found = data.scores[key][row], share = isShare(key);
    const cell = make("td", { class: key === "average" ? "num average" : "num" });
    if (found === null) { cell.append("–"); return cell; }
    const link = data.links[key] && file(data.links[key][row]);
    cell.append(link ? make("a", { href: link }, digits(found[0], share)) : digits(found[0], share));
    if (found.length > 1) cell.append(make("small", {}, `${digits(found[1], share)}–${digits(found[2], share)}`));
    if (key === "average" && data.n_columns[row] < data.n_averaged) cell.append(make("span", { class: "badge" }, `${data.n_columns[row]} of ${data.n_averaged}`));
    return cell;
  }

  function kind(row) {
    const type = data.types.find((one) => one[0] === value("type", row)) || data.types.at(-1);
    return make("span", { class: "kind" }, icon(type[0]), type[1]);
  }

  function factCell(key, row) {
    const fact = data.facts[key], found = value(key, row);
    const cell = make("td", { class: fact.kind === "number" ? "num" : "fact" });
    if (key === "type" && !data.baseline[row]) cell.append(kind(row));
    else if (found === null || found === "") cell.append("–");
    else if (fact.kind === "flag") cell.append(found ? "yes" : "no");
    else if (fact.kind === "number") cell.append(key === "params" || key === "price" ? String(Number(found.toPrecision(3))) : found.toLocaleString("en", { maximumFractionDigits: 2 }));
    else cell.append(found);
    return cell;
  }

  function drawRow(row, shown, state) {
    const isPinned = state.pins.includes(data.id[row]), [rank, best, worst] = data.rank[row];
    const line = make("tr", { class: `${data.baseline[row] ? "baseline " : ""}${isPinned ? "pinned" : ""}`.trim() });
    if (shown.rank) line.append(make("td", { class: "rank" }, ...(rank ? [String(rank), make("small", {}, best === worst ? "" : `${best}–${worst}`)] : [])));
    const name = make("th", { scope: "row", class: "model" });
    if (data.baseline[row]) name.append(make("span", { class: "name" }, data.model[row]), make("span", { class: "sub" }, "baseline"));
    else {
      const sub = make("span", { class: "sub" }, kind(row), ...(data.badges[row] || []).map((one) => make("span", { class: one === "flagged" ? "badge warn" : "badge" }, one)));
      name.append(make("a", { class: "name", href: file(data.page[row]) }, data.model[row]), sub);
    }
    line.append(name);
    if (shown.average) line.append(scoreCell("average", row));
    for (const key of shown.scores) line.append(scoreCell(key, row));
    for (const key of shown.facts) line.append(factCell(key, row));
    return line;
  }

  function heading(key, title, className, descends, state) {
    const isSorted = state.sort.replace(/^-/, "") === key, isDown = state.sort.startsWith("-");
    const down = isSorted ? !isDown : descends;
    const link = make("a", { id: `sort-${key}`, href: queryOf(state, { sort: down ? `-${key}` : key }) }, title);
    link.append(make("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "▼" : "▲") : ""));
    return make("th", { scope: "col", class: className, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : null }, link);
  }

  function visible(state) {
    const chosen = state.cols;
    const has = (key, usual) => (chosen === null ? usual : chosen.includes(key));
    return {
      rank: has("rank", true), average: has("average", true),
      scores: data.columns.map((one) => one[0]).filter((key) => has(key, true)),
      facts: Object.keys(data.facts).filter((key) => has(key, data.shown.includes(key))),
    };
  }

  function drawHead(shown, state) {
    const line = make("tr");
    if (shown.rank) line.append(make("th", { scope: "col", class: "rank" }, "Rank"));
    line.append(heading("model", "Model", "model", false, state));
    if (shown.average) line.append(heading("average", "Average", "num average", true, state));
    for (const [key, title, , isHigher] of data.columns) if (shown.scores.includes(key)) line.append(heading(key, title, "num", isHigher, state));
    for (const key of shown.facts) {
      const fact = data.facts[key];
      line.append(heading(key, fact.title, fact.kind === "number" ? "num" : "fact", ["number", "date", "flag"].includes(fact.kind), state));
    }
    return line;
  }

  function drawPager(section, nPages, state) {
    section.querySelector("nav.pager")?.remove();
    if (nPages < 2) return;
    const step = (to, rel, text) => make("a", { rel, href: queryOf(state, { page: to }) }, text);
    const pager = make("nav", { class: "pager", "aria-label": "Pages" },
      state.page > 1 ? step(state.page - 1, "prev", "← Previous") : null,
      make("span", {}, `page ${state.page} of ${nPages}`),
      state.page < nPages ? step(state.page + 1, "next", "Next →") : null);
    section.querySelector(".wrap").after(pager);
  }

  function report(section, text) {
    section.querySelector(".problems")?.remove();
    if (text) section.prepend(make("p", { class: "problems", role: "alert" }, text));
  }

  function draw(state) {
    const section = document.getElementById("results"), table = section.querySelector("table.board");
    let found = data.id.map((_, row) => row).filter((row) => !data.baseline[row]), problem = "";
    try { found = selected(state); } catch (error) { problem = `search: ${error.message}`; }
    report(section, problem);
    const key = state.sort.replace(/^-/, "");
    const known = key === "model" || data.scores[key] || data.facts[key];
    const rows = ordered([...found], known ? state : { ...state, sort: "-average" });
    const nPages = Math.max(1, Math.ceil(rows.length / state.per)), page = Math.min(state.page, nPages);
    const isPinned = (row) => state.pins.includes(data.id[row]);
    const matching = rows.filter(isPinned); // in the order of the rows; then those that do not match
    const pins = [...matching, ...data.id.map((_, row) => row).filter((row) => isPinned(row) && !matching.includes(row))];
    const part = rows.slice((page - 1) * state.per, page * state.per).filter((row) => !pins.includes(row));
    const shown = visible(state);
    table.tHead.replaceChildren(drawHead(shown, state));
    table.tBodies[0].replaceChildren(...[...pins, ...part].map((row) => drawRow(row, shown, state)));
    if (!rows.length && !pins.length) table.tBodies[0].append(make("tr", {}, make("td", { colspan: "99", class: "empty" }, "No model fulfils these conditions.")));
    section.querySelector(".status b").textContent = found.length.toLocaleString("en");
    drawPager(section, nPages, { ...state, page });
    document.documentElement.dataset.rows = String(found.length);
  }

  function loadRows() {  // a script, since a page that was opened from a disk may not fetch files
    return new Promise((resolve, reject) => {
      const script = make("script", { src: rowsUrl });
      script.addEventListener("load", () => (globalThis.assaymarkRows ? resolve(globalThis.assaymarkRows) : reject()));
      script.addEventListener("error", reject);
      document.head.append(script);
    });
  }

  async function show(query) {
    try {
      data ??= await loadRows();
    } catch {
      report(document.getElementById("results"), "the rows could not be loaded: the file rows-….js of this copy is missing, or its host cannot be reached");
      return;
    }
    history.replaceState(null, "", query);
    draw(stateOf(new URLSearchParams(query)));
  }

  // ---------------------------------------------------------------------------------------------------------- wiring

  function formQuery(form) {
    const query = new URLSearchParams(new FormData(form));
    const state = stateOf(query), usual = [...(data?.shown || []), ...(data?.columns || []).map((one) => one[0]), "rank", "average"];
    if (data && state.cols && state.cols.length === usual.length && usual.every((key) => state.cols.includes(key))) state.cols = null;
    const now = new URLSearchParams(location.search);
    return queryOf({ ...state, sort: now.get("sort") || "-average", pins: listed(now, "pin") });
  }

  function fill(form, state) {
    form.elements.q.value = state.q;
    for (const box of form.querySelectorAll("input[type=checkbox]")) {
      const chosen = state[box.name];
      if (Array.isArray(chosen)) box.checked = chosen.includes(box.name === "precisions" ? box.value.toLowerCase() : box.value);
    }
    if (form.elements.min) form.elements.min.value = state.low ?? "";
    if (form.elements.max) form.elements.max.value = state.high ?? "";
    if (form.elements.per) form.elements.per.value = String(state.per);
  }

  function start() {
    const form = document.getElementById("filters");
    let wait = 0;
    // what needs the server: other averages, ranks among the rows shown, raw values, one prompt set
    for (const name of ["scale", "rank", "average", "prompts"]) form.querySelector(`select[name=${name}]`)?.closest("label").remove();
    const apply = () => show(data ? formQuery(form) : "?").then(() => data && show(formQuery(form)));
    form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
    form.addEventListener("change", (event) => { if (event.target.id !== "q") apply(); });
    form.elements.q.addEventListener("input", () => { clearTimeout(wait); wait = setTimeout(apply, 200); });
    document.getElementById("results").addEventListener("click", (event) => {
      const link = event.target.closest("a[id^=sort-], nav.pager a");
      const isPlain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.button);
      if (!link || !isPlain || !(link.getAttribute("href") || "").includes("?")) return;
      event.preventDefault();
      const id = link.id;
      show(new URL(link.href).search).then(() => id && document.getElementById(id)?.focus());
    });
    if (location.search.length > 1) {
      fill(form, stateOf(new URLSearchParams(location.search)));
      show(location.search);
    }
  }

  start();
})();
