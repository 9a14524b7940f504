// Asks now and then whether the store has changed, while somebody looks.
import { ask } from "./lib.svelte.js";

const POINTS = 300;
/** `turns` counts how often the store was another than before, `traceTurns` how often the traces were. */
export const pulse = $state({ on: true, revision: null, turns: 0, traces: null, traceTurns: 0, now: null, lost: false });
/** What was seen so far, of the store that is looked at. */
export const seen = { store: null, points: [] };

/** Since when there are answers that the pages show, and whether nobody saw them in between. */
const begun = window.ahead?.begun ?? performance.now();
let hidden = document.hidden;
document.addEventListener("visibilitychange", () => (hidden ||= document.hidden));
const LATE = 1000;

/** The store that is asked about, until the answer is there. */
let under = null;
export async function look(store) {
  if (seen.store !== store) {
    // What was said of another store is not said of this one, however long its own answer takes.
    seen.store = store;
    seen.points = [];
    pulse.now = null;
  }
  if (!pulse.on || document.hidden || under === store) return;
  under = store;
  try {
    const now = await ask("/api/pulse", { store });
    pulse.lost = false;
    // Another may be looked at by now.
    if (seen.store !== store) return;
    seen.points.push(now);
    if (seen.points.length > POINTS) seen.points.shift();
    pulse.now = now;
    const traces = now.trace_bytes.join();
    if (traces !== pulse.traces) {
      if (pulse.traces !== null || hidden || performance.now() - begun > LATE) pulse.traceTurns++;
      pulse.traces = traces;
    }
    if (now.revision !== pulse.revision) {
      // The first one is of what was asked for at the same time, unless it comes late, as where the page was opened out of
      // sight: the store may have changed since.
      if (pulse.revision !== null || hidden || performance.now() - begun > LATE) pulse.turns++;
      pulse.revision = now.revision;
    }
  } catch (error) {
    pulse.lost = error.kind === undefined;
  } finally {
    if (under === store) under = null;
  }
}
