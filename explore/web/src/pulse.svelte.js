// Asks now and then whether the store has changed, while somebody looks.
import { ask } from "./lib.svelte.js";

const POINTS = 300;
/** `turns` counts how often the store was another than before. */
export const pulse = $state({ on: true, revision: null, turns: 0, now: null, lost: false });
/** What was seen so far, of the store that is looked at. */
export const seen = { store: null, points: [] };

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
    if (now.revision !== pulse.revision) {
      // The first one is of what was asked for at the same time.
      if (pulse.revision !== null) pulse.turns++;
      pulse.revision = now.revision;
    }
  } catch (error) {
    pulse.lost = error.kind === undefined;
  } finally {
    if (under === store) under = null;
  }
}
