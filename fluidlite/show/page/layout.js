// Where nodes go: rows by depth, wrapped into columns that fill the pane; groups are laid out by themselves
// first.
const GAP_X = 26,
  GAP_Y = 36,
  GUTTER = 52,
  THIN = 14;
const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

// items: {left, right, h, edge: "top"|"bottom"|undefined}, widths left and right of the anchor;
// links: {from, to, out, into}: indices and offsets from the anchors.
// Gives {at: [{x, y}], paths: [points], width, height}.
function layered(items, links, aspect) {
  const forward = links.map((link) => (link.from < link.to ? link : { from: link.to, to: link.from }));
  const rows = rowsOf(items, forward),
    rank = [];
  rows.forEach((row, depth) =>
    row.forEach((one) => {
      rank[one] = depth;
    }),
  );
  const cells = items.map((item, index) => ({ ...item, rank: rank[index], up: [], down: [] })),
    chains = [];
  const bends = new Map(); // thin cells through which long edges pass; edges from the same place share them
  for (const { from, to } of forward) {
    const chain = [from];
    for (let depth = rank[from] + 1; depth < rank[to]; depth++) {
      const key = `${from}/${depth}`;
      if (!bends.has(key)) {
        bends.set(key, cells.length);
        rows[depth].push(cells.length);
        cells.push({ left: THIN / 2, right: THIN / 2, h: 0, rank: depth, up: [], down: [], bend: true });
      }
      chain.push(bends.get(key));
    }
    chain.push(to);
    for (let step = 1; step < chain.length; step++) {
      cells[chain[step - 1]].down.push(chain[step]);
      cells[chain[step]].up.push(chain[step - 1]);
    }
    chains.push(chain);
  }
  order(cells, rows);
  settle(cells, rows);
  return wrap(cells, rows, chains, links, aspect, items.length);
}

function rowsOf(items, links) {
  // the items of each row: below all that they read, and no row much longer than others
  const rank = items.map(() => 0),
    into = items.map(() => []),
    out = items.map(() => []);
  for (const { from, to } of links) {
    into[to].push(from);
    out[from].push(to);
  }
  items.forEach((item, index) => {
    if (item.edge !== "top")
      rank[index] = into[index].length
        ? Math.max(...into[index].map((one) => rank[one])) + 1
        : items.some((one) => one.edge === "top")
          ? 1
          : 0;
  });
  for (let index = items.length - 1; index >= 0; index--) {
    // what reads nothing stands right above its reader
    if (!into[index].length && out[index].length && items[index].edge !== "top")
      rank[index] = Math.max(rank[index], Math.min(...out[index].map((one) => rank[one])) - 1);
  }
  const deepest = Math.max(0, ...rank.filter((_, index) => items[index].edge !== "bottom"));
  items.forEach((item, index) => {
    if (item.edge === "bottom") rank[index] = deepest + 1;
  });
  const most = Math.max(4, Math.ceil(Math.sqrt(items.length) * 1.2)),
    rows = [],
    levels = [];
  rank.forEach((depth, index) => (levels[depth] ??= []).push(index));
  for (const level of levels) {
    if (!level) continue;
    if (items[level[0]].edge) {
      rows.push(level);
      continue;
    }
    for (let start = 0; start < level.length; start += most) rows.push(level.slice(start, start + most));
  }
  return rows;
}

function order(cells, rows) {
  // few crossings: each cell near the middle of its neighbours, down and up again
  const place = [];
  const number = (row) =>
    row.forEach((one, index) => {
      place[one] = index - (row.length - 1) / 2;
    });
  rows.forEach(number);
  for (let sweep = 0; sweep < 8; sweep++) {
    const side = sweep % 2 ? "down" : "up",
      list = sweep % 2 ? [...rows].reverse() : rows;
    for (const row of list) {
      const wish = new Map(
        row.map((one) => [
          one,
          cells[one][side].length ? mean(cells[one][side].map((other) => place[other])) : place[one],
        ]),
      );
      row.sort((a, b) => wish.get(a) - wish.get(b) || place[a] - place[b]);
      number(row);
    }
  }
}

function settle(cells, rows) {
  // x: under what a cell reads, without overlaps
  for (const row of rows) {
    let x = 0;
    for (const one of row) {
      x += cells[one].left;
      cells[one].x = x;
      x += cells[one].right + GAP_X;
    }
  }
  for (let sweep = 0; sweep < 10; sweep++) {
    const side = sweep % 2 ? "down" : "up",
      list = sweep % 2 ? [...rows].reverse() : rows;
    for (const row of list) {
      const wish = row.map((one) =>
        cells[one][side].length ? mean(cells[one][side].map((other) => cells[other].x)) : cells[one].x,
      );
      const apart = (a, b) => cells[a].right + cells[b].left + (cells[a].bend && cells[b].bend ? 6 : GAP_X);
      const right = [...wish],
        left = [...wish];
      for (let i = 1; i < row.length; i++)
        right[i] = Math.max(right[i], right[i - 1] + apart(row[i - 1], row[i]));
      for (let i = row.length - 2; i >= 0; i--)
        left[i] = Math.min(left[i], left[i + 1] - apart(row[i], row[i + 1]));
      row.forEach((one, i) => {
        cells[one].x = (right[i] + left[i]) / 2;
      });
    }
  }
}

function cutsOf(heights, crossing, columns) {
  // the rows after which a new column begins: near equal parts, where few edges cross
  const total = heights.reduce((sum, one) => sum + one + GAP_Y, 0),
    cuts = [];
  let sum = 0;
  const upTo = heights.map((height) => (sum += height + GAP_Y));
  for (let column = 1; column < columns; column++) {
    const aim = (total * column) / columns;
    let best = -1,
      least = Infinity;
    for (let row = (cuts.at(-1) ?? -1) + 1; row < heights.length - 1; row++) {
      const cost = (Math.abs(upTo[row] - aim) / (total / columns)) * 4 + crossing[row];
      if (cost < least) {
        least = cost;
        best = row;
      }
    }
    if (best >= 0) cuts.push(best);
  }
  return cuts;
}

function wrap(cells, rows, chains, links, aspect, count) {
  const heights = rows.map((row) => Math.max(0, ...row.map((one) => cells[one].h)));
  const crossing = rows.map((row) => row.reduce((sum, one) => sum + cells[one].down.length, 0));
  const column = (first, last) => {
    const inside = rows
      .slice(first, last + 1)
      .flat()
      .map((one) => cells[one]);
    const low = Math.min(...inside.map((cell) => cell.x - cell.left)),
      high = Math.max(...inside.map((cell) => cell.x + cell.right));
    return {
      first,
      last,
      low,
      width: high - low,
      height: heights.slice(first, last + 1).reduce((sum, one) => sum + one + GAP_Y, -GAP_Y),
    };
  };
  let best = null;
  for (let parts = 1; parts <= Math.min(8, Math.ceil(rows.length / 3)); parts++) {
    const ends = [...cutsOf(heights, crossing, parts), rows.length - 1],
      columns = ends.map((end, index) => column(index ? ends[index - 1] + 1 : 0, end));
    const width = columns.reduce((sum, one) => sum + one.width + GUTTER, -GUTTER),
      height = Math.max(...columns.map((one) => one.height)) + (parts > 1 ? 2 * THIN : 0);
    const scale = Math.min(aspect / width, 1 / height); // the larger the better: it is drawn larger
    if (!best || scale > best.scale * 1.12) best = { scale, columns, width, height };
  }
  const { columns } = best,
    top = columns.length > 1 ? THIN : 0,
    rowTop = [],
    columnOf = [];
  let x = 0;
  columns.forEach((one, index) => {
    let y = top;
    for (let row = one.first; row <= one.last; row++) {
      rowTop[row] = y;
      columnOf[row] = index;
      y += heights[row] + GAP_Y;
      for (const cell of rows[row]) cells[cell].x += x - one.low;
    }
    one.x = x;
    x += one.width + GUTTER;
  });
  // what reads nothing stands low, near its reader
  const at = cells.slice(0, count).map((cell) => ({
    x: cell.x,
    y: rowTop[cell.rank] + (heights[cell.rank] - cell.h) / (cell.up.length ? 2 : 1),
  }));
  let lane = 0;
  const paths = chains.map((chain, index) => {
    const back = links[index].from > links[index].to,
      [start, end] = [chain[0], chain.at(-1)];
    const [out, into] = back ? [links[index].into, links[index].out] : [links[index].out, links[index].into];
    const points = [];
    for (let step = 0; step < chain.length; step++) {
      const cell = cells[chain[step]],
        row = cell.rank;
      if (step) {
        const y = chain[step] === end ? at[end].y + (cell.inset ?? 0) : rowTop[row],
          shift = chain[step] === end ? (into ?? 0) : 0;
        const before = cells[chain[step - 1]].rank;
        if (columnOf[before] !== columnOf[row]) {
          const from = columns[columnOf[before]],
            gutter = from.x + from.width + GUTTER / 2 + ((lane++ % 5) - 2) * 5;
          points.push({
            turn: true,
            x: gutter,
            low: best.height + (columns.length > 1 ? -THIN / 2 : 0),
            high: THIN / 2,
          });
        }
        if (y - rowTop[row] > 1) points.push({ x: cell.x + shift, y: rowTop[row] });
        points.push({ x: cell.x + shift, y });
      }
      if (step < chain.length - 1) {
        if (chain[step] === start) {
          const x = cell.x + (out ?? 0),
            y = at[start].y + cell.h - (cell.inset ?? 0),
            low = rowTop[row] + heights[row];
          points.push({ x, y });
          if (low - y > 1) points.push({ x, y: low });
        } else if (heights[row]) points.push({ x: cell.x, y: rowTop[row] + heights[row] });
      }
    }
    return back ? points.reverse() : points;
  });
  return { at, paths, width: best.width, height: best.height };
}

function pathText(points, dx = 0, dy = 0) {
  // an SVG path through points; a turn leads into the next column
  const at = (x, y) => `${(x + dx).toFixed(1)} ${(y + dy).toFixed(1)}`;
  let text = `M${at(points[0].x, points[0].y)}`;
  for (let index = 1; index < points.length; index++) {
    const [before, point] = [points[index - 1], points[index]];
    if (point.turn) continue;
    if (before.turn) {
      const from = points[index - 2],
        r = 7,
        side = (a, b) => Math.sign(b - a) * Math.min(r, Math.abs(b - a) / 2);
      const bend = (x0, y0, x1, y1, x2, y2) =>
        `L${at(x1 - side(x0, x1), y1 - side(y0, y1))}` +
        `Q${at(x1, y1)} ${at(x1 + side(x1, x2), y1 + side(y1, y2))}`;
      text +=
        bend(from.x, from.y, from.x, before.low, before.x, before.low) +
        bend(from.x, before.low, before.x, before.low, before.x, before.high) +
        bend(before.x, before.low, before.x, before.high, point.x, before.high) +
        bend(before.x, before.high, point.x, before.high, point.x, point.y) +
        `L${at(point.x, point.y)}`;
    } else if (Math.abs(before.x - point.x) < 0.5) text += `L${at(point.x, point.y)}`;
    else {
      const middle = (point.y - before.y) / 2;
      text +=
        `C${at(before.x, before.y + middle)} ` + `${at(point.x, point.y - middle)} ${at(point.x, point.y)}`;
    }
  }
  return text;
}

// ---------------------------------------------------------------- the picture of a folded program
const NODE_W = 186,
  NODE_H = 42,
  PILL_W = 118,
  PILL_H = 19,
  PILL_GAP = 5,
  PILLS = 4,
  PAD = 14,
  TITLE = 28,
  LABEL_W = 146; // LABEL_W: right of the anchor, where the shape stands
const SHAPES = [0.4, 0.8, 1.6, 3],
  TALL = 0.4; // width by height of open groups, and of a whole that is scrolled
const READABLE = 0.7;
function picture(tree, width, height, withParams) {
  const made = [
    ...SHAPES.map((shape) => pictureOf(tree, width / height, shape, withParams)),
    ...SHAPES.slice(0, 2).map((shape) => pictureOf(tree, TALL, shape, withParams)),
  ];
  // the larger it can be drawn the better; what cannot be read as a whole should at least not be wider than
  // the pane
  const worth = (one) => {
    const scale = Math.min(1.25, width / (one.width + 44), height / (one.height + 44));
    return scale >= READABLE
      ? scale
      : 0.9 * READABLE * Math.min(1, width / (one.width * READABLE + 44)) + 0.05 * scale;
  };
  return made.reduce((best, one) => (worth(one) > worth(best) * 1.03 ? one : best));
}
// {boxes: [{node, x, y, w, h, open, pills}], edges: [{points, dx, dy, names, from, to, owner}],
// width, height}
function pictureOf(tree, aspect, shape, withParams) {
  const lanes = phasesShown(tree),
    levels = levelsOf(tree, lanes),
    out = { boxes: [], edges: [] };
  const parts = lanes.map((lane) =>
    container(tree, lane, levels, lanes.length > 1 ? aspect / lanes.length : aspect, { shape, withParams }),
  );
  let x = 0;
  const tall = Math.max(...parts.map((part) => part.height));
  lanes.forEach((lane, index) => {
    const part = parts[index];
    if (lanes.length > 1) {
      const w = part.width + 2 * PAD,
        h = Math.max(part.height, Math.min(tall, 200)) + TITLE + PAD;
      out.boxes.push({ node: lane, x, y: 0, w, h, open: true });
      emit(part, x + PAD, TITLE, out);
      lane.box = { x, w };
      x += w + 120;
    } else {
      emit(part, 0, 0, out);
      x += part.width + 120;
    }
  });
  for (const [key, names] of lanes.length > 1 ? levels.across : []) {
    const [from, to] = key.split(">"),
      one = tree.phases.get(from).box,
      other = tree.phases.get(to).box;
    if (one && other && other.x > one.x)
      out.edges.push({
        points: [
          { x: one.x + one.w, y: 70 },
          { x: other.x - 2, y: 70 },
        ],
        dx: 0,
        dy: 0,
        names,
        across: true,
      });
  }
  out.width = x - 120;
  out.height = Math.max(...out.boxes.map((box) => box.y + box.h), tall);
  return out;
}

function levelsOf(tree, lanes) {
  // the links of every open group: within it, and to its borders
  const links = new Map(),
    across = new Map(),
    feeds = new Map(),
    shown = new Set(lanes);
  const variables = varsOf(tree.program);
  const add = (container, from, to, name, source) => {
    if (from === to) return;
    const key = container.id;
    if (!links.has(key)) links.set(key, new Map());
    const found = links.get(key),
      link = `${from.id ?? from}|${to.id ?? to}`;
    if (!found.has(link)) found.set(link, { from, to, names: new Set(), source });
    found.get(link).names.add(name);
  };
  const pathTo = (node) => {
    const path = [];
    for (let one = node; one; one = one.parent) path.unshift(one);
    return path;
  };
  for (const [from, to, name] of tree.flows) {
    const end = representative(tree, to),
      path = end && pathTo(end);
    if (!path || !shown.has(path[0])) continue;
    if (from < 0) {
      if (variables.get(name)?.[KIND] !== "data") continue;
      if (!feeds.has(name)) feeds.set(name, { id: `feed:${name}`, name, feed: true, lane: path[0] });
      if (feeds.get(name).lane === path[0]) join([path[0], feeds.get(name)], path, name);
      continue;
    }
    const start = representative(tree, from),
      startPath = start && pathTo(start);
    if (!startPath || !shown.has(startPath[0]) || start === end) continue;
    if (startPath[0] !== path[0]) {
      const key = `${startPath[0].id}>${path[0].id}`;
      across.set(key, (across.get(key) ?? new Set()).add(name));
    } else join(startPath, path, name);
  }
  function join(one, other, name) {
    // through the borders of the groups on both sides
    let depth = 0;
    while (depth < one.length - 1 && depth < other.length - 1 && one[depth + 1] === other[depth + 1]) depth++;
    const source = one.at(-1).id,
      upper = one.slice(depth + 1),
      lower = other.slice(depth + 1);
    if (!upper.length || !lower.length) return; // an op and its own block
    upper.slice(0, -1).forEach((group, index) => add(group, upper[index + 1], `out:${source}`, name, source));
    lower.slice(0, -1).forEach((group, index) => add(group, `in:${source}`, lower[index + 1], name, source));
    add(one[depth], upper[0], lower[0], name, source);
  }
  return { links, across, feeds };
}

function container(tree, group, levels, aspect, how) {
  // one open group: its children, and the borders of what enters and leaves
  const links = [...(levels.links.get(group.id)?.values() ?? [])],
    feeds = [...levels.feeds.values()].filter((feed) => feed.lane === group);
  const ports = [
    ...new Set(links.flatMap((link) => [link.from, link.to]).filter((end) => typeof end === "string")),
  ];
  const entries = [
    ...ports
      .filter((port) => port.startsWith("in:"))
      .map((port) => ({ key: port, edge: "top", left: 4, right: 4, h: 0 })),
    ...feeds.map((feed) => ({ key: feed.id, feed, left: NODE_W / 2, right: NODE_W / 2, h: 30 })),
    ...group.children.map((node) => child(tree, node, levels, how)),
    ...ports
      .filter((port) => port.startsWith("out:"))
      .map((port) => ({ key: port, edge: "bottom", left: 4, right: 4, h: 0 })),
  ];
  const index = new Map(entries.map((entry, place) => [entry.key, place]));
  const ends = links.map((link) => {
    const from = index.get(link.from.id ?? link.from),
      to = index.get(link.to.id ?? link.to);
    return {
      from,
      to,
      out: entries[from].ports?.get(`out:${link.source}`),
      into: entries[to].ports?.get(`in:${link.source}`),
      link,
    };
  });
  const made = layered(entries, ends, aspect);
  const found = new Map(
    entries.flatMap((entry, place) => (entry.edge ? [[entry.key, made.at[place].x]] : [])),
  );
  return {
    entries,
    at: made.at,
    paths: made.paths,
    ends,
    width: made.width,
    height: made.height,
    ports: found,
  };
}

function child(tree, node, levels, how) {
  if (isOpen(tree, node)) {
    const part = container(tree, node, levels, how.shape, how),
      w = Math.max(part.width + 2 * PAD, node.label.length * 8 + 60),
      h = part.height + TITLE + PAD;
    const shift = (w - part.width) / 2;
    return {
      key: node.id,
      node,
      part,
      left: w / 2,
      right: w / 2,
      h,
      shift,
      ports: new Map([...part.ports].map(([key, x]) => [key, x + shift - w / 2])),
    };
  }
  const pills = how.withParams && node.kind === OP_KIND ? paramsOf(tree, node) : [],
    shown = Math.min(pills.length, PILLS + 1);
  const h = Math.max(NODE_H, shown * (PILL_H + PILL_GAP) - PILL_GAP),
    stack = node.kind === "repeat" ? 8 : 0;
  return {
    key: node.id,
    node,
    pills,
    left: NODE_W / 2 + (pills.length ? PILL_W + 22 : 0),
    right: LABEL_W,
    h: h + stack,
    inset: (h - NODE_H) / 2,
  };
}

function emit(part, dx, dy, out) {
  // boxes and edges of a container, moved to their place
  part.entries.forEach((entry, place) => {
    const { x, y } = part.at[place];
    if (entry.edge) return;
    if (entry.feed) {
      out.boxes.push({
        node: entry.feed,
        feed: true,
        x: dx + x - NODE_W / 2,
        y: dy + y,
        w: NODE_W,
        h: entry.h,
      });
      return;
    }
    if (entry.part) {
      out.boxes.push({
        node: entry.node,
        x: dx + x - entry.left,
        y: dy + y,
        w: entry.left + entry.right,
        h: entry.h,
        open: true,
      });
      emit(entry.part, dx + x - entry.left + entry.shift, dy + y + TITLE, out);
      return;
    }
    const h = entry.node.kind === "repeat" ? entry.h - 8 : entry.h;
    out.boxes.push({
      node: entry.node,
      x: dx + x - NODE_W / 2,
      y: dy + y + (h - NODE_H) / 2,
      w: NODE_W,
      h: NODE_H,
      pills: entry.pills,
      pillsAt: dy + y,
    });
  });
  part.paths.forEach((points, place) => {
    const { link } = part.ends[place];
    // lines of values that enter and leave begin and end at the frame
    if (typeof link.from === "string") points[0] = { ...points[0], y: 4 - TITLE };
    if (typeof link.to === "string") points[points.length - 1] = { ...points.at(-1), y: part.height + PAD };
    const ends = [link.from, link.to].map((end) => (typeof end === "string" ? null : end.id));
    out.edges.push({
      points,
      dx,
      dy,
      names: link.names,
      from: ends[0] ?? link.source,
      to: ends[1],
      arrow: ends[1] !== null && !part.entries[part.ends[place].to].part,
      source: link.source,
    });
  });
}
