// Asks now and then whether the store has changed, while somebody looks.
import { ask } from "./lib.svelte.js";

const POINTS = 300;
export const pulse = $state({ on: true, revision: null, now: null, lost: false });
/** What was seen so far, of the store that is looked at. */
export const seen = { store: null, points: [] };

let under = false;
export async function look(store) {
  if (!pulse.on || document.hidden || under) return;
  under = true;
  try {
    const now = await ask("/api/pulse", { store });
    if (seen.store !== store) {
      seen.store = store;
      seen.points = [];
    }
    seen.points.push(now);
    if (seen.points.length > POINTS) seen.points.shift();
    pulse.now = now;
    pulse.lost = false;
    if (now.revision !== pulse.revision) pulse.revision = now.revision;
  } catch (error) {
    pulse.lost = error.kind === undefined;
  } finally {
    under = false;
  }
}
