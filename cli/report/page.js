"use strict";
(() => {
  // Everything that the page shows is made of text nodes: what is in a report is never markup.
  const {text, results} = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const tiles = [...document.querySelectorAll("[data-decision]")];
  const decisions = tiles.map((tile) => tile.dataset.decision);
  const titles = tiles.map((tile) => tile.lastElementChild.textContent);
  const fields = ["namespace", "kind", "policy"];
  const plurals = {namespace: "namespaces", kind: "kinds", policy: "policies"};
  const none = {namespace: "(no namespace)", kind: "(no kind)", policy: "(no policy)"};
  const chunk = 60; // rows that are drawn at once

  const el = (tag, className, ...children) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    node.append(...children);
    return node;
  };
  const number = (n) => n.toLocaleString("en");
  const count = (n, what) => number(n) + " " + what + (n === 1 ? "" : "s");

  // --- What is wanted: the state, which is also the link's hash.

  // A field is null for all, and "" for results that have none.
  const state = {decision: new Set(), namespace: null, kind: null, policy: null, q: "", result: 0};

  const readHash = () => {
    const hash = new URLSearchParams(location.hash.slice(1));
    state.decision = new Set((hash.get("decision") || "").split(",").filter((d) => decisions.includes(d)));
    for (const field of fields) state[field] = hash.get(field);
    state.q = hash.get("q") || "";
    state.result = Number(hash.get("result")) || 0;
  };

  const stateHash = () => {
    const hash = new URLSearchParams();
    if (state.decision.size) hash.set("decision", decisions.filter((d) => state.decision.has(d)).join(","));
    for (const field of fields) if (state[field] !== null) hash.set(field, state[field]);
    if (state.q.trim()) hash.set("q", state.q.trim());
    return hash.toString();
  };

  // Browsers limit how often a page may do this, so a typed word is written once.
  let writing = 0;
  const writeHash = () => {
    clearTimeout(writing);
    writing = setTimeout(() => history.replaceState(null, "", "#" + stateHash()), 150);
  };

  // --- Filter.

  const values = {
    namespace: (row) => [text[row.ns]],
    kind: (row) => [text[row.kind]],
    policy: (row) => row.policies ? row.policies.map((p) => text[p]) : [""],
  };

  let lower; // text in lower case, made by the first search
  // refs are all texts of a row, for the search.
  const refs = (row) => row.refs ??= [
    row.api, row.kind, row.op, row.user, row.reason, row.message, row.policies, row.warnings, row.unknown, row.why, row.diff,
  ].flat(2).filter(Boolean);
  const label = (row) => row.label ??=
    `${text[row.kind]} ${text[row.ns]}/${row.name} ${text[row.file]}:${row.line || ""}`.toLowerCase();

  // search gives a function that says whether a row has every word. A text that many rows share is looked at once a word.
  const search = (query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return () => true;
    lower ??= text.map((t) => t.toLowerCase());
    const hits = words.map((word) => lower.map((t) => t.includes(word)));
    return (row) => words.every((word, i) => label(row).includes(word) || refs(row).some((r) => hits[i][r]));
  };

  const wanted = () => {
    let mask = 0;
    decisions.forEach((d, i) => { if (state.decision.has(d)) mask |= 1 << i; });
    const found = search(state.q);
    const chosen = fields.filter((field) => state[field] !== null);
    return results.filter((row) => (!mask || row.in & mask) &&
      chosen.every((field) => values[field](row).includes(state[field])) && found(row));
  };

  // --- A result: one line, and what it opens to.

  const place = (row) => text[row.file] + (row.line ? ":" + row.line : "");

  const heading = (row) => {
    const [worst, ...others] = decisions.map((_, i) => i).filter((i) => row.in & 1 << i);
    const badges = el("span", "badges", el("b", "badge " + decisions[worst], titles[worst]));
    for (const i of others) badges.append(el("span", "also " + decisions[i], titles[i].toLowerCase()));
    const name = el("span", "name", text[row.ns] ? text[row.ns] + "/" : "", el("strong", "", row.name));
    const kind = (text[row.op] && text[row.op] !== "CREATE" ? text[row.op].toLowerCase() + " " : "") + text[row.kind];
    const policies = el("span", "policies", ...(row.policies || []).map((p) => el("span", "policy", text[p])));
    const brief = el("span", "brief");
    if (row.reason) brief.append(el("b", "", text[row.reason]), " ");
    brief.append(text[row.brief || 0]);
    return el("summary", "", badges,
      el("span", "what", el("span", "kind", kind), " ", name, el("span", "source", place(row))), brief, policies);
  };

  const lineClass = {"+": "line add", "-": "line del"};

  const diff = (row) => {
    const lines = row.diff.map((r) => text[r]);
    const code = el("code", "", ...lines.map((line) => el("span", lineClass[line[0]] || "line", line[0] + " " + line.slice(1) + "\n")));
    const signs = (sign) => lines.filter((line) => line[0] === sign).length;
    const title = row.via || text[row.op] === "CREATE" ? "The pod, before and after" : "The request, before and after";
    const pre = el("pre", "diff", code);
    pre.tabIndex = 0; // so that it scrolls by keyboard
    pre.setAttribute("aria-label", title);
    const counts = el("span", "counts", el("ins", "", "+" + signs("+")), " ", el("del", "", "−" + signs("-")));
    return el("section", "", el("h3", "", title, counts), pre);
  };

  const reasons = (row) => {
    const body = el("tbody", "", ...row.why.map(([field, value, reason]) =>
      el("tr", "", el("th", "", text[field]), el("td", "value", text[value]), el("td", "", text[reason]))));
    body.querySelectorAll("th").forEach((th) => { th.scope = "row"; });
    return el("section", "", el("h3", "", "Why"), el("table", "", body));
  };

  const facts = (row) => {
    const list = [text[row.op], text[row.api || 0]];
    if (row.user) list.push("as " + text[row.user]);
    if (row.via) list.push("judged by the pod of its " + text[row.via]);
    list.push(place(row));
    const link = el("a", "", "Link to this result");
    link.href = "#result=" + row.id;
    return el("p", "facts", list.filter(Boolean).join(" · "), " · ", link);
  };

  const notes = (kind, title, list) => el("div", "note " + kind, el("h3", "", title),
    ...(list.length === 1 ? [el("p", "", list[0])] : [el("ul", "", ...list.map((line) => el("li", "", line)))]));

  const body = (row) => {
    const parts = el("div", "body");
    const texts = (list) => (list || []).map((r) => text[r]);
    if (row.message) parts.append(notes(row.in & 1 ? "denied" : "clean", text[row.reason || 0] || "Message", [text[row.message]]));
    if (row.warnings) parts.append(notes("warned", row.warnings.length === 1 ? "Warning" : "Warnings", texts(row.warnings)));
    if (row.unknown) parts.append(notes("unknown", "Not known", texts(row.unknown)));
    if (row.why) parts.append(reasons(row));
    if (row.diff) parts.append(diff(row));
    if (!parts.childElementCount) parts.append(el("p", "nothing", "No policy changes it or objects."));
    parts.append(facts(row));
    return parts;
  };

  const open = (details) => {
    if (!details.querySelector(".body")) details.append(body(details.row));
    details.open = true;
  };

  const item = (row) => {
    const details = el("details", "", heading(row));
    details.row = row;
    details.addEventListener("toggle", () => { if (details.open) open(details); });
    if (expanded) open(details);
    return el("li", decisions[Math.log2(row.in & -row.in)], details);
  };

  // --- The list. It is drawn as far as the reader has scrolled.

  let shown = [];
  let drawn = 0;
  let expanded = false;

  const draw = (upTo) => {
    const end = Math.min(upTo, shown.length);
    if (end > drawn) $("results").append(...shown.slice(drawn, end).map(item));
    drawn = Math.max(drawn, end);
    $("more").hidden = drawn >= shown.length;
    $("more").textContent = `Show more (${number(shown.length - drawn)} left)`;
  };

  const show = () => {
    shown = wanted();
    drawn = 0;
    $("results").replaceChildren();
    draw(chunk);
    const hash = stateHash();
    $("count").textContent = hash ? `${number(shown.length)} of ${count(results.length, "result")}` : count(results.length, "result");
    $("empty").hidden = shown.length > 0;
    $("reset").hidden = !hash;
  };

  // showResult opens the one that a link names.
  const showResult = () => {
    const at = shown.findIndex((row) => row.id === state.result);
    if (at < 0) return;
    draw(at + 1);
    const details = $("results").children[at].firstElementChild;
    open(details);
    details.scrollIntoView({block: "start"});
    details.firstElementChild.focus({preventScroll: true});
  };

  // --- Controls.

  const options = (field) => {
    const counts = new Map();
    for (const row of results) for (const value of values[field](row)) counts.set(value, (counts.get(value) || 0) + 1);
    const sorted = [...counts].sort(([a], [b]) => a < b ? -1 : 1);
    const named = sorted.filter(([value]) => value).length;
    const all = new Option(`All ${named > 1 ? number(named) + " " : ""}${plurals[field]}`, "");
    // "=" tells no value from every value.
    $(field).append(all, ...sorted.map(([value, n]) => new Option(`${value || none[field]} (${number(n)})`, "=" + value)));
  };

  const fillControls = () => {
    tiles.forEach((tile) => tile.setAttribute("aria-pressed", state.decision.has(tile.dataset.decision)));
    for (const field of fields) {
      const value = state[field] === null ? "" : "=" + state[field];
      const known = [...$(field).options].some((option) => option.value === value);
      if (!known) $(field).append(new Option(state[field] + " (0)", value)); // of a link to another report
      $(field).value = value;
    }
    if ($("q").value.trim() !== state.q.trim()) $("q").value = state.q;
  };

  const change = () => {
    state.result = 0;
    fillControls();
    show();
    writeHash();
  };

  const follow = () => {
    clearTimeout(writing);
    readHash();
    fillControls();
    show();
    showResult();
  };

  const reset = () => {
    Object.assign(state, {decision: new Set(), namespace: null, kind: null, policy: null, q: ""});
    change();
  };

  const step = (event) => {
    const next = {ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling"}[event.key];
    const target = next && event.target.closest("summary") && event.target.closest("li")[next];
    if (!target) return;
    event.preventDefault();
    target.firstElementChild.firstElementChild.focus();
  };

  for (const tile of tiles) tile.addEventListener("click", () => {
    const d = tile.dataset.decision;
    if (!state.decision.delete(d)) state.decision.add(d);
    change();
  });
  for (const field of fields) $(field).addEventListener("change", () => {
    const value = $(field).value;
    state[field] = value === "" ? null : value.slice(1);
    change();
  });
  $("q").addEventListener("input", () => { state.q = $("q").value; change(); });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("reset").addEventListener("click", reset);
  $("expand").addEventListener("click", () => {
    expanded = !expanded;
    $("expand").setAttribute("aria-pressed", expanded);
    $("expand").textContent = expanded ? "Collapse all" : "Expand all";
    for (const li of $("results").children) expanded ? open(li.firstElementChild) : li.firstElementChild.open = false;
  });
  $("more").addEventListener("click", () => draw(drawn + chunk));
  $("results").addEventListener("keydown", step);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      $("q").focus();
    }
  });
  new IntersectionObserver((seen) => { if (seen.some((e) => e.isIntersecting)) draw(drawn + chunk); }, {rootMargin: "1000px"})
    .observe($("more"));
  addEventListener("beforeprint", () => draw(shown.length));
  addEventListener("hashchange", follow);

  fields.forEach(options);
  follow();
})();
